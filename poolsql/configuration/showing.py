"""Writing down the fleet that a database holds, as a fleet.toml that `apply` takes and that changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, select

from poolsql.configuration.reading import OFF
from poolsql.configuration.stored import Stored, StoredJob, StoredProfile, read_stored
from poolsql.configuration.toml_writing import toml_key, toml_table
from poolsql.database.engine import Database
from poolsql.database.tables import hosts
from poolsql.durations import format_duration, parse_duration
from poolsql.errors import BadInputError
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.states import ProfileState
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.targets import TargetSource


def fleet_toml(database: Database) -> str:
    """The fleet as a fleet.toml: also what was defined in code or imported.

    Retired profiles are left out, with the launchers and proxies that only they had and that no file declares. So is
    what operators do from day to day, such as pauses.

    Raises:
        BadInputError: The database holds something that TOML cannot say.
        DatabaseUnavailableError: The database could not be reached.
    """
    with database.transaction() as connection:
        stored = read_stored(connection, profile_names=None)
        known_hosts = _hosts(connection, stored)
    worn_out = _worn_out(stored)
    tables = [
        *_pools(stored),
        *(
            toml_table(
                _header("launchers", name), {"kind": row.kind, "machines": row.machines, **_without_null(row.options)}
            )
            for name, row in stored.launchers.items()
            if row.declared or ("launcher", name) not in worn_out
        ),
        *(
            toml_table(
                _header("proxies", name),
                {"server": row.server, "username": row.username, "secret": row.secret, "shared": row.shared or None},
            )
            for name, row in stored.proxies.items()
            if row.declared or ("proxy", name) not in worn_out
        ),
        *(toml_table(_header("hosts", name), {"delay": _duration(delay)}) for name, delay in known_hosts.items()),
        *_profiles(stored),
        *(toml_table(_header("jobs", name), _job(row)) for name, row in stored.jobs.items()),
    ]
    return "\n".join(tables)


def _worn_out(stored: Stored) -> set[tuple[str, str]]:
    """Kinds and names of the launchers and proxies that have profiles, all of them retired."""
    names = {
        retired: {
            (kind, name)
            for profile in stored.profiles.values()
            if (profile.state is ProfileState.RETIRED) is retired
            for kind, name in (("launcher", profile.launcher), ("proxy", profile.proxy))
            if name is not None
        }
        for retired in (True, False)
    }
    return names[True] - names[False]


def _header(kind: str, name: str) -> str:
    return f"[{kind}.{toml_key(name)}]"


def _pools(stored: Stored) -> Iterator[str]:
    usual = PoolPolicy()
    for name, row in stored.pools.items():
        values: dict[str, Any] = {}
        for field in fields(PoolPolicy):
            value = getattr(row.policy, field.name)
            # Without a renew of its own, a pool gets one that follows from its ttl.
            if value != getattr(usual, field.name) or (field.name == "renew" and "ttl" in values):
                values[field.name] = OFF if value is None else _duration(value) if _is_duration(value) else value
        yield toml_table(_header("pools", name), values)


def _hosts(connection: Connection, stored: Stored) -> dict[str, timedelta | None]:
    """The hosts that somebody has said something about, and those that targets of jobs need."""
    known = {name: row.delay for name, row in stored.hosts.items()}
    for job in stored.jobs.values():
        for spec in _entries_of(job):
            known.setdefault(spec, None)
    delays = connection.execute(select(hosts.c.name, hosts.c.delay).where(hosts.c.name.in_(known)))
    return dict(sorted({**known, **{row.name: row.delay for row in delays}}.items()))


def _entries_of(job: StoredJob) -> Iterator[str]:
    try:
        source = TargetSource.parse(job.definition.get("targets"))
    except BadInputError:  # written by a version that knew other sources
        return
    for entry in source.entries or ():
        yield entry.target.host


def _profiles(stored: Stored) -> Iterator[str]:
    alike: list[tuple[dict[str, Any], list[str]]] = []
    places: dict[str, int] = {}
    for profile in stored.profiles.values():
        if profile.state is ProfileState.RETIRED:
            continue
        values = _values(profile)
        mark = repr(sorted(values.items(), key=lambda item: item[0]))
        # Many that differ in their ids alone share a table; a pinned proxy or a seed is one profile's own.
        if mark not in places or profile.proxy is not None or profile.seed is not None:
            places[mark] = len(alike)
            alike.append((values, []))
        alike[places[mark]][1].append(profile.key)
    for values, keys in alike:
        named = {"id": keys[0]} if len(keys) == 1 else {"ids": keys}
        first = {name: values[name] for name in ("pool", "launcher")}
        yield toml_table("[[profiles]]", {**first, **named, **values})


def _values(profile: StoredProfile) -> dict[str, Any]:
    return {
        "pool": profile.pool,
        "launcher": profile.launcher,
        "proxy": profile.proxy,
        "tags": list(profile.tags) or None,
        "seed": profile.seed,
        "state": profile.state.value if profile.state is ProfileState.NEW else None,
        **_without_null(profile.options),
    }


def _job(row: StoredJob) -> dict[str, Any]:
    schedule, zone = _schedule(row.schedule)
    return {
        "pool": row.pool,
        "schedule": schedule,
        "zone": zone,
        "misfire": row.misfire.value if row.misfire is not Misfire.LATEST else None,
        "misfire_grace": _duration(row.misfire_grace),
        "overlap": row.overlap or None,
        **_without_null(row.definition),
    }


def _schedule(data: Mapping[str, Any] | None) -> tuple[Any, str | None]:
    match data:
        case None:
            return None, None
        case {"cron": expression}:
            zone = data.get("zone", "UTC")
            return expression, zone if zone != "UTC" else None
        case {"every": seconds}:
            return {"every": _duration(timedelta(seconds=seconds))}, None
        case {"once": moment}:
            return {"once": datetime.fromisoformat(moment)}, None
        case _:
            return dict(data), None


def _duration(value: timedelta | None) -> str | float | None:
    """As people write it; in seconds where that would round it."""
    if value is None:
        return None
    told = format_duration(value)
    return told if parse_duration(told) == value else value.total_seconds()


def _is_duration(value: object) -> bool:
    return isinstance(value, timedelta)


def _without_null(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
