"""Leases as an operator sees them and takes them back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, func, select, true

from poolsql.database.engine import Database
from poolsql.database.tables import attempts, launchers, leases, pools, profiles, workers
from poolsql.errors import BadInputError, ConflictError, UnknownNameError
from poolsql.leasing import fencing
from poolsql.leasing.fencing import Taken
from poolsql.leasing.states import LeaseState
from poolsql.operations.names import find_pool_id
from poolsql.operations.workers import find_worker_id
from poolsql.scheduling.health import check_health

REAPING = "reap"
"""The loop of a daemon that ends reclaiming leases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLine:
    """A live lease."""

    id: int
    pool: str
    launcher: str
    profile: str
    """The profile's key."""
    profile_id: int
    state: LeaseState
    task: str | None
    host: str | None
    worker_id: UUID
    machine: str | None
    """The worker's; None: the worker is not known."""
    pid: int | None
    acquired_at: datetime
    held_for: timedelta
    expires_at: datetime
    expires_in: timedelta
    """Negative: it expired, and nobody has taken it back yet."""
    deadline_at: datetime
    browser_state: str
    browser_machine: str | None
    visits: int
    reclaim_since: datetime | None
    reclaim_outcome: str | None
    reclaim_detail: str | None
    reclaim_tries: int
    reclaim_next_at: datetime | None
    reclaim_note: str | None
    """Why its browser is not proven stopped yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """Leases that only wait for the proof that their browsers are stopped."""

    leases: Mapping[int, str]
    """Each with what is known about it, by id."""
    already: Sequence[str]
    """One line for each lease that was named but has ended."""


@dataclass(frozen=True, slots=True)
class Revoked:
    """What came of taking leases back."""

    taken: Sequence[Taken]
    already: Sequence[str]
    """One line for each lease that was named but did not have to be taken."""


def list_leases(
    database: Database, *, pool: str | None = None, worker: str | None = None, state: LeaseState | None = None
) -> list[LeaseLine]:
    """Live leases, the oldest first.

    Args:
        pool: Only those of this pool.
        worker: Only those of this worker; the beginning of its id is enough.
        state: Only those that are held, or reclaiming.

    Raises:
        UnknownNameError: There is no such pool or worker.
        BadInputError: Several workers' ids begin so.
    """
    now = func.clock_timestamp()
    elsewhere = {"pool", "launcher", "profile", "machine", "pid", "held_for", "expires_in"}
    query = (
        select(
            *(leases.c[name] for name in LeaseLine.__dataclass_fields__ if name not in elsewhere),
            pools.c.name.label("pool"),
            launchers.c.name.label("launcher"),
            profiles.c.key.label("profile"),
            workers.c.machine,
            workers.c.pid,
            (now - leases.c.acquired_at).label("held_for"),
            (leases.c.expires_at - now).label("expires_in"),
        )
        .join(profiles, profiles.c.id == leases.c.profile_id)
        .join(pools, pools.c.id == leases.c.pool_id)
        .join(launchers, launchers.c.id == profiles.c.launcher_id)
        .outerjoin(workers, workers.c.id == leases.c.worker_id)
        .order_by(leases.c.id)
    )
    with database.connect() as connection:
        if pool is not None:
            query = query.where(leases.c.pool_id == find_pool_id(connection, pool))
        if worker is not None:
            query = query.where(leases.c.worker_id == find_worker_id(connection, worker))
        if state is not None:
            query = query.where(leases.c.state == state.value)
        rows = connection.execute(query).mappings().all()
    return [LeaseLine(**{**row, "state": LeaseState(row["state"])}) for row in rows]


def revoke_leases(
    database: Database,
    *,
    lease_ids: Sequence[int] = (),
    pool: str | None = None,
    worker: str | None = None,
    everything: bool = False,
    who: str,
    reason: str | None = None,
) -> Revoked:
    """Take leases from their holders: they become reclaiming, and the reaper ends them. Audited one by one.

    A holder's next renewal or release is refused. The profile is offered again once its browser is proven stopped.

    Args:
        lease_ids: These.
        pool: Or all of this pool.
        worker: Or all of this worker; the beginning of its id is enough.
        everything: Or all that there are.

    Raises:
        UnknownNameError: There is no such pool or worker, or one of the leases never existed; nothing was changed.
        BadInputError: Not exactly one of the four was named, or several workers' ids begin so.
    """
    if [bool(lease_ids), pool is not None, worker is not None, everything].count(True) != 1:
        raise BadInputError("say which leases: their ids, or one of a pool, a worker, or all")
    already: list[str] = []
    which: ColumnElement[bool] = true()
    with database.connect() as connection:
        if pool is not None:
            which = leases.c.pool_id == find_pool_id(connection, pool)
        elif worker is not None:
            which = leases.c.worker_id == find_worker_id(connection, worker)
        elif lease_ids:
            which = leases.c.id.in_(lease_ids)
            already = [*_not_held(connection, lease_ids).values()]
    return Revoked(fencing.revoke(database, which, who=who, reason=reason), already)


def unproven_leases(database: Database, lease_ids: Sequence[int]) -> Unproven:
    """What a person has to know before saying that the browsers of reclaiming leases are stopped.

    Raises:
        UnknownNameError: One of the leases never existed.
        BadInputError: One of them is held; it has to be revoked first.
        ConflictError: A daemon that runs can prove it, and has not failed to yet.
    """
    query = (
        select(leases, profiles.c.key)
        .join(profiles, profiles.c.id == leases.c.profile_id)
        .where(leases.c.id.in_(lease_ids))
        .order_by(leases.c.id)
    )
    with database.connect() as connection:
        told = _not_held(connection, lease_ids)
        rows = connection.execute(query).mappings().all()
    questions: dict[int, str] = {}
    for row in rows:
        number, machine = row["id"], row["browser_machine"]
        if row["state"] == LeaseState.HELD.value:
            raise BadInputError(f"lease {number} is held; take it from its worker first: poolsql lease revoke {number}")
        where = f"on {machine}" if machine is not None else "anywhere"
        health = check_health(database, machine=machine)
        reaps = any(loop.loop == REAPING and loop.problem is None for loop in health.loops)
        if reaps and row["reclaim_note"] is None:
            raise ConflictError(f"lease {number}: a daemon that runs {where} is about to stop its browser; wait for it")
        note = row["reclaim_note"]
        tries = f"tried {row['reclaim_tries']} times: {note}" if note else "nobody has tried to stop its browser"
        daemon = "a daemon runs" if reaps else "no daemon runs"
        questions[number] = f"lease {number} of profile {row['key']} ({daemon} {where}; {tries})"
    live = {row["id"] for row in rows}
    return Unproven(leases=questions, already=[line for number, line in told.items() if number not in live])


def end_unproven_leases(database: Database, lease_ids: Sequence[int], *, who: str, reason: str) -> list[int]:
    """End reclaiming leases on a person's word that their browsers are stopped; returns those that were. Audited.

    Each is a change of its own; one that has ended meanwhile, or is not reclaiming, is left out.

    Raises:
        BadInputError: There is no reason; nothing was changed.
    """
    if not reason.strip():
        raise BadInputError("say how you know that the browser is stopped: --reason")
    return [
        number for number in lease_ids if fencing.end_unproven(database, number, who=who, reason=reason) is not None
    ]


def _not_held(connection: Connection, lease_ids: Sequence[int]) -> dict[int, str]:
    """One line for each lease that is reclaiming or has ended, by its id.

    Raises:
        UnknownNameError: One of them never existed.
    """
    live = select(leases.c.id, leases.c.state).where(leases.c.id.in_(lease_ids))
    ended = select(attempts.c.lease_id, attempts.c.outcome).where(attempts.c.lease_id.in_(lease_ids))
    states = {row.id: row.state for row in connection.execute(live)}
    outcomes = {row.lease_id: row.outcome for row in connection.execute(ended)}
    unknown = [str(number) for number in lease_ids if number not in states and number not in outcomes]
    if unknown:
        raise UnknownNameError(f"there is no lease {', '.join(unknown)}; see: poolsql lease list")
    told: dict[int, str] = {}
    for number in lease_ids:
        if states.get(number) == LeaseState.RECLAIMING:
            told[number] = f"lease {number} is reclaiming already"
        elif number not in states:
            told[number] = f"lease {number} has ended already, as {outcomes[number]}"
    return told
