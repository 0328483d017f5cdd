"""Taking leases back from holders that are gone: expire, stop the browser, prove it, free the profile.

The reaper depends on nothing that it repairs: it holds no lease, needs no lock that a dead process could keep, and
each of its statements is a guarded one of its own, so that any number of reapers can run at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import PoolsqlError
from poolsql.leasing.line import LINE
from poolsql.leasing.parts import END
from poolsql.leasing.reports import Attempt, attempt_from, cleaned

log = logging.getLogger(__name__)

EXPIRE_FREE = Statement.load("poolsql.leasing", "expire_free", *END)
EXPIRE_STARTED = Statement.load("poolsql.leasing", "expire_started")
CLAIM_RECLAIM = Statement.load("poolsql.leasing", "claim_reclaim")
FINISH_RECLAIM = Statement.load("poolsql.leasing", "finish_reclaim", *END)
NOTE_RECLAIM = Statement.load("poolsql.leasing", "note_reclaim")

BATCH = 500
"""Leases that one statement takes; each batch is a transaction of its own."""

CLAIM_SECONDS = 30.0
"""For how long a claimed stop belongs to one reaper; also the first pause after a stop that failed."""

StopBrowser = Callable[[Mapping[str, Any]], str]
"""Stops the browser that a lease recorded, proves it, and returns the rung of the stop ladder that did it; raises a
`PoolsqlError` when the browser may still run. Given in from above: leasing knows no launcher.

It is given the record, and as ``reclaiming_for`` in it the seconds since the lease was taken back, by the database's
clock: the clocks of machines prove nothing."""


@dataclass(slots=True)
class Reaped:
    """What one round did."""

    expired: int = 0
    """Leases that were taken from their holders."""
    attempts: list[Attempt] = field(default_factory=list)
    """Leases that were ended; their profiles are back."""
    stuck: int = 0
    """Browsers that could not be proven stopped; their leases stay visible as reclaiming."""


class Reaper:
    """One round of reaping at a time; whoever owns it calls `run_once` as often as it likes."""

    def __init__(
        self,
        database: Database,
        *,
        machine: str,
        stop_browser: StopBrowser,
        dead_workers: Callable[[], Iterable[UUID]] = tuple,
        batch: int = BATCH,
        claim_seconds: float = CLAIM_SECONDS,
    ) -> None:
        """Set up a reaper.

        Args:
            machine: Browsers of other machines, where they can only be stopped there, are left to those.
            stop_browser: See `StopBrowser`.
            dead_workers: Workers that are known not to run any more; their leases need not expire first.
            batch: Leases a statement.
            claim_seconds: How long one stop may take before another reaper tries.
        """
        self._database = database
        self._machine = machine
        self._stop_browser = stop_browser
        self._dead_workers = dead_workers
        self._batch = batch
        self._claim_seconds = claim_seconds

    def run_once(self) -> Reaped:
        """Expire what is due and finish what this machine can; returns when nothing is left to do now.

        Raises:
            DatabaseError: The database failed; what was done stays done.
        """
        reaped = Reaped()
        parameters = {"dead_workers": list(self._dead_workers()), "batch": self._batch, **LINE}
        while True:
            rows = self._database.run(EXPIRE_FREE, parameters)
            reaped.expired += len(rows)
            reaped.attempts += [attempt_from(row) for row in rows]
            if len(rows) < self._batch:
                break
        while True:
            rows = self._database.run(EXPIRE_STARTED, parameters)
            reaped.expired += len(rows)
            for row in rows:
                log.warning("lease %d is taken back: %s", row.lease_id, row.outcome, extra={"lease": row.lease_id})
            if len(rows) < self._batch:
                break
        self._reclaim(reaped)
        return reaped

    def _reclaim(self, reaped: Reaped) -> None:
        claim = {"machine": self._machine, "claim_seconds": self._claim_seconds}
        while rows := self._database.run(CLAIM_RECLAIM, claim):
            (row,) = rows
            try:
                # A fenced lease may have none.
                rung = self._stop_browser(row.browser) if row.browser is not None else None
            except PoolsqlError as error:
                reaped.stuck += 1
                log.warning("lease %d: its browser is not proven stopped: %s", row.lease_id, error)
                self._database.run(NOTE_RECLAIM, {"lease_id": row.lease_id, "note": cleaned(str(error))})
                continue
            except Exception as error:
                # One lease that surprises must not keep all others from being reaped.
                reaped.stuck += 1
                log.exception("lease %d: stopping its browser failed unexpectedly", row.lease_id)
                note = cleaned(f"{type(error).__name__}: {error}")
                self._database.run(NOTE_RECLAIM, {"lease_id": row.lease_id, "note": note})
                continue
            finish = {"lease_id": row.lease_id, "token": row.token, "stop_rung": rung, **LINE}
            ended = self._database.run(FINISH_RECLAIM, finish)
            reaped.attempts += [attempt_from(end) for end in ended]
            for end in ended:
                log.info(
                    "lease %d has ended as %s (%s)", end.lease_id, end.outcome, rung, extra={"lease": end.lease_id}
                )
