"""Pools as an operator sees and changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, func, select, update

from poolsql.database.engine import Database
from poolsql.database.tables import leases, pools, profiles
from poolsql.leasing import audit
from poolsql.leasing.states import LeaseState, ProfileState
from poolsql.leasing.status import PoolStatus, pool_status, pool_statuses
from poolsql.operations.names import find_pool_id
from poolsql.text import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLine:
    """How a pool stands."""

    id: int
    name: str
    active: int
    """Profiles in use: neither new, nor paused, nor retired."""
    target_size: int | None
    short: int
    """Active profiles that are missing from `target_size`; 0 when none is, or there is no target."""
    counts: Mapping[str, int]
    """Each profile once, by the reason why it is not offered; those that are: ``available``."""
    next_free_at: datetime | None
    """When the next profile that waits is expected back; None: none waits, or the pool is paused."""
    paused_at: datetime | None
    pause_reason: str | None
    now: datetime
    """The database's time, which the moments are to be compared with."""


@dataclass(frozen=True, slots=True)
class LeasesLeft:
    """Leases of a pool that is being drained."""

    held: int
    """A worker still has them."""
    reclaiming: int
    """Nobody's; their browsers have to be proven stopped."""


def list_pools(database: Database, name: str | None = None) -> list[PoolLine]:
    """All pools by name, or one.

    Raises:
        UnknownNameError: There is no such pool.
    """
    active = func.count(profiles.c.id).filter(profiles.c.state == ProfileState.ACTIVE.value)
    columns = (pools.c.id, pools.c.name, pools.c.target_size, pools.c.paused_at, pools.c.pause_reason)
    query = (
        select(*columns, active.label("active"), func.clock_timestamp().label("now"))
        .outerjoin(profiles, profiles.c.pool_id == pools.c.id)
        .group_by(pools.c.id)
        .order_by(pools.c.name)
    )
    with database.connect() as connection:
        if name is not None:
            query = query.where(pools.c.id == find_pool_id(connection, name))
        rows = connection.execute(query).mappings().all()
    # One pool is judged alone: the others may have a hundred thousand profiles.
    statuses = (
        {row["id"]: pool_status(database, row["id"]) for row in rows} if name is not None else pool_statuses(database)
    )
    return [_line(row, statuses.get(row["id"], PoolStatus())) for row in rows]


def pause_pool(database: Database, name: str, *, who: str, reason: str | None = None) -> bool:
    """Offer no profile of a pool until it is resumed; leases that are out go on. Audited.

    Returns:
        False when it was paused already; then its reason stays as it was.

    Raises:
        UnknownNameError: There is no such pool.
    """
    return _change(database, name, "pause", who=who, reason=reason)


def resume_pool(database: Database, name: str, *, who: str, reason: str | None = None) -> bool:
    """Offer a paused pool's profiles again. False when it was not paused. Audited.

    Raises:
        UnknownNameError: There is no such pool.
    """
    return _change(database, name, "resume", who=who, reason=reason)


def leases_left(database: Database, name: str) -> LeasesLeft:
    """How many leases of a pool there are; a paused one is drained when none is held any more.

    Raises:
        UnknownNameError: There is no such pool.
    """
    with database.connect() as connection:
        pool_id = find_pool_id(connection, name)
        counted = (
            select(leases.c.state, func.count().label("number"))
            .where(leases.c.pool_id == pool_id)
            .group_by(leases.c.state)
        )
        counts = {row.state: row.number for row in connection.execute(counted)}
    return LeasesLeft(counts.get(LeaseState.HELD.value, 0), counts.get(LeaseState.RECLAIMING.value, 0))


def _change(database: Database, name: str, verb: str, *, who: str, reason: str | None) -> bool:
    pause = verb == "pause"
    with database.transaction() as connection:
        pool_id = find_pool_id(connection, name)
        to_change = pools.c.paused_at.is_(None) if pause else pools.c.paused_at.is_not(None)
        values: dict[str, Any] = {
            "paused_at": func.clock_timestamp() if pause else None,
            "pause_reason": clean_text(reason) if pause and reason else None,
        }
        changed = connection.execute(update(pools).where(pools.c.id == pool_id, to_change).values(values)).rowcount
        if changed:
            audit.record(connection, who=who, action=f"pool {verb}", subject=name, reason=reason)
    return bool(changed)


def _line(row: RowMapping, status: PoolStatus) -> PoolLine:
    short = max(0, (row["target_size"] or 0) - row["active"])
    return PoolLine(**row, short=short, counts=status.counts, next_free_at=status.next_free_at)
