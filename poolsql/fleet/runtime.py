"""What one process has of a fleet: its worker, its leases' keeper, its launchers and its reaper."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import Protocol
from uuid import UUID

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.durations import Duration
from poolsql.errors import BadInputError, PoolsqlError
from poolsql.fleet.browsers import Browsers
from poolsql.fleet.threads import Threads
from poolsql.launchers.processes import ProcessIdentity, identify, is_alive
from poolsql.leasing.absence import Absence
from poolsql.leasing.checkout import Request
from poolsql.leasing.keeper import Keeper
from poolsql.leasing.presence import Presence
from poolsql.leasing.reaper import Reaped, Reaper
from poolsql.leasing.stickiness import StickyKey
from poolsql.leasing.tickets import FLEET_IS_CLOSED, Tickets
from poolsql.leasing.waiting import Wait
from poolsql.leasing.worker import Worker, holders_on, register, sign_off
from poolsql.settings import Settings
from poolsql.version import package_version

log = logging.getLogger(__name__)

REAP_AGAIN_AFTER = 1.0
"""Seconds; waiting checkouts of one process do not reap more often than this."""


class OpenBrowser(Protocol):
    """What has to end when its fleet is closed: a browser that was borrowed."""

    def end(self) -> None:
        """Stop it and give its profile back; must not raise errors of ours."""
        ...


class Runtime:
    """Shared by everything that one `Fleet` hands out. After a fork the child is a new worker without leases."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings
        self.browsers = Browsers(database, settings)
        self.threads = Threads()
        self._reaper = Reaper(
            database, machine=settings.machine, stop_browser=self.browsers.stop_recorded, dead_workers=self._dead
        )
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._keeper: Keeper | None = None
        self._presence: Presence | None = None
        self._tickets: Tickets | None = None
        self._absence = Absence(database)
        self._reaped_at = float("-inf")
        self._closed = False
        self._open: set[OpenBrowser] = set()
        _runtimes.add(self)

    @property
    def worker(self) -> Worker:
        """This process as a worker; registered at its first use.

        Raises:
            BadInputError: The fleet is closed.
        """
        with self._lock:
            if self._closed:
                raise BadInputError(FLEET_IS_CLOSED)
            if self._worker is None:
                me = identify(os.getpid())
                worker = Worker(
                    machine=self.settings.machine,
                    pid=os.getpid(),
                    process_started=me.mark if me is not None else "",
                    version=package_version(),
                )
                worker = register(self.database, worker)
                self._tickets = Tickets(self.database, worker, reap=self.reap_if_due)
                url = self.database.direct_url
                self._presence = Presence(url, self.settings, worker, called=self._tickets.call)
                self._presence.start()
                self._worker = worker
            return self._worker

    @property
    def keeper(self) -> Keeper:
        """Renews this worker's leases."""
        worker = self.worker
        with self._lock:
            if self._keeper is None:
                self._keeper = Keeper(self.database, worker)
            return self._keeper

    def wait(self, request: Request, *, pool: str, wait: Duration, sticky: StickyKey | None) -> Wait:
        """A checkout of this worker that may have to wait.

        Raises:
            BadInputError: `wait` is no duration, or the fleet is closed.
        """
        worker = self.worker
        with self._lock:
            tickets, presence = self._tickets, self._presence
        if tickets is None or presence is None:
            raise BadInputError(FLEET_IS_CLOSED)
        return Wait(
            self.database,
            worker,
            request,
            pool=pool,
            wait=wait,
            tickets=tickets,
            listens=presence.listens,
            sticky=sticky,
        )

    def began(self, browser: OpenBrowser) -> None:
        """A browser was borrowed: it has to end when the fleet is closed."""
        with self._lock:
            if not self._closed:
                self._open.add(browser)
                return
        browser.end()

    def ended(self, browser: OpenBrowser) -> None:
        """A browser was given back."""
        with self._lock:
            self._open.discard(browser)

    def reap(self) -> Reaped:
        """Take back what expired or belonged to dead processes of this machine, and stop its browsers."""
        return self._reaper.run_once()

    def reap_if_due(self) -> bool:
        """Reap before a checkout gives up or waits, so that a fleet without a daemon heals too.

        Returns:
            Whether it did; not more often than every `REAP_AGAIN_AFTER` seconds. Its failure is logged, since the
            checkout has its own errors to tell.
        """
        with self._lock:
            if elapsed_clock() - self._reaped_at < REAP_AGAIN_AFTER:
                return False
            self._reaped_at = elapsed_clock()
        try:
            self.reap()
        except PoolsqlError as error:
            log.warning("reaping failed: %s", error)
            return False
        return True

    def close(self) -> None:
        """End browser sessions and the keeper, and sign the worker off; leases that are still held expire."""
        with self._lock:
            self._closed = True
            worker, self._worker = self._worker, None
            keeper, self._keeper = self._keeper, None
            tickets, self._tickets = self._tickets, None
            presence, self._presence = self._presence, None
            left_open, self._open = self._open, set()
        if tickets is not None:
            tickets.close()
        self.threads.close()
        for browser in left_open:
            browser.end()
        if keeper is not None:
            keeper.close()
        if worker is not None:
            try:
                sign_off(self.database, worker)
            except PoolsqlError as error:
                log.warning("worker %s could not sign off: %s", worker.id, error)
        if presence is not None:
            presence.close()

    def after_fork(self) -> None:
        """In a forked child: leases, threads and connections are the parent's."""
        self._lock = threading.Lock()
        self._worker = None
        self._keeper = None
        if self._presence is not None:
            self._presence.forget()
        self._presence = None
        self._tickets = None
        self._open = set()
        self.threads.forget()
        self.database.forget()

    def _dead(self) -> list[UUID]:
        # On this machine the processes themselves are looked at: one that lives but cannot connect is not gone.
        here = {
            holder.id: is_alive(ProcessIdentity(holder.pid, holder.process_started))
            for holder in holders_on(self.database, self.settings.machine)
        }
        dead = [worker for worker, alive in here.items() if not alive]
        return dead + [worker for worker in self._absence.workers() if worker not in here]


_runtimes: weakref.WeakSet[Runtime] = weakref.WeakSet()


def _after_fork() -> None:
    for runtime in _runtimes:
        runtime.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
