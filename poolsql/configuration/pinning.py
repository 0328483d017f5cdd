"""A proxy belongs to one profile, unless it is declared shared; a directory always does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from poolsql.configuration.entries import FleetFile, LauncherEntry, ProfileEntry
from poolsql.configuration.locations import Path
from poolsql.configuration.problems import Problems
from poolsql.configuration.stored import Stored, StoredLauncher, StoredProfile
from poolsql.leasing.states import ProfileState


def check_pins(file: FleetFile, stored: Stored, problems: Problems) -> None:
    """Note each proxy that is not shared and would belong to two profiles once the file was applied."""
    holders: dict[str, ProfileEntry | StoredProfile] = {}
    for profile in _everybody(file, stored):
        proxy = profile.proxy
        if proxy is None or _is_shared(proxy, file, stored):
            continue
        if proxy in holders:
            problems.add(
                _place(profile, proxy, file),
                f"proxy {proxy!r} belongs to {_told(holders[proxy], 'proxy', problems)} and is not shared; give each "
                "profile its own proxy, or declare it shared",
            )
        holders.setdefault(proxy, profile)


def check_directories(file: FleetFile, stored: Stored, problems: Problems) -> None:
    """Note each profile that would have a directory that another one on the same machine has: see `_may_meet`.

    Only launchers that keep profiles on a machine know directories. With others such an option is the product's.
    """
    holders: dict[PurePath, list[tuple[ProfileEntry | StoredProfile, LauncherEntry | StoredLauncher]]] = {}
    for profile in _everybody(file, stored):
        launcher = _launcher(profile.launcher, file, stored)
        directory = profile.options.get("directory")
        if launcher is None or not launcher.pins_machine or not isinstance(directory, str):
            continue
        others = holders.setdefault(PurePath(directory), [])
        rival = next((other for other, its in others if _may_meet(launcher, its)), None)
        if rival is not None and isinstance(profile, ProfileEntry):
            problems.add(
                (*profile.table, "directory"),
                f"belongs to {_told(rival, 'directory', problems)}; two browsers on a directory would destroy it",
            )
        others.append((profile, launcher))


def _everybody(file: FleetFile, stored: Stored) -> Iterator[ProfileEntry | StoredProfile]:
    """All profiles as they will be once the file was applied."""
    # Those of the database first: they were there before, so that it is the file's profile that is blamed.
    declared = {profile.identity for profile in file.profiles}
    yield from (profile for profile in stored.profiles.values() if profile.identity not in declared)
    yield from file.profiles


def _launcher(name: str, file: FleetFile, stored: Stored) -> LauncherEntry | StoredLauncher | None:
    """None: it is wrong or not there, which is told elsewhere."""
    return file.launchers.get(name) if name in file.named["launchers"] else stored.launchers.get(name)


def _may_meet(one: LauncherEntry | StoredLauncher, other: LauncherEntry | StoredLauncher) -> bool:
    """Whether some machine may start profiles of both."""
    return one.machines is None or other.machines is None or bool({*one.machines} & {*other.machines})


def _is_shared(proxy: str, file: FleetFile, stored: Stored) -> bool:
    """Also of a proxy that is wrong or not there: that is told elsewhere."""
    if proxy in file.named["proxies"]:
        return proxy not in file.proxies or file.proxies[proxy].shared
    return proxy not in stored.proxies or stored.proxies[proxy].shared


def _place(profile: ProfileEntry | StoredProfile, proxy: str, file: FleetFile) -> Path:
    if isinstance(profile, ProfileEntry):
        return (*profile.table, "proxy")
    return (*file.proxies[proxy].path, "shared") if proxy in file.proxies else ()


def _told(profile: ProfileEntry | StoredProfile, what: str, problems: Problems) -> str:
    name = f"profile {'/'.join(profile.identity)}"
    if isinstance(profile, ProfileEntry):
        return f"{name} (line {problems.line(profile.path)})"
    if profile.state is ProfileState.RETIRED:
        return f"{name}, which is retired (list it here without the {what} to free that)"
    return f"{name} in the database"
