"""Advisory locks: mutexes between processes, never the truth about a lease (I8).

Only the ``pg_try_*`` forms are used: "could not lock" means that somebody else does the work, so skip it.
"""

from __future__ import annotations

from enum import IntEnum

from sqlalchemy import Connection, text

from poolsql.errors import DatabaseError

LOCK_CLASS = 0x504F4F4C
"""First key of all our locks ("POOL"), so that they meet nobody else's in the same database."""


class Lock(IntEnum):
    """Second key: what is locked."""

    UPGRADE = 1


def try_session_lock(connection: Connection, lock: Lock) -> bool:
    """Take a lock that this very connection holds until `unlock_session` or its end; False when somebody has it."""
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


def _keys(lock: Lock) -> dict[str, int]:
    return {"class": LOCK_CLASS, "key": lock.value}
