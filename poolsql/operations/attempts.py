"""Attempts, the leases that have ended, as an operator sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, Select, func, select

from poolsql.database.engine import Database
from poolsql.database.tables import attempts, launchers, pools, profiles, visits
from poolsql.errors import UnknownNameError
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.states import EndedBy
from poolsql.operations.names import find_pool_id, find_profile
from poolsql.text import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptLine:
    """A lease that has ended."""

    lease_id: int
    pool: str
    launcher: str
    profile: str
    """The profile's key."""
    profile_id: int
    outcome: Outcome
    blames: str
    counted: bool
    """Whether it counted as a failure of the profile."""
    host: str | None
    task: str | None
    detail: str | None
    started_at: datetime
    ended_at: datetime
    took: timedelta
    visits: int
    ended_by: EndedBy
    browser_started: bool
    stop_rung: str | None
    """What proved the browser stopped."""
    worker_id: UUID
    machine: str | None
    available_at: datetime | None
    """When the profile was to be offered again."""
    retired_because: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitLine:
    """One try of one task."""

    id: int
    host: str | None
    url: str | None
    task: str | None
    status: int | None
    outcome: Outcome
    blames: str
    detail: str | None
    started_at: datetime
    ended_at: datetime
    took: timedelta
    bytes: int | None
    retry_after: float | None
    """Seconds that the site told to wait."""
    evidence: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptDetails:
    """An attempt with its visits in order."""

    attempt: AttemptLine
    visits: Sequence[VisitLine]


def list_attempts(
    database: Database,
    *,
    pool: str | None = None,
    profile: str | None = None,
    outcome: Outcome | None = None,
    host: str | None = None,
    limit: int = 50,
) -> list[AttemptLine]:
    """The attempts that ended last, the newest first.

    Args:
        pool: Only those of this pool.
        profile: Only those of this profile: its id, its key, or ``launcher/key``.
        outcome: Only those that ended so.
        host: Only those whose worst visit was to this host.
        limit: At most so many.

    Raises:
        UnknownNameError: There is no such pool or profile.
        BadInputError: The profile's name fits several.
    """
    query = _attempts().order_by(attempts.c.ended_at.desc(), attempts.c.lease_id.desc()).limit(limit)
    with database.connect() as connection:
        if pool is not None:
            query = query.where(attempts.c.pool_id == find_pool_id(connection, pool))
        if profile is not None:
            query = query.where(attempts.c.profile_id == find_profile(connection, profile).id)
        if outcome is not None:
            query = query.where(attempts.c.outcome == outcome.value)
        if host is not None:
            query = query.where(attempts.c.host == clean_text(host))
        return [_attempt(row) for row in connection.execute(query).mappings()]


def show_attempt(database: Database, lease_id: int) -> AttemptDetails:
    """An attempt by the id of its lease, with its visits.

    Raises:
        UnknownNameError: There is no such attempt; says so where the lease has not ended yet.
    """
    took = (visits.c.ended_at - visits.c.started_at).label("took")
    columns = [visits.c[name] for name in VisitLine.__dataclass_fields__ if name != "took"]
    with database.connect() as connection:
        row = connection.execute(_attempts().where(attempts.c.lease_id == lease_id)).mappings().one_or_none()
        if row is None:
            raise UnknownNameError(f"there is no attempt {lease_id}; see: poolsql attempt list, poolsql lease list")
        query = select(*columns, took).where(visits.c.lease_id == lease_id).order_by(visits.c.id)
        made = [
            VisitLine(**{**visit, "outcome": Outcome(visit["outcome"])})
            for visit in connection.execute(query).mappings()
        ]
    return AttemptDetails(attempt=_attempt(row), visits=made)


def _attempts() -> Select[Any]:
    elsewhere = {"pool", "launcher", "profile", "took"}
    # What is gone from the fleet is still in its history.
    return (
        select(
            *(attempts.c[name] for name in AttemptLine.__dataclass_fields__ if name not in elsewhere),
            (attempts.c.ended_at - attempts.c.started_at).label("took"),
            func.coalesce(pools.c.name, "").label("pool"),
            func.coalesce(launchers.c.name, "").label("launcher"),
            func.coalesce(profiles.c.key, "").label("profile"),
        )
        .outerjoin(pools, pools.c.id == attempts.c.pool_id)
        .outerjoin(launchers, launchers.c.id == attempts.c.launcher_id)
        .outerjoin(profiles, profiles.c.id == attempts.c.profile_id)
    )


def _attempt(row: RowMapping) -> AttemptLine:
    return AttemptLine(**{**row, "outcome": Outcome(row["outcome"]), "ended_by": EndedBy(row["ended_by"])})
