"""Whether what a fleet.toml refers to is there, in the file or in the database, and nothing contradicts the latter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from poolsql.configuration.canonical import same
from poolsql.configuration.entries import FleetFile, JobEntry, Mention, ProfileEntry
from poolsql.configuration.locations import Path
from poolsql.configuration.pinning import check_directories, check_pins
from poolsql.configuration.problems import Problems
from poolsql.configuration.profile_reading import PROFILE_KEYS
from poolsql.configuration.stored import Stored
from poolsql.errors import BadInputError
from poolsql.fleet.browsers import build_launcher
from poolsql.launchers.contract import Launcher
from poolsql.leasing.registry import LauncherRow
from poolsql.scheduling.schedules import Once
from poolsql.settings import Settings
from poolsql.text import did_you_mean


def check_references(file: FleetFile, stored: Stored, settings: Settings, problems: Problems) -> None:
    """Note everything in a file that does not fit what there is.

    A file may refer to pools, launchers and proxies that only the database has: somebody else declares them.
    """
    check = _Check(file, stored, settings, problems)
    for launcher in file.launchers.values():
        known = stored.launchers.get(launcher.name)
        if known is not None and known.kind != launcher.kind:
            problems.add(
                (*launcher.path, "kind"),
                f"launcher {launcher.name!r} exists and is of kind {known.kind!r}; choose another name",
            )
    for mention in file.mentions:
        check.mention(mention)
    for profile in file.profiles:
        check.profile(profile)
    for job in file.jobs.values():
        check.job(job)
    check_pins(file, stored, problems)
    check_directories(file, stored, problems)


def keys_wanted(file: FleetFile) -> set[str]:
    """The keys that targets of jobs may mean by the profiles that they name: ``key`` or ``launcher/key``."""
    wanted: set[str] = set()
    for job in file.jobs.values():
        for _, name in job.wanted_profiles:
            parts = name.split("/")
            wanted |= {"/".join(parts[start:]) for start in range(len(parts))}
    return wanted


class _Check:
    def __init__(self, file: FleetFile, stored: Stored, settings: Settings, problems: Problems) -> None:
        self._file = file
        self._stored = stored
        self._settings = settings
        self._problems = problems
        self._known: Mapping[str, set[str]] = {
            "pool": {*file.named["pools"], *stored.pools},
            "launcher": {*file.named["launchers"], *stored.launchers},
            "proxy": {*file.named["proxies"], *stored.proxies},
        }
        self._launchers: dict[str, Launcher | None] = {}
        self._checked: set[Path] = set()
        self._profiles: dict[str, set[tuple[str, str]]] = {}
        """Launchers and keys by pool."""
        for profile in file.profiles:
            self._profiles.setdefault(profile.pool, set()).add(profile.identity)
        for pool, launcher, key in stored.named_profiles:
            self._profiles.setdefault(pool, set()).add((launcher, key))

    def mention(self, mention: Mention) -> None:
        """One name of a pool, launcher or proxy."""
        kind, name = mention.kind, mention.name
        if name not in self._known[kind]:
            guess = did_you_mean(name, self._known[kind])
            self._problems.add(
                (*mention.table, kind), f"there is no {kind} {name!r}, neither in this file nor in the database{guess}"
            )

    def profile(self, entry: ProfileEntry) -> None:
        """One profile."""
        # A table with many ids is looked at once.
        if entry.table not in self._checked:
            self._checked.add(entry.table)
            self._options(entry)
        known = self._stored.profiles.get(entry.identity)
        if known is not None and known.pool != entry.pool:
            self._problems.add(
                entry.path,
                f"launcher {entry.launcher!r} has profile {entry.key!r} in pool {known.pool!r} already, and profiles "
                "stay in their pools",
            )

    def job(self, entry: JobEntry) -> None:
        """One job."""
        self._once(entry)
        members = self._profiles.get(entry.pool, set())
        for place, name in entry.wanted_profiles:
            if not any(name in {key, f"{launcher}/{key}"} for launcher, key in members):
                guess = did_you_mean(name, [key for _, key in members])
                self._problems.add(place, f"pool {entry.pool!r} has no profile {name!r}{guess}")
        if entry.parsed.launch:
            for launcher in sorted(self._launchers_of(entry.pool)):
                told = self._refused(launcher, entry.parsed.launch, of_start=True)
                if told is not None:
                    self._problems.add(
                        (*entry.path, "launch"), f"launcher {launcher!r} of pool {entry.pool!r} cannot take it: {told}"
                    )

    def _once(self, entry: JobEntry) -> None:
        if not isinstance(entry.schedule, Once) or entry.schedule.at > self._stored.now:
            return
        known = self._stored.jobs.get(entry.name)
        if known is None or not same(known.schedule, entry.schedule.to_json()):
            self._problems.add(
                (*entry.path, "schedule"), f"{entry.schedule} is over, so the job would never run; write a later time"
            )

    def _options(self, entry: ProfileEntry) -> None:
        options = dict(entry.options)
        for name, value in entry.options.items():
            guess = did_you_mean(name, PROFILE_KEYS)
            if guess and (
                entry.launcher not in self._known["launcher"] or self._refused(entry.launcher, {name: value})
            ):
                self._problems.add((*entry.table, name), f"unknown key{guess}")
                del options[name]
        told = self._refused(entry.launcher, options)
        if told is not None:
            self._problems.add_told(entry.table, options, told)

    def _refused(self, name: str, options: Mapping[str, Any], *, of_start: bool = False) -> str | None:
        """Why a launcher cannot take options; None: it can, or the launcher itself is wrong or not there."""
        launcher = self._launcher(name)
        if launcher is None or not options:
            return None
        try:
            launcher.check_options(options, of_start=of_start)
        except BadInputError as error:
            # What kind of launcher it is, is known from the place.
            before, separator, told = str(error).partition(" launcher: ")
            return told if separator and before.startswith("options of a") else str(error)
        return None

    def _launcher(self, name: str) -> Launcher | None:
        if name not in self._launchers:
            self._launchers[name] = next((launcher for launcher in self._built(name)), None)
        return self._launchers[name]

    def _built(self, name: str) -> Iterator[Launcher]:
        known = self._file.launchers.get(name)
        if known is None and name not in self._file.named["launchers"]:
            row = self._stored.launchers.get(name)
            kind, options = (row.kind, row.options) if row is not None else ("", {})
        elif known is not None:
            kind, options = known.kind, known.options
        else:
            return
        try:
            yield build_launcher(LauncherRow(name, kind, options), self._settings)
        except BadInputError:
            return  # told where the file declares it, and no business of the file otherwise

    def _launchers_of(self, pool: str) -> set[str]:
        declared = {profile.launcher for profile in self._file.profiles if profile.pool == pool}
        return {*declared, *self._stored.launchers_of_pools.get(pool, ())}
