"""Keeping a worker's leases alive: one thread, one renewal statement for all of them.

The thread trusts its own clock only to give up early (I6). A lease is lost when the database says so, or when it could
not be renewed for so long that the database may have given it away; what hangs on it is stopped at once.
"""

from __future__ import annotations

import logging
import random
import threading
from typing import Protocol

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.errors import DatabaseError
from poolsql.leasing.reports import LeaseName, renew
from poolsql.leasing.worker import Worker

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""How soon a renewal is tried again that the database did not answer."""

ANSWER_SECONDS = 5.0
"""How long leases whose time is over wait for the answer of a renewal that is under way: after a suspend it tells that
they are still held, after a cut of the network it never comes."""

IDLE_SECONDS = 5.0
"""How long the thread waits for the next lease before it ends."""

CLOSE_SECONDS = 10.0
"""How long a renewal that is under way is waited for at the end; the thread itself keeps no process alive."""

CLOSED = "its fleet was closed"
"""Why leases are lost that are still held then."""


class Kept(Protocol):
    """What the keeper needs of a lease."""

    @property
    def name(self) -> LeaseName:
        """Id and token."""
        ...

    @property
    def renew_every(self) -> float:
        """Seconds between two renewals."""
        ...

    @property
    def trusted_until(self) -> float:
        """When, on `elapsed_clock`, it can't be believed in any more without an answer."""
        ...

    def renewed(self, row: Row, *, asked_at: float) -> None:
        """The database renewed the lease by a request that was sent at `asked_at`."""
        ...

    def lose(self, reason: str) -> None:
        """The lease is lost; must return soon."""
        ...


class Keeper:
    """Renews all leases of one worker from one background thread, which runs only while there are any."""

    def __init__(self, database: Database, worker: Worker) -> None:
        self._database = database
        self._worker = worker
        self._leases: dict[int, Kept] = {}
        self._changed = threading.Condition()
        # Held while a renewal is under way, so that a release never overtakes it: a renewal that meets a lease of
        # its own worker gone would be recorded as refused.
        self._renewing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._next_renewal = 0.0
        self._wakes_at = 0.0
        self._closed = False

    def keep(self, lease: Kept) -> None:
        """Renew this lease from now on, until `forget`."""
        with self._changed:
            due = elapsed_clock() + lease.renew_every
            self._next_renewal = min(self._next_renewal, due) if self._leases else due
            self._leases[lease.name.lease_id] = lease
            closed = self._closed
            if self._thread is None and not closed:
                self._thread = threading.Thread(target=self._run, name="poolsql-keeper", daemon=True)
                self._thread.start()
            # Waking the thread at each lease and release would cost both a tenth of their time.
            elif min(due, lease.trusted_until) < self._wakes_at:
                self._changed.notify()
        if closed:
            self._lose(lease, CLOSED)

    def forget(self, lease: Kept) -> None:
        """Stop renewing this lease; returns when no renewal of it is under way."""
        with self._changed:
            self._leases.pop(lease.name.lease_id, None)
        with self._renewing:
            pass

    def renew_now(self, *, patience: float = 0.0) -> None:
        """Renew all leases in the caller's thread, such as after a suspend.

        Raises:
            DatabaseError: No answer; nothing is known about the leases.
        """
        with self._renewing:
            with self._changed:
                leases = list(self._leases.values())
            if not leases:
                return
            asked_at = elapsed_clock()
            rows = renew(self._database, self._worker, [lease.name for lease in leases], patience=patience)
        refused = []
        for lease in leases:
            row = rows.get(lease.name.lease_id)
            if row is None:
                refused.append(lease)
            else:
                lease.renewed(row, asked_at=asked_at)
        for lease in refused:
            self._lose(lease, "the database no longer knows it as live")

    def close(self) -> None:
        """End the thread. Leases that are still held are lost to their holders and expire."""
        with self._changed:
            self._closed = True
            leases = list(self._leases.values())
            self._changed.notify()
            thread = self._thread
        for lease in leases:
            self._lose(lease, CLOSED)
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=CLOSE_SECONDS)

    def _run(self) -> None:
        while self._wait_until_due():
            self._renew_or_give_up()

    def _wait_until_due(self) -> bool:
        with self._changed:
            while not self._closed:
                if not self._leases:
                    if self._wait(IDLE_SECONDS) or self._leases:
                        continue
                    break
                due = min(self._next_renewal, *(lease.trusted_until for lease in self._leases.values()))
                remaining = due - elapsed_clock()
                if remaining <= 0:
                    return True
                # The wait stands still while the machine is suspended, so it is cut short and the clock read anew.
                self._wait(min(remaining, 1.0))
            self._thread = None
            return False

    def _wait(self, seconds: float) -> bool:
        """Wait for a change that matters before so many seconds are over; whether there was one."""
        self._wakes_at = elapsed_clock() + seconds
        return self._changed.wait(timeout=seconds)

    def _renew_or_give_up(self) -> None:
        with self._changed:
            trusted_for = min((lease.trusted_until for lease in self._leases.values()), default=0.0) - elapsed_clock()
        watch = threading.Timer(max(ANSWER_SECONDS, trusted_for), self._give_up)
        watch.daemon = True
        watch.start()
        try:
            self.renew_now()
        except DatabaseError as error:
            log.warning("renewal failed, trying again: %s", error)
            self._next_renewal = elapsed_clock() + RETRY_SECONDS
        except Exception:
            log.exception("renewal failed unexpectedly, trying again")
            self._next_renewal = elapsed_clock() + RETRY_SECONDS
        else:
            self._schedule()
        finally:
            watch.cancel()
        self._give_up()

    def _give_up(self) -> None:
        now = elapsed_clock()
        with self._changed:
            distrusted = [lease for lease in self._leases.values() if lease.trusted_until <= now]
        for lease in distrusted:
            self._lose(lease, "it could not be renewed in time")

    def _schedule(self) -> None:
        with self._changed:
            soonest = min((lease.renew_every for lease in self._leases.values()), default=60.0)
            # Workers that were started together should not renew together for ever.
            self._next_renewal = elapsed_clock() + soonest * random.uniform(0.9, 1.0)  # noqa: S311 - not a secret

    def _lose(self, lease: Kept, reason: str) -> None:
        with self._changed:
            if self._leases.pop(lease.name.lease_id, None) is None:
                return
        log.warning("lease %d is lost: %s", lease.name.lease_id, reason, extra={"lease": lease.name.lease_id})
        try:
            lease.lose(reason)
        except Exception:
            # One lease that surprises must not keep the others from being renewed or told (I10).
            log.exception("lease %d: telling of its loss failed", lease.name.lease_id)
