"""Taking leases from their holders by hand: all of them after a failover, or those that an operator names."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, ColumnElement, Connection, any_, literal, select, true, update
from sqlalchemy.sql import func

from poolsql.database.engine import Database
from poolsql.database.tables import leases, profiles
from poolsql.leasing import audit
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reaper import FINISH_RECLAIM
from poolsql.leasing.reports import Attempt, attempt_from, cleaned
from poolsql.leasing.states import LeaseState

OPERATORS_WORD = "operator"
"""Instead of a rung of the stop ladder: a person said that the browser is stopped."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A lease that was taken from its holder; it is reclaiming from now on."""

    lease_id: int
    profile_id: int
    profile: str
    """The profile's key."""
    worker_id: UUID


def fence(database: Database, *, who: str, reason: str | None = None) -> int:
    """Take every live lease away from its holder, and return how many that were (I2).

    The database that was restored, or that took over, may have forgotten renewals, browser starts and releases. So
    each lease becomes reclaiming, also one without a recorded browser: its holder's renewal and release are refused,
    and the reaper ends it. Nobody is blamed but the worker. Leases that are granted from now on are good ones.

    Args:
        database: The database that is in charge now.
        who: Who fences, for the audit.
        reason: Why, for the audit and for the attempts that the leases end as.

    Raises:
        DatabaseError: Nothing was changed.
    """
    with database.transaction() as connection:
        fenced = _take(connection, true(), Outcome.LEASE_EXPIRED, "fenced", reason)
        audit.record(connection, who=who, action="fence", subject=f"{len(fenced)} leases", reason=reason)
    return len(fenced)


def revoke(database: Database, which: ColumnElement[bool], *, who: str, reason: str | None = None) -> list[Taken]:
    """Take the live leases that a condition on `leases` names from their holders, as `fence` does with all.

    They end as cancelled, which blames nobody: their profiles are offered again when their browsers have stopped.
    Those that are reclaiming already stay as they are. Each lease has an audit entry of its own.

    Raises:
        DatabaseError: Nothing was changed.
    """
    with database.transaction() as connection:
        taken = _take(connection, which, Outcome.CANCELLED, "revoked", reason)
        for lease in taken:
            subject = f"lease {lease.lease_id} of profile {lease.profile}"
            audit.record(connection, who=who, action="lease revoke", subject=subject, reason=reason)
    return taken


def end_unproven(database: Database, lease_id: int, *, who: str, reason: str) -> Attempt | None:
    """End a reclaiming lease on a person's word that its browser is stopped; its profile is offered again. Audited.

    For a browser that nobody can prove stopped any more, such as one of a machine that never comes back. The word
    takes the place of the proof that I3 asks for.

    Returns:
        None: the lease is not reclaiming; nothing was changed.

    Raises:
        DatabaseError: Nothing was changed.
    """
    query = (
        select(leases.c.token, profiles.c.key)
        .join(profiles, profiles.c.id == leases.c.profile_id)
        .where(leases.c.id == lease_id, leases.c.state == LeaseState.RECLAIMING.value)
    )
    with database.transaction() as connection:
        found = connection.execute(query).one_or_none()
        if found is None:
            return None
        finish = {"lease_id": lease_id, "token": found.token, "stop_rung": OPERATORS_WORD, **LINE}
        ended = connection.exec_driver_sql(FINISH_RECLAIM.query, finish).one_or_none()
        if ended is None:
            return None  # a reaper was faster
        subject = f"lease {lease_id} of profile {found.key}: its browser is stopped"
        audit.record(connection, who=who, action="lease revoke", subject=subject, reason=reason)
    return attempt_from(ended)


def _take(
    connection: Connection, which: ColumnElement[bool], outcome: Outcome, how: str, reason: str | None
) -> list[Taken]:
    now = func.clock_timestamp()
    # Locked in the order in which everybody locks leases, and then seen as the locks found them.
    live = (
        select(leases.c.id, leases.c.profile_id, profiles.c.key, leases.c.worker_id)
        .join(profiles, profiles.c.id == leases.c.profile_id)
        .where(leases.c.state == LeaseState.HELD.value, which)
        .order_by(leases.c.id)
        .with_for_update(of=leases)
    )
    taken = [Taken(*row) for row in connection.execute(live)]
    connection.execute(
        update(leases)
        .where(leases.c.id == any_(literal([lease.lease_id for lease in taken], ARRAY(BigInteger))))
        .values(
            state=LeaseState.RECLAIMING.value,
            reclaim_since=now,
            reclaim_outcome=outcome.value,
            reclaim_detail=cleaned(f"{how}: {reason}" if reason else how),
            reclaim_next_at=now,
        )
    )
    return taken
