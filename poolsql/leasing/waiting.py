"""Waiting for a profile: tries with jittered pauses until one is leased or the time is up.

The pauses are told, not slept: sync callers sleep them, async callers await them, and nobody blocks a thread.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.durations import Duration, format_duration, parse_duration
from poolsql.errors import NoProfileAvailableError
from poolsql.leasing.checkout import Grant, Request, checkout, record_miss
from poolsql.leasing.worker import Worker

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
GROWTH = 1.5


class Wait:
    """One checkout that may have to wait."""

    def __init__(self, database: Database, worker: Worker, request: Request, *, pool: str, wait: Duration) -> None:
        """Set up the wait.

        Raises:
            BadInputError: `wait` is no duration from 0.
        """
        self._database = database
        self._worker = worker
        self._request = request
        self._pool = pool
        self._began = elapsed_clock()
        self._seconds = parse_duration(wait, name="wait").total_seconds()
        self._pause = FIRST_PAUSE

    def try_once(self) -> Grant | None:
        """Try to lease a profile now.

        Raises:
            DatabaseUnavailableError: The database could not be reached.
        """
        return checkout(self._database, self._worker, self._request)

    def pause(self) -> float | None:
        """Seconds to pause before the next try; None when the time is up."""
        left = self._seconds - (elapsed_clock() - self._began)
        if left <= 0:
            return None
        pause = min(left, self._pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the waiters, no secret
        self._pause = min(LONGEST_PAUSE, self._pause * GROWTH)
        return pause

    def give_up(self) -> NoProfileAvailableError:
        """Record the miss, and return the error that tells why and when the next profile is expected."""
        waited = elapsed_clock() - self._began
        miss = record_miss(self._database, self._worker, self._request, waited=waited)
        counted = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in sorted(miss.counts.items()))
        free = _when(miss.next_free_at)
        return NoProfileAvailableError(
            f"pool {self._pool!r}: no profile available"
            + (f" for {self._request.host}" if self._request.host else "")
            + (f" after {format_duration(waited)}" if self._seconds else "")
            + f" ({counted or 'the pool is empty'}){free}",
            next_free_at=miss.next_free_at,
            counts=miss.counts,
        )


def _when(moment: datetime | None) -> str:
    return f"; next one expected at {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment is not None else ""
