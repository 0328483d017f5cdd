"""Leases as an operator sees them and takes them back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, func, select, true

from poolsql.database.engine import Database
from poolsql.database.tables import attempts, launchers, leases, pools, profiles, workers
from poolsql.errors import BadInputError, UnknownNameError
from poolsql.leasing import fencing
from poolsql.leasing.fencing import Taken
from poolsql.leasing.states import LeaseState
from poolsql.operations.names import find_pool_id
from poolsql.operations.workers import find_worker_id


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
            live = select(leases.c.id, leases.c.state).where(which)
            ended = select(attempts.c.lease_id, attempts.c.outcome).where(attempts.c.lease_id.in_(lease_ids))
            states = {row.id: row.state for row in connection.execute(live)}
            outcomes = {row.lease_id: row.outcome for row in connection.execute(ended)}
            unknown = [str(number) for number in lease_ids if number not in states and number not in outcomes]
            if unknown:
                raise UnknownNameError(f"there is no lease {', '.join(unknown)}; see: poolsql lease list")
            for number in lease_ids:
                if states.get(number) == LeaseState.RECLAIMING:
                    already.append(f"lease {number} is reclaiming already")
                elif number not in states:
                    already.append(f"lease {number} has ended already, as {outcomes[number]}")
    return Revoked(fencing.revoke(database, which, who=who, reason=reason), already)
