"""Target sites as an operator sees, pauses and stops them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, RowMapping, case, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from poolsql.database.engine import Database
from poolsql.database.tables import cooldowns, hosts
from poolsql.durations import Duration, parse_duration
from poolsql.errors import BadInputError
from poolsql.leasing import audit
from poolsql.operations.names import unknown_name
from poolsql.targets import host_name
from poolsql.text import clean_text


class HostState(StrEnum):
    """Whether anything is loaded from a host."""

    OPEN = "open"
    PAUSED = "paused"
    """Until a moment."""
    STOPPED = "stopped"
    """Until an operator resumes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLine:
    """A target site, with its pace and pauses."""

    name: str
    state: HostState
    delay: timedelta | None
    """Between two loads; None: the default."""
    paused_until: datetime | None
    """None: it is not paused now."""
    paused_for: timedelta | None
    pause_reason: str | None
    """An outcome, or an operator's words."""
    stopped_at: datetime | None
    stop_reason: str | None
    blocks_in_a_row: int
    limits_in_a_row: int
    errors_in_a_row: int
    cooling: int
    """Profiles that cool down on it."""


@dataclass(frozen=True, slots=True)
class HostChange:
    """What came of a change that an operator asked for."""

    host: HostLine
    changed: bool
    """False: it was so already, and nothing was written."""


def list_hosts(database: Database) -> list[HostLine]:
    """All hosts by name: those that are declared, were visited or have been paused."""
    with database.connect() as connection:
        return _hosts(connection)


def pause_host(database: Database, host: str, *, how_long: Duration, who: str, reason: str | None = None) -> HostChange:
    """Load nothing from a host for a while, whether it is known already or not. Audited.

    A pause that lasts longer already is not cut short: the site itself may have asked for it.

    Raises:
        BadInputError: It cannot be a host, or the time is none or 0.
    """
    name = host_name(host)
    wanted = parse_duration(how_long, name="time")
    if not wanted:
        raise BadInputError("a pause of 0 is none; to lift one: poolsql host resume")
    until = func.clock_timestamp() + wanted
    values = {"paused_until": until, "pause_reason": clean_text(reason) if reason else "paused by an operator"}
    with database.transaction() as connection:
        changed = connection.execute(
            upsert(hosts)
            .values(name=name, **values)
            .on_conflict_do_update(
                index_elements=["name"],
                set_=values,
                where=hosts.c.paused_until.is_(None) | (hosts.c.paused_until < until),
            )
            .returning(hosts.c.name)
        ).scalar()
        if changed:
            audit.record(connection, who=who, action="host pause", subject=name, reason=reason)
        (line,) = _hosts(connection, name)
    return HostChange(line, bool(changed))


def stop_host(database: Database, host: str, *, who: str, reason: str | None = None) -> HostChange:
    """Load nothing from a host until it is resumed, whether it is known already or not. Audited.

    Raises:
        BadInputError: It cannot be a host.
    """
    name = host_name(host)
    values = {"stopped_at": func.clock_timestamp(), "stop_reason": clean_text(reason) if reason else None}
    with database.transaction() as connection:
        changed = connection.execute(
            upsert(hosts)
            .values(name=name, **values)
            .on_conflict_do_update(index_elements=["name"], set_=values, where=hosts.c.stopped_at.is_(None))
            .returning(hosts.c.name)
        ).scalar()
        if changed:
            audit.record(connection, who=who, action="host stop", subject=name, reason=reason)
        (line,) = _hosts(connection, name)
    return HostChange(line, bool(changed))


def resume_host(database: Database, host: str, *, who: str, reason: str | None = None) -> HostChange:
    """Lift a host's stop and its pause, and forget what made its pauses grow. Audited.

    Profiles that cool down on it go on doing so.

    Raises:
        UnknownNameError: The host is not known.
        BadInputError: It cannot be a host.
    """
    name = host_name(host)
    counters = ("blocks_in_a_row", "limits_in_a_row", "errors_in_a_row")
    kept_back = (hosts.c.paused_until > func.clock_timestamp()) | hosts.c.stopped_at.is_not(None)
    grown = hosts.c.blocks_in_a_row + hosts.c.limits_in_a_row + hosts.c.errors_in_a_row > 0
    values: dict[str, Any] = {
        **dict.fromkeys(counters, 0),
        **dict.fromkeys(("paused_until", "pause_reason", "stopped_at", "stop_reason")),
    }
    with database.transaction() as connection:
        if connection.execute(select(hosts.c.name).where(hosts.c.name == name)).scalar() is None:
            raise unknown_name("host", name, connection.execute(select(hosts.c.name)).scalars())
        changed = connection.execute(
            update(hosts).where(hosts.c.name == name, kept_back | grown).values(values)
        ).rowcount
        if changed:
            audit.record(connection, who=who, action="host resume", subject=name, reason=reason)
        (line,) = _hosts(connection, name)
    return HostChange(line, bool(changed))


def _hosts(connection: Connection, name: str | None = None) -> list[HostLine]:
    from_tables = ("name", "delay", "pause_reason", "stopped_at", "stop_reason")
    counters = ("blocks_in_a_row", "limits_in_a_row", "errors_in_a_row")
    now = func.clock_timestamp()
    paused = hosts.c.paused_until > now
    counted = (
        select(cooldowns.c.host, func.count().label("number"))
        .where(cooldowns.c.until > now)
        .group_by(cooldowns.c.host)
        .subquery()
    )
    query = (
        select(
            *(hosts.c[column] for column in (*from_tables, *counters)),
            case((paused, hosts.c.paused_until)).label("paused_until"),
            case((paused, hosts.c.paused_until - now)).label("paused_for"),
            func.coalesce(counted.c.number, 0).label("cooling"),
        )
        .outerjoin(counted, counted.c.host == hosts.c.name)
        .order_by(hosts.c.name)
    )
    if name is not None:
        query = query.where(hosts.c.name == name)
    return [_line(row) for row in connection.execute(query).mappings()]


def _line(row: RowMapping) -> HostLine:
    if row["stopped_at"] is not None:
        state = HostState.STOPPED
    elif row["paused_until"] is not None:
        state = HostState.PAUSED
    else:
        state = HostState.OPEN
    values = dict(row)
    if row["paused_until"] is None:
        values["pause_reason"] = None  # of a pause that is over
    return HostLine(**values, state=state)
