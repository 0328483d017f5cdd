"""The tickets of one worker's waiting checkouts: kept good, and looked after for profiles that come back unannounced.

A release hands its profile to the first in the line and tells that worker. What comes back without a release, such as
after a cooldown, and what is handed over while nobody listens, is found by looking: one thread for each worker, which
runs only while somebody waits.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from math import inf, isfinite
from uuid import UUID

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import BadInputError, DatabaseError
from poolsql.leasing.checkout import Request
from poolsql.leasing.worker import Worker

log = logging.getLogger(__name__)

LEAVE_TICKET = Statement.load("poolsql.leasing", "leave_ticket")
TEND_TICKETS = Statement.load("poolsql.leasing", "tend_tickets")
SERVE = Statement.load("poolsql.leasing", "asked", "from_pool", "picked", "served")
SERVE_NAMED = Statement.load("poolsql.leasing", "asked", "from_profile", "picked", "served")
NEXT_FREE = Statement.load("poolsql.leasing", "next_free")
WITHDRAW = Statement.load("poolsql.leasing", "withdraw")

FLEET_IS_CLOSED = "this fleet is closed; connect anew"

LOOK_EVERY = 1.0
"""Seconds between two looks for profiles that nobody hands over; also how often tickets are kept good."""

FIRST_LOOK = 0.02
"""Seconds after a ticket was left: a release whose snapshot was older than the ticket has handed over to nobody."""

SHORTEST_PAUSE = 0.02
"""Seconds between two looks, however soon the next profile comes free."""


class Ticket:
    """One checkout's place in the line. `called` is done when its request may have a lease."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.criteria = request.criteria
        self.called: Future[None] = Future()
        self.first_look = inf
        """When, on `elapsed_clock`, somebody has to look for it before the next regular look; infinite: never."""

    def left(self) -> None:
        """It stands in the line."""
        self.first_look = elapsed_clock() + FIRST_LOOK

    def looked(self, at: float) -> None:
        """Somebody looked."""
        if self.first_look <= at:
            self.first_look = inf

    def call(self) -> None:
        """Wake whoever waits; repeating it changes nothing."""
        with contextlib.suppress(InvalidStateError):  # called before, or given up
            self.called.set_result(None)


class Tickets:
    """All tickets of one worker. Safe to use from several threads."""

    def __init__(self, database: Database, worker: Worker, *, reap: Callable[[], object]) -> None:
        """Set it up.

        Args:
            reap: Called with every regular look: a dead holder may be all that is in the way.
        """
        self._database = database
        self._worker = worker
        self._reap = reap
        self._tickets: dict[UUID, Ticket] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._next_look = 0.0
        self._closed = False

    def leave(self, request: Request, *, seconds: float, waited: float, listens: bool) -> Ticket:
        """Stand in the line for `seconds`, from the moment on that was `waited` seconds ago.

        Raises:
            BadInputError: The fleet was closed meanwhile.
            DatabaseUnavailableError: The database could not be reached.
        """
        ticket = Ticket(request)
        with self._changed:
            if self._closed:
                raise BadInputError(FLEET_IS_CLOSED)
            self._tickets[request.id] = ticket
        parameters = {**request.parameters(self._worker), "seconds": seconds, "waited": waited, "listens": listens}
        try:
            self._database.run(LEAVE_TICKET, parameters)
        except BaseException:
            self.forget(ticket)
            raise
        with self._changed:
            ticket.left()
            if self._thread is None and not self._closed:
                self._next_look = elapsed_clock() + LOOK_EVERY
                self._thread = threading.Thread(target=self._run, name="poolsql-tickets", daemon=True)
                self._thread.start()
            if self._first_of(ticket.criteria) is ticket:
                self._changed.notify()
        return ticket

    def withdraw(self, ticket: Ticket) -> bool:
        """Leave the line; False when the ticket was gone, so that its request may have got a lease.

        Raises:
            DatabaseUnavailableError: The database could not be reached; the ticket goes stale by itself.
        """
        try:
            return bool(self._database.run(WITHDRAW, {"request_id": ticket.request.id}))
        finally:
            self.forget(ticket)

    def call(self, request_id: UUID | None) -> None:
        """A lease was handed to this request, or (None) to some that nobody was told of."""
        with self._changed:
            if request_id is None:
                self._next_look = 0.0
                self._changed.notify()
                return
            ticket = self._tickets.get(request_id)
        if ticket is not None:
            ticket.call()

    def close(self) -> None:
        """Wake everybody and end the thread."""
        with self._changed:
            self._closed = True
            tickets = list(self._tickets.values())
            self._changed.notify()
            thread = self._thread
        for ticket in tickets:
            ticket.call()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def forget(self, ticket: Ticket) -> None:
        """Look for it no more: its request has its lease, or waits no longer."""
        with self._changed:
            if self._tickets.pop(ticket.request.id, None) is None:
                return
            behind = self._first_of(ticket.criteria)
            if behind is not None and isfinite(behind.first_look):
                behind.left()  # a release that saw neither may still be under way
                self._changed.notify()

    def _run(self) -> None:
        while self._wait_until_due():
            now = elapsed_clock()
            with self._changed:
                waiting = list(self._waiting())
                regular = self._next_look <= now
                if regular:
                    self._next_look = now + LOOK_EVERY
            try:
                self._look(waiting, regular=regular)
            except DatabaseError as error:
                log.info("looking for profiles failed, trying again: %s", error)
            except Exception:
                log.exception("looking for profiles failed unexpectedly, trying again")
            for ticket in waiting:
                ticket.looked(now)

    def _wait_until_due(self) -> bool:
        with self._changed:
            while self._tickets and not self._closed:
                remaining = min(self._next_look, self._first_look()) - elapsed_clock()
                if remaining <= 0:
                    return True
                self._changed.wait(timeout=min(remaining, LOOK_EVERY))
            self._thread = None
            return False

    def _first_look(self) -> float:
        """When the first of some line is to be looked for."""
        firsts: dict[int, Ticket] = {}
        for ticket in self._waiting():
            firsts.setdefault(ticket.criteria, ticket)
        return min((ticket.first_look for ticket in firsts.values()), default=inf)

    def _first_of(self, criteria: int) -> Ticket | None:
        """Who is first in the line for this; those behind it need no first look while it waits.

        A release that has not seen them has served the first.
        """
        return next((ticket for ticket in self._waiting() if ticket.criteria == criteria), None)

    def _waiting(self) -> Iterator[Ticket]:
        return (ticket for ticket in self._tickets.values() if not ticket.called.done())

    def _look(self, waiting: Iterable[Ticket], *, regular: bool) -> None:
        if regular:
            for row in self._database.run(TEND_TICKETS, {"worker_id": self._worker.id}, patience=0):
                self.call(row.request_id)
            self._reap()
        lines = {ticket.criteria: ticket.request for ticket in waiting}
        for request in lines.values():
            self._serve(request)
        if regular:
            pools = list({request.pool_id for request in lines.values()})
            (row,) = self._database.run(NEXT_FREE, {"pool_ids": pools}, patience=0)
            if row.seconds is not None:
                with self._changed:
                    sooner = elapsed_clock() + max(SHORTEST_PAUSE, row.seconds)
                    self._next_look = min(self._next_look, sooner)

    def _serve(self, request: Request) -> None:
        """Lease what is free to those who wait for this, in their order, until nothing is or nobody of ours waits."""
        statement = SERVE if request.profile_id is None else SERVE_NAMED
        parameters = request.parameters(self._worker, in_line=True)
        while self._waits_for(request.criteria):
            rows = self._database.run(statement, parameters, patience=0)
            if not rows:
                return
            for row in rows:
                self.call(row.request_id)

    def _waits_for(self, criteria: int) -> bool:
        with self._changed:
            return any(ticket.criteria == criteria for ticket in self._waiting())
