"""Comparing a fleet.toml with the database: what has to change, and whether it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from poolsql.configuration.canonical import same
from poolsql.configuration.changes import ADOPTED, Action, Change, Difference, Plan
from poolsql.configuration.entries import Entry, FleetFile, JobEntry, LauncherEntry, ProfileEntry
from poolsql.configuration.leftovers import gone
from poolsql.configuration.problems import FleetFileError, Problems
from poolsql.configuration.references import check_references, keys_wanted
from poolsql.configuration.stored import Stored, read_stored
from poolsql.database.engine import Database
from poolsql.errors import BadInputError
from poolsql.leasing.states import ProfileState
from poolsql.scheduling.schedules import schedule_from_json
from poolsql.scheduling.targets import check_query
from poolsql.settings import Settings

_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""An interval is told the same wherever it begins."""


def plan(database: Database, settings: Settings, file: FleetFile, *, prune: bool = False) -> Plan:
    """Say what applying a file would change. Nothing is changed.

    Args:
        file: As `read_fleet_file` or `load_fleet_file` gave it.
        prune: What is declared and not in the file is to be removed.

    Raises:
        FleetFileError: The file is wrong by itself or does not fit the database; all of it is told at once.
        DatabaseUnavailableError: The database could not be reached.
    """
    problems = file.collector.fresh()
    for place, query in file.queries:
        try:
            check_query(database, query)
        except BadInputError as error:
            problems.add(place, str(error).removeprefix("targets.query: "))
    with database.transaction() as connection:
        return plan_on(connection, settings, file, prune=prune, problems=problems)


def plan_on(
    connection: Connection, settings: Settings, file: FleetFile, *, prune: bool, problems: Problems | None = None
) -> Plan:
    """`plan` as a part of the caller's transaction, without trying the queries of targets.

    Args:
        problems: What is known to be wrong already.
    """
    problems = problems or file.collector.fresh()
    stored = read_stored(
        connection,
        profile_names=[profile.identity for profile in file.profiles],
        keys=keys_wanted(file),
        host_names=file.hosts,
    )
    check_references(file, stored, settings, problems)
    if file.problems or problems.found:
        raise FleetFileError(file.path, [*file.problems, *problems.found])
    changes = [*_differences(file, stored), *gone(connection, file, stored, prune=prune)]
    return Plan(file=file, prune=prune, changes=changes, notes=_notes(file, stored))


@dataclass(frozen=True, slots=True)
class _Found:
    """What the database has of one thing."""

    id: int | None
    declared: bool
    values: Mapping[str, Any]


def _differences(file: FleetFile, stored: Stored) -> Iterator[Change]:
    for pool in file.pools.values():
        known = stored.pools.get(pool.name)
        found = _Found(known.id, known.declared, known.policy.columns()) if known else None
        yield from _change("pool", pool.name, pool, pool.policy.columns(), found)
    for launcher in file.launchers.values():
        yield from _launcher(launcher, stored)
    for proxy in file.proxies.values():
        row = stored.proxies.get(proxy.name)
        found = _Found(row.id, row.declared, _values_of_proxy(row)) if row else None
        yield from _change("proxy", proxy.name, proxy, _values_of_proxy(proxy), found)
    for host in file.hosts.values():
        site = stored.hosts.get(host.name)
        # A row that only remembers the pace of a host that was visited is no declaration.
        found = _Found(None, site.declared, {"delay": site.delay}) if site else None
        yield from _change("host", host.name, host, {"delay": host.delay}, found)
    for profile in file.profiles:
        yield from _profile(profile, stored)
    for job in file.jobs.values():
        yield from _job(job, stored)


def _launcher(entry: LauncherEntry, stored: Stored) -> Iterator[Change]:
    row = stored.launchers.get(entry.name)
    machines = list(entry.machines) if entry.machines is not None else None
    found = _Found(row.id, row.declared, {"machines": row.machines, **row.options}) if row else None
    yield from _change("launcher", entry.name, entry, {"machines": machines, **entry.options}, found)


def _values_of_proxy(proxy: Any) -> dict[str, Any]:
    return {name: getattr(proxy, name) for name in ("server", "username", "secret", "shared")}


def _profile(entry: ProfileEntry, stored: Stored) -> Iterator[Change]:
    row = stored.profiles.get(entry.identity)
    values = _values_of_profile(entry)
    found = _Found(row.id, row.declared, _values_of_profile(row)) if row else None
    group = f"launcher {entry.launcher} in pool {entry.pool}"
    note = "new: it waits for profile activate" if entry.new and row is None else ""
    yield from _change("profile", "/".join(entry.identity), entry, values, found, group=group, note=note)


def _values_of_profile(profile: Any) -> dict[str, Any]:
    return {"proxy": profile.proxy, "tags": list(profile.tags), "seed": profile.seed, **profile.options}


def _job(entry: JobEntry, stored: Stored) -> Iterator[Change]:
    row = stored.jobs.get(entry.name)
    schedule = entry.schedule.to_json() if entry.schedule is not None else None
    values = {"pool": entry.pool, "schedule": schedule, **_firing(entry), **entry.definition}
    found = None
    if row is not None:
        found = _Found(
            row.id, row.declared, {"pool": row.pool, "schedule": row.schedule, **_firing(row), **row.definition}
        )
    yield from _change("job", entry.name, entry, values, found)


def _firing(job: Any) -> dict[str, Any]:
    return {"overlap": job.overlap, "misfire": job.misfire.value, "misfire_grace": job.misfire_grace}


def _change(
    kind: str,
    name: str,
    entry: Entry,
    values: Mapping[str, Any],
    found: _Found | None,
    *,
    group: str = "",
    note: str = "",
) -> Iterator[Change]:
    """What makes a thing of the database equal to the file's; nothing when it is."""
    if found is None:
        yield Change(action=Action.ADD, kind=kind, name=name, entry=entry, group=group, note=note)
        return
    differences = [
        _difference(key, found.values.get(key), values.get(key))
        for key in {**values, **found.values}
        if not _equal(found.values.get(key), values.get(key))
    ]
    if differences or not found.declared:
        yield Change(
            action=Action.CHANGE,
            kind=kind,
            name=name,
            entry=entry,
            stored_id=found.id,
            group="" if differences else group,
            differences=differences,
            note="" if found.declared else ADOPTED,
        )


def _difference(key: str, before: Any, after: Any) -> Difference:
    if key == "schedule":
        before, after = _told_schedule(before), _told_schedule(after)
    return Difference(key, before, after)


def _told_schedule(data: Mapping[str, Any] | None) -> str | None:
    if data is None:
        return None
    try:
        return str(schedule_from_json(data, anchor=_ANY_TIME))
    except BadInputError:  # written by a version that knew other schedules
        return str(data)


def _equal(one: Any, other: Any) -> bool:
    try:
        return same(one, other)
    except TypeError:  # no JSON, such as a duration
        return bool(one == other)


def _notes(file: FleetFile, stored: Stored) -> list[str]:
    retired = [
        profile.key
        for profile in file.profiles
        if (row := stored.profiles.get(profile.identity)) is not None and row.state is ProfileState.RETIRED
    ]
    if not retired:
        return []
    shown = ", ".join(retired[:5]) + (f" and {len(retired) - 5:,} more" if len(retired) > 5 else "")
    verb = "is" if len(retired) == 1 else "are"
    return [f"{shown} {verb} retired and will stay so: poolsql profile restore"]
