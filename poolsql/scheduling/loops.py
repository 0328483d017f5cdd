"""A daemon's loops: each round is stamped in the database, a failed one too, and none ends a loop (I10)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import DatabaseError, PoolsqlError
from poolsql.leasing.worker import Worker
from poolsql.text import clean_text

log = logging.getLogger(__name__)

STAMP = Statement.load("poolsql.scheduling", "stamp")

LONGEST_NOTE = 500
"""Characters of a failure that a stamp keeps; the log has all of it."""


class Loop:
    """One kind of work, done again and again by whoever calls `round`."""

    def __init__(
        self,
        name: str,
        work: Callable[[], object],
        *,
        every: float,
        database: Database,
        worker: Worker,
        drain: Callable[[], None],
    ) -> None:
        """Set up a loop.

        Args:
            name: In stamps and logs.
            work: One round.
            every: Seconds between two rounds.
            drain: Called when a stamp's answer says that an operator wants this worker to take on nothing more.
        """
        self.name = name
        self.every = every
        self._work = work
        self._database = database
        self._worker = worker
        self._drain = drain
        self._failing = False
        self._last = elapsed_clock()
        self._at_work = False

    @property
    def idle_for(self) -> float:
        """Seconds since its last round; 0 while one is under way, however long it takes."""
        return 0.0 if self._at_work else elapsed_clock() - self._last

    def round(self) -> None:
        """Do the work once and stamp; never raises an `Exception`."""
        self._at_work = True
        try:
            self._stamp_anyhow(self._do())
        finally:
            self._last = elapsed_clock()
            self._at_work = False

    def _stamp_anyhow(self, note: str | None) -> None:
        try:
            self.stamp(note)
        except DatabaseError as error:
            log.debug("loop %s could not stamp: %s", self.name, error)
        except Exception:
            log.exception("loop %s could not stamp", self.name)

    def stamp(self, note: str | None = None) -> None:
        """Write that the loop came round; with a note: that it failed.

        Raises:
            DatabaseError: The database failed.
        """
        parameters = {
            "worker_id": self._worker.id,
            "machine": self._worker.machine,
            "loop": self.name,
            "every": self.every,
            "note": note,
        }
        # The loop's next round is soon enough to try again.
        if self._database.run(STAMP, parameters, patience=0.0)[0].draining:
            self._drain()

    def _do(self) -> str | None:
        """The work; what went wrong with it."""
        try:
            self._work()
        except PoolsqlError as error:
            if not self._failing:
                log.warning("loop %s fails, trying again: %s", self.name, error)
            problem = str(error)
        except Exception as error:
            log.exception("loop %s fails unexpectedly, trying again", self.name)
            problem = f"{type(error).__name__}: {error}"
        else:
            if self._failing:
                log.info("loop %s goes on", self.name)
            self._failing = False
            return None
        self._failing = True
        return clean_text(problem)[:LONGEST_NOTE]
