"""Workers whose presence has ended: found by the lock that they no longer hold, before their leases expire."""

from __future__ import annotations

from uuid import UUID

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.leasing.presence import present_keys

ABSENT = Statement.load("poolsql.leasing", "absent")

GRACE_SECONDS = 6.0
"""For how long a lock must be missing, each time somebody looks: a worker that lost only its connection takes it again
within a fraction of that."""

LOOK_WITHIN = 5.0
"""Seconds. Two looks that are further apart prove nothing about the time between."""


class Absence:
    """What one reaper has seen of missing locks. It judges by its own looks alone."""

    def __init__(self, database: Database, *, grace: float = GRACE_SECONDS) -> None:
        self._database = database
        self._grace = grace
        self._missing_since: dict[UUID, float] = {}
        self._looked_at = float("-inf")

    def workers(self) -> list[UUID]:
        """Workers that hold leases and were not there for the whole grace.

        Raises:
            DatabaseError: The database failed.
        """
        # A look tells of a moment between these two; whatever is judged by it takes the less certain one.
        asked_at = elapsed_clock()
        present = list(present_keys(self._database))
        missing = [row.worker_id for row in self._database.run(ABSENT, {"present": present})]
        now = elapsed_clock()
        if now - self._looked_at > LOOK_WITHIN:
            self._missing_since = {}
        self._looked_at = asked_at
        self._missing_since = {worker: self._missing_since.get(worker, now) for worker in missing}
        return [worker for worker, since in self._missing_since.items() if asked_at - since >= self._grace]
