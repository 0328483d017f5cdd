"""What a fleet.toml declares, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from poolsql.configuration.locations import Path
from poolsql.leasing.policy import PoolPolicy

if TYPE_CHECKING:
    from poolsql.configuration.problems import Problem, Problems
    from poolsql.scheduling.definitions import JobDefinition
    from poolsql.scheduling.misfires import Misfire
    from poolsql.scheduling.schedules import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEntry:
    """A table ``[pools.<name>]``."""

    name: str
    path: Path
    policy: PoolPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherEntry:
    """A table ``[launchers.<name>]``."""

    name: str
    path: Path
    kind: str
    options: Mapping[str, Any]
    machines: Sequence[str] | None
    pins_machine: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyEntry:
    """A table ``[proxies.<name>]``; the secret is a reference."""

    name: str
    path: Path
    server: str
    username: str | None
    secret: str | None
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileEntry:
    """One profile of a table ``[[profiles]]``."""

    key: str
    path: Path
    """Of its id."""
    table: Path
    pool: str
    launcher: str
    proxy: str | None
    tags: Sequence[str]
    """Sorted, each once."""
    seed: str | None
    new: bool
    options: Mapping[str, Any]

    @property
    def identity(self) -> tuple[str, str]:
        """Launcher and key, which make it unique."""
        return self.launcher, self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """A table ``[hosts."<name>"]``."""

    name: str
    """As `Target.host` has it."""
    path: Path
    delay: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """A table ``[jobs.<name>]``."""

    name: str
    path: Path
    pool: str
    schedule: Schedule | None
    definition: Mapping[str, Any]
    """As the database keeps it."""
    parsed: JobDefinition
    overlap: bool
    misfire: Misfire
    misfire_grace: timedelta | None
    wanted_profiles: Sequence[tuple[Path, str]]
    """Profiles that targets of the list name, with the targets' places."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A place that names a pool, launcher or proxy."""

    table: Path
    kind: str
    """Which of the three, and the key that does so."""
    name: str


Entry = PoolEntry | LauncherEntry | ProxyEntry | ProfileEntry | HostEntry | JobEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """A fleet.toml as it was read. With `problems`, nothing of it may be applied."""

    path: FilePath
    pools: Mapping[str, PoolEntry] = field(default_factory=dict)
    launchers: Mapping[str, LauncherEntry] = field(default_factory=dict)
    proxies: Mapping[str, ProxyEntry] = field(default_factory=dict)
    profiles: Sequence[ProfileEntry] = ()
    hosts: Mapping[str, HostEntry] = field(default_factory=dict)
    jobs: Mapping[str, JobEntry] = field(default_factory=dict)
    named: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """All names of its pools, launchers, proxies and jobs, also of those whose tables are wrong."""
    mentions: Sequence[Mention] = ()
    """Also those in tables that are wrong, like the queries: all that is wrong is told at once."""
    queries: Sequence[tuple[Path, str]] = ()
    """Queries of targets, with their places."""
    collector: Problems

    @property
    def problems(self) -> Sequence[Problem]:
        """What is wrong in the file by itself, by line."""
        return sorted(set(self.collector.found))
