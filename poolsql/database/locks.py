"""Advisory locks: mutexes between processes, never the truth about a lease (I8).

Only the ``pg_try_*`` forms are used: "could not lock" means that somebody else does the work, so skip it or wait, but
never go on without. A lock of a transaction works everywhere; one of a session only without a connection pooler.
"""

from __future__ import annotations

import time
from enum import IntEnum

from sqlalchemy import Connection, text

from poolsql.clocks import elapsed_clock
from poolsql.errors import DatabaseError

LOCK_CLASS = 0x504F4F4C
"""First key of all our locks ("POOL"), so that they meet nobody else's in the same database."""

LOOK_EVERY = 0.2
"""Seconds between two tries to get a lock. A blocking wait would hold a snapshot, which a migration may wait for."""


class Lock(IntEnum):
    """Second key: what is locked."""

    UPGRADE = 1
    APPLY = 2
    HOUSEKEEPING = 3


def try_session_lock(connection: Connection, lock: Lock) -> bool:
    """Take a lock that this very connection holds until `unlock_session` or its end; False when somebody has it.

    Only for a connection that `keeps_its_session`: through a pooler the lock would be anybody's.
    """
    return bool(connection.execute(text("SELECT pg_try_advisory_lock(:class, :key)"), _keys(lock)).scalar_one())


def unlock_session(connection: Connection, lock: Lock) -> None:
    """Give a session lock back.

    Raises:
        DatabaseError: This connection did not hold it, so what ran under it was not protected.
    """
    if not connection.execute(text("SELECT pg_advisory_unlock(:class, :key)"), _keys(lock)).scalar_one():
        raise DatabaseError(
            f"the advisory lock {lock.name} was not held by its connection; "
            "is a connection pooler in between? Set POOLSQL_DIRECT_DATABASE_URL"
        )


def try_transaction_lock(connection: Connection, lock: Lock) -> bool:
    """Take a lock that ends with the caller's transaction, which does the work; False when somebody has it."""
    return bool(connection.execute(text("SELECT pg_try_advisory_xact_lock(:class, :key)"), _keys(lock)).scalar_one())


def wait_for_transaction_lock(connection: Connection, lock: Lock, *, patience: float) -> None:
    """Take a lock that ends with the caller's transaction, which does the work that it protects.

    The transaction holds no snapshot while it waits, if nothing else was asked in it before.

    Raises:
        DatabaseError: Somebody else held the lock for `patience` seconds.
    """
    give_up_at = elapsed_clock() + patience
    while not try_transaction_lock(connection, lock):
        if elapsed_clock() >= give_up_at:
            raise DatabaseError(
                f"another process has been holding the lock {lock.name} for over {patience:g} s; "
                "wait for it or end it, then try again"
            )
        time.sleep(LOOK_EVERY)


def _keys(lock: Lock) -> dict[str, int]:
    return {"class": LOCK_CLASS, "key": lock.value}
