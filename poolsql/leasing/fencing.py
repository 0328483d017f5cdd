"""Fencing all leases at once: after a restore or a failover nobody's lease is what it seems."""

from __future__ import annotations

from sqlalchemy import ARRAY, BigInteger, any_, insert, literal, select, update
from sqlalchemy.sql import func

from poolsql.database.engine import Database
from poolsql.database.tables import audit, leases
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import cleaned
from poolsql.leasing.states import LeaseState
from poolsql.text import clean_text


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
    who, reason = clean_text(who), cleaned(reason)  # a command line can hold what no text in Postgres can
    now = func.clock_timestamp()
    with database.transaction() as connection:
        # Locked in the order in which everybody locks leases, and then seen as the locks found them.
        live = (
            select(leases.c.id).where(leases.c.state == LeaseState.HELD.value).order_by(leases.c.id).with_for_update()
        )
        fenced = list(connection.execute(live).scalars())
        connection.execute(
            update(leases)
            .where(leases.c.id == any_(literal(fenced, ARRAY(BigInteger))))
            .values(
                state=LeaseState.RECLAIMING.value,
                reclaim_since=now,
                reclaim_outcome=Outcome.LEASE_EXPIRED.value,
                reclaim_detail=f"fenced: {reason}" if reason else "fenced",
                reclaim_next_at=now,
            )
        )
        subject = f"{len(fenced)} leases"
        connection.execute(insert(audit).values(who=who, action="fence", subject=subject, reason=reason))
    return len(fenced)
