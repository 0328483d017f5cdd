"""The fleet as the database has it, as far as a fleet.toml can be about it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ARRAY, Connection, Text, any_, func, literal, or_, select, tuple_

from poolsql.database.tables import hosts, jobs, launchers, pools, profiles, proxies
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.states import ProfileState
from poolsql.scheduling.misfires import Misfire


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPool:
    """A row of pools."""

    id: int
    declared: bool
    policy: PoolPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLauncher:
    """A row of launchers."""

    id: int
    declared: bool
    kind: str
    options: Mapping[str, Any]
    machines: Sequence[str] | None
    pins_machine: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProxy:
    """A row of proxies."""

    id: int
    declared: bool
    server: str
    username: str | None
    secret: str | None
    shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredProfile:
    """A row of profiles."""

    id: int
    declared: bool
    key: str
    launcher: str
    pool: str
    proxy: str | None
    tags: Sequence[str]
    seed: str | None
    options: Mapping[str, Any]
    state: ProfileState

    @property
    def identity(self) -> tuple[str, str]:
        """Launcher and key."""
        return self.launcher, self.key


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHost:
    """A row of hosts."""

    declared: bool
    delay: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredJob:
    """A row of jobs that is in service."""

    id: int
    declared: bool
    pool: str
    schedule: Mapping[str, Any] | None
    definition: Mapping[str, Any]
    overlap: bool
    misfire: Misfire
    misfire_grace: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What there is."""

    now: datetime
    """By the database clock."""
    pools: Mapping[str, StoredPool]
    launchers: Mapping[str, StoredLauncher]
    proxies: Mapping[str, StoredProxy]
    profiles: Mapping[tuple[str, str], StoredProfile]
    """By launcher and key: those that are declared, that have a proxy or a directory of their own, or that were asked
    for."""
    hosts: Mapping[str, StoredHost]
    """Those that are declared, have a delay, or were asked for."""
    jobs: Mapping[str, StoredJob]
    launchers_of_pools: Mapping[str, frozenset[str]]
    """The launchers of each pool's profiles."""
    named_profiles: frozenset[tuple[str, str, str]]
    """Pool, launcher and key of the profiles whose keys were asked for."""


def read_stored(
    connection: Connection,
    *,
    profile_names: Sequence[tuple[str, str]] | None = (),
    keys: Collection[str] = (),
    host_names: Collection[str] = (),
) -> Stored:
    """Look the fleet up.

    Args:
        profile_names: Launchers and keys of profiles to look up besides those that are declared; None: all profiles.
        keys: Keys of profiles whose pools are asked for.
        host_names: Hosts to look up besides those that are declared.
    """
    return Stored(
        now=connection.execute(select(func.clock_timestamp())).scalar_one(),
        pools=_pools(connection),
        launchers=_launchers(connection),
        proxies=_proxies(connection),
        profiles=_profiles(connection, profile_names),
        hosts=_hosts(connection, host_names),
        jobs=_jobs(connection),
        launchers_of_pools=_launchers_of_pools(connection),
        named_profiles=_named_profiles(connection, keys),
    )


def _pools(connection: Connection) -> dict[str, StoredPool]:
    names = [field.name for field in fields(PoolPolicy)]
    rows = connection.execute(select(pools).order_by(pools.c.name)).mappings()
    return {
        row["name"]: StoredPool(
            id=row["id"], declared=row["declared"], policy=PoolPolicy(**{name: row[name] for name in names})
        )
        for row in rows
    }


def _launchers(connection: Connection) -> dict[str, StoredLauncher]:
    names = ("id", "declared", "kind", "options", "machines", "pins_machine")
    rows = connection.execute(select(launchers).order_by(launchers.c.name)).mappings()
    return {row["name"]: StoredLauncher(**{name: row[name] for name in names}) for row in rows}


def _proxies(connection: Connection) -> dict[str, StoredProxy]:
    names = ("id", "declared", "server", "username", "secret", "shared")
    rows = connection.execute(select(proxies).order_by(proxies.c.name)).mappings()
    return {row["name"]: StoredProxy(**{name: row[name] for name in names}) for row in rows}


def _profiles(connection: Connection, names: Sequence[tuple[str, str]] | None) -> dict[tuple[str, str], StoredProfile]:
    query = (
        select(
            *(profiles.c[name] for name in ("id", "declared", "key", "tags", "seed", "options", "state")),
            pools.c.name.label("pool"),
            launchers.c.name.label("launcher"),
            proxies.c.name.label("proxy"),
        )
        .join(pools, pools.c.id == profiles.c.pool_id)
        .join(launchers, launchers.c.id == profiles.c.launcher_id)
        .join(proxies, proxies.c.id == profiles.c.proxy_id, isouter=True)
        .order_by(profiles.c.id)
    )
    if names is not None:
        wanted = (
            func.unnest(
                literal([launcher for launcher, _ in names], ARRAY(Text)),
                literal([key for _, key in names], ARRAY(Text)),
            )
            .table_valued("launcher", "key")
            .render_derived()
        )
        query = query.where(
            or_(
                profiles.c.declared,
                profiles.c.proxy_id.is_not(None),
                profiles.c.options.has_key("directory"),
                tuple_(launchers.c.name, profiles.c.key).in_(select(wanted.c.launcher, wanted.c.key)),
            )
        )
    found = (
        StoredProfile(**{**row, "state": ProfileState(row["state"])}) for row in connection.execute(query).mappings()
    )
    return {profile.identity: profile for profile in found}


def _hosts(connection: Connection, names: Collection[str]) -> dict[str, StoredHost]:
    rows = connection.execute(
        select(hosts.c.name, hosts.c.declared, hosts.c.delay)
        .where(or_(hosts.c.declared, hosts.c.delay.is_not(None), hosts.c.name == _any_text(names)))
        .order_by(hosts.c.name)
    )
    return {row.name: StoredHost(declared=row.declared, delay=row.delay) for row in rows}


def _jobs(connection: Connection) -> dict[str, StoredJob]:
    names = ("id", "declared", "pool", "schedule", "definition", "overlap", "misfire_grace")
    rows = connection.execute(
        select(jobs, pools.c.name.label("pool"))
        .join(pools, pools.c.id == jobs.c.pool_id)
        .where(jobs.c.removed_at.is_(None))
        .order_by(jobs.c.name)
    ).mappings()
    return {
        row["name"]: StoredJob(**{name: row[name] for name in names}, misfire=Misfire(row["misfire"])) for row in rows
    }


def _launchers_of_pools(connection: Connection) -> dict[str, frozenset[str]]:
    used = select(profiles.c.pool_id, profiles.c.launcher_id).distinct().subquery()
    rows = connection.execute(
        select(pools.c.name, func.array_agg(launchers.c.name).label("launchers"))
        .select_from(used)
        .join(pools, pools.c.id == used.c.pool_id)
        .join(launchers, launchers.c.id == used.c.launcher_id)
        .group_by(pools.c.name)
    )
    return {row.name: frozenset(row.launchers) for row in rows}


def _named_profiles(connection: Connection, keys: Collection[str]) -> frozenset[tuple[str, str, str]]:
    if not keys:
        return frozenset()
    rows = connection.execute(
        select(pools.c.name, launchers.c.name, profiles.c.key)
        .select_from(profiles)
        .join(pools, pools.c.id == profiles.c.pool_id)
        .join(launchers, launchers.c.id == profiles.c.launcher_id)
        .where(profiles.c.key == _any_text(keys))
    )
    return frozenset((pool, launcher, key) for pool, launcher, key in rows)


def _any_text(texts: Collection[str]) -> Any:
    return any_(literal(list(texts), ARRAY(Text)))
