"""Waiting for a profile: a first try, then a place in the line until a profile is handed over or the time is up.

Nothing here sleeps: sync callers wait for a ticket's call, async callers await it, and nobody blocks a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.durations import Duration, format_duration, parse_duration
from poolsql.errors import NoProfileAvailableError
from poolsql.leasing.checkout import Grant, Miss, Request, checkout, claim, record_miss
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import LeaseName, release
from poolsql.leasing.stickiness import StickyKey, stick, sticky_profile
from poolsql.leasing.tickets import Ticket, Tickets
from poolsql.leasing.worker import Worker

TRIES_AFTER = 2
"""How often it is tried again when a checkout found nothing and a profile is available all the same."""


class Wait:
    """One checkout that may have to wait."""

    def __init__(
        self,
        database: Database,
        worker: Worker,
        request: Request,
        *,
        pool: str,
        wait: Duration,
        tickets: Tickets,
        listens: Callable[[], bool],
        sticky: StickyKey | None = None,
    ) -> None:
        """Set up the wait.

        Args:
            sticky: Asks for the profile that served this key last.
            listens: Whether the worker is told at once of a lease that is handed to it; asked when it has to wait.

        Raises:
            BadInputError: `wait` is no duration from 0.
        """
        self._database = database
        self._worker = worker
        self._request = request
        self._pool = pool
        self._tickets = tickets
        self._listens = listens
        self._sticky = sticky
        self._began = elapsed_clock()
        self._seconds = parse_duration(wait, name="wait").total_seconds()
        self._ticket: Ticket | None = None

    @property
    def left(self) -> float:
        """Seconds until the time is up; 0 when it is."""
        return max(0.0, self._seconds - self._waited)

    @property
    def _waited(self) -> float:
        return elapsed_clock() - self._began

    def try_once(self) -> Grant | None:
        """Try to lease a profile now, or, once it stands in the line, take what was handed over.

        Raises:
            ProfileRetiredError: The profile that the sticky key requires is retired.
            DatabaseUnavailableError: The database could not be reached.
        """
        ticket = self._ticket
        if ticket is None:
            return self._checkout()
        if not ticket.called.done():
            return None
        self._ticket = None
        try:
            grant = claim(self._database, self._worker, self._request)
        finally:
            self._tickets.forget(ticket)
        # Else handed over so long ago that it is somebody else's by now, or not at all; or only at this very moment.
        if grant is None and not self._tickets.withdraw(ticket):
            grant = claim(self._database, self._worker, self._request)
        return self._stuck(grant)

    def stand_in_line(self) -> Future[None]:
        """Wait from now on; what is returned is done when `try_once` may have a lease.

        Raises:
            DatabaseUnavailableError: The database could not be reached.
        """
        if self._ticket is None:
            self._ticket = self._tickets.leave(
                self._request,
                seconds=self.left,
                waited=self._waited,
                listens=self._listens(),
            )
        return self._ticket.called

    def leave_line(self) -> Grant | None:
        """Wait no longer; returns the lease that was handed over meanwhile, if one was.

        Raises:
            DatabaseUnavailableError: The database could not be reached.
        """
        ticket, self._ticket = self._ticket, None
        if ticket is None or self._tickets.withdraw(ticket):
            return None
        return self._stuck(claim(self._database, self._worker, self._request))

    def last_try(self) -> Grant:
        """Make sure that there was nothing to lease, after `try_once` or `leave_line` found nothing.

        A checkout can only lease what was free when it began. Others may take all of that while they give the same
        number back, so that it finds nothing though there always was something. A miss is one when at some moment no
        profile was available, or when a few tries in a row failed: somebody who waits for the same comes first.

        Raises:
            NoProfileAvailableError: There was nothing; the miss is recorded.
            ProfileRetiredError: As `try_once`.
            DatabaseUnavailableError: The database could not be reached.
        """
        for _ in range(TRIES_AFTER):
            miss = self._miss(last_try=False)
            if "available" not in miss.counts:
                raise self._error(miss)
            grant = self._checkout()
            if grant is not None:
                return grant
        raise self.give_up()

    def give_up(self) -> NoProfileAvailableError:
        """Record the miss, and return the error that tells why and when the next profile is expected."""
        return self._error(self._miss(last_try=True))

    def _miss(self, *, last_try: bool) -> Miss:
        return record_miss(self._database, self._worker, self._request, waited=self._waited, last_try=last_try)

    def _error(self, miss: Miss) -> NoProfileAvailableError:
        counted = ", ".join(f"{number} {reason.replace('_', ' ')}" for reason, number in sorted(miss.counts.items()))
        free = _when(miss.next_free_at)
        return NoProfileAvailableError(
            f"pool {self._pool!r}: no profile available"
            + (f" for {self._request.host}" if self._request.host else "")
            + (f" after {format_duration(self._waited)}" if self._seconds else "")
            + f" ({counted or 'the pool is empty'}){free}",
            next_free_at=miss.next_free_at,
            counts=miss.counts,
        )

    def _checkout(self) -> Grant | None:
        if self._sticky is not None:
            profile_id = sticky_profile(self._database, self._request.pool_id, self._sticky)
            if self._sticky.required:
                self._request = replace(self._request, profile_id=profile_id)
            elif profile_id is not None:
                # With an id of its own: a request has one lease at most.
                preferring = replace(self._request, profile_id=profile_id, id=uuid4())
                preferred = checkout(self._database, self._worker, preferring, has_none=True)
                if preferred is not None:
                    return self._stuck(preferred)
        return self._stuck(checkout(self._database, self._worker, self._request, has_none=True))

    def _stuck(self, grant: Grant | None) -> Grant | None:
        """Keep the key with the profile that serves it; give one back that a concurrent checkout's choice excludes."""
        if grant is None or self._sticky is None:
            return grant
        chosen = stick(self._database, self._request.pool_id, self._sticky, grant.profile.id)
        if chosen == grant.profile.id:
            return grant
        name = LeaseName(grant.lease_id, grant.token)
        detail = "another profile was chosen for its sticky key at the same time"
        patience = self._database.patience
        release(self._database, self._worker, name, outcome=Outcome.CANCELLED, detail=detail, patience=patience)
        self._request = replace(self._request, profile_id=chosen, id=uuid4())
        return None


def _when(moment: datetime | None) -> str:
    return f"; next one expected at {moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if moment is not None else ""
