"""A daemon's loops: each round is stamped in the database, a failed one too, and none ends a loop (I10)."""

from __future__ import annotations

import logging
from collections.abc import Callable

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import DatabaseError, PoolsqlError
from poolsql.leasing.reports import cleaned
from poolsql.leasing.worker import Worker

log = logging.getLogger(__name__)

STAMP = Statement.load("poolsql.scheduling", "stamp")

LONGEST_NOTE = 500
"""Characters of a failure that a stamp keeps; the log has all of it."""


class Stamps:
    """Where the loops of one daemon leave word that they came round."""

    def __init__(self, database: Database, worker: Worker, *, drain: Callable[[], None]) -> None:
        """Set up the stamps of a daemon.

        Args:
            drain: Called when the database says that an operator wants this worker to take on nothing more.
        """
        self._database = database
        self._worker = worker
        self._drain = drain

    def write(self, loop: str, *, every: float, problem: str | None = None) -> None:
        """Write that a loop came round, and what went wrong; a failure to write is logged only.

        Args:
            loop: Its name.
            every: Seconds between two of its rounds.
            problem: Why the round failed; None: it did not.
        """
        parameters = {
            "worker_id": self._worker.id,
            "machine": self._worker.machine,
            "loop": loop,
            "every": every,
            "note": (cleaned(problem) or "")[:LONGEST_NOTE] if problem is not None else None,
        }
        try:
            # The loop's next round is soon enough to try again.
            draining = self._database.run(STAMP, parameters, patience=0.0)[0].draining
        except DatabaseError as error:
            log.debug("loop %s could not stamp: %s", loop, error)
            return
        if draining:
            self._drain()


class Loop:
    """One kind of work, done again and again by whoever calls `round`."""

    def __init__(self, name: str, work: Callable[[], object], *, every: float, stamps: Stamps) -> None:
        """Set up a loop.

        Args:
            name: In stamps and logs.
            work: One round.
            every: Seconds between two rounds.
            stamps: Told of each round.
        """
        self.name = name
        self.every = every
        self._work = work
        self._stamps = stamps
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
            self._stamps.write(self.name, every=self.every, problem=self._do())
        except Exception:
            log.exception("loop %s could not stamp", self.name)
        finally:
            self._last = elapsed_clock()
            self._at_work = False

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
        return problem
