"""A proxy belongs to one profile, unless it is declared shared."""

from __future__ import annotations

from poolsql.configuration.entries import FleetFile, ProfileEntry
from poolsql.configuration.locations import Path
from poolsql.configuration.problems import Problems
from poolsql.configuration.stored import Stored, StoredProfile
from poolsql.leasing.states import ProfileState


def check_pins(file: FleetFile, stored: Stored, problems: Problems) -> None:
    """Note each proxy that is not shared and would belong to two profiles once the file was applied."""
    declared = {profile.identity for profile in file.profiles}
    others = [profile for profile in stored.profiles.values() if profile.identity not in declared]
    holders: dict[str, ProfileEntry | StoredProfile] = {}
    # Those of the database first: they were there before, so that it is the file's profile that is blamed.
    everybody: list[ProfileEntry | StoredProfile] = [*others, *file.profiles]
    for profile in everybody:
        proxy = profile.proxy
        if proxy is None or _is_shared(proxy, file, stored):
            continue
        if proxy in holders:
            problems.add(
                _place(profile, proxy, file),
                f"proxy {proxy!r} belongs to {_told(holders[proxy], problems)} and is not shared; give each profile "
                "its own proxy, or declare it shared",
            )
        holders.setdefault(proxy, profile)


def _is_shared(proxy: str, file: FleetFile, stored: Stored) -> bool:
    """Also of a proxy that is wrong or not there: that is told elsewhere."""
    if proxy in file.named["proxies"]:
        return proxy not in file.proxies or file.proxies[proxy].shared
    return proxy not in stored.proxies or stored.proxies[proxy].shared


def _place(profile: ProfileEntry | StoredProfile, proxy: str, file: FleetFile) -> Path:
    if isinstance(profile, ProfileEntry):
        return (*profile.table, "proxy")
    return (*file.proxies[proxy].path, "shared") if proxy in file.proxies else ()


def _told(profile: ProfileEntry | StoredProfile, problems: Problems) -> str:
    name = f"profile {'/'.join(profile.identity)}"
    if isinstance(profile, ProfileEntry):
        return f"{name} (line {problems.line(profile.path)})"
    if profile.state is ProfileState.RETIRED:
        return f"{name}, which is retired (list it here without the proxy to free that)"
    return f"{name} in the database"
