"""A lease in its holder's hands."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Statement
from poolsql.durations import Duration, parse_duration
from poolsql.errors import BadInputError, DatabaseError, LaunchFault, LeaseError, LeaseLostError
from poolsql.leasing import reports
from poolsql.leasing.checkout import MARGIN, Grant, Profile
from poolsql.leasing.keeper import Keeper
from poolsql.leasing.outcomes import Outcome, StartVerdict, Verdict, verdict_of
from poolsql.leasing.reports import Attempt, LeaseName, Visit
from poolsql.leasing.worker import Worker
from poolsql.targets import host_name

log = logging.getLogger(__name__)


class Lease:
    """The exclusive right to one profile until it is released or lost.

    It renews itself in the background. When it is lost, `lost` says why, `check` raises, and the callbacks given to
    `when_lost` are called (from a thread of their own): whatever uses the profile must stop.

    Safe to use from several threads. As a context manager it is released at the end: as a success, or by the
    exception as `task_failed`. It belongs to the process that made it: in a forked child it is lost, and nothing that
    the child does to it reaches the database.
    """

    def __init__(self, database: Database, worker: Worker, keeper: Keeper, grant: Grant, *, host: str | None) -> None:
        self._database = database
        self._worker = worker
        self._keeper = keeper
        self._grant = grant
        self._host = host
        self._process = os.getpid()
        self._trusted_until = grant.trusted_until
        self._expires_at = grant.expires_at
        self._lost: str | None = None
        self._attempt: Attempt | None = None
        self._given_up = False
        self._visits = 0
        self._browser: Mapping[str, Any] | None = None
        self._reporting = threading.RLock()
        self._callbacks: list[Callable[[], None]] = []
        self._callbacks_lock = threading.Lock()
        keeper.keep(self)

    @property
    def id(self) -> int:
        """Number of the lease, as in all tables, logs and answers."""
        return self._grant.lease_id

    @property
    def name(self) -> LeaseName:
        """Id and token: what every statement about the lease names."""
        return LeaseName(self._grant.lease_id, self._grant.token)

    @property
    def profile(self) -> Profile:
        """The leased profile."""
        return self._grant.profile

    @property
    def acquired_at(self) -> datetime:
        """When it was leased, by the database clock."""
        return self._grant.acquired_at

    @property
    def expires_at(self) -> datetime:
        """When it ends unless it is renewed, by the database clock."""
        return self._expires_at

    @property
    def deadline_at(self) -> datetime:
        """When it ends even if it is renewed, by the database clock."""
        return self._grant.deadline_at

    @property
    def renew_every(self) -> float:
        """Seconds between two renewals."""
        return self._grant.renew.total_seconds()

    @property
    def trusted_until(self) -> float:
        """Until when, on `elapsed_clock`, the holder may believe in its lease without asking."""
        return min(self._trusted_until, self._grant.trusted_at_most_until)

    @property
    def lost(self) -> str | None:
        """Why the lease is lost; None while it is held or after it was released."""
        if self._is_inherited:
            return f"it belongs to process {self._process}, of which this one is a fork"
        return self._lost

    @property
    def _is_inherited(self) -> bool:
        return self._process != os.getpid()

    @property
    def released(self) -> bool:
        """Whether the holder has ended the lease; its profile is back once `attempt` says so."""
        return self._attempt is not None or self._given_up

    @property
    def browser(self) -> Mapping[str, Any] | None:
        """What was recorded of a browser start: only a proven stop frees the profile after it. None: no start."""
        return self._browser

    @property
    def attempt(self) -> Attempt | None:
        """How the lease ended, once it was released."""
        return self._attempt

    def check(self) -> None:
        """Make sure that the lease is live; asks the database only when the own clock leaves doubt.

        Raises:
            LeaseLostError: It is not.
        """
        if self.lost is None and not self.released and elapsed_clock() >= self.trusted_until:
            self.renew()
        self._refuse_unless_held()

    def _refuse_if_inherited(self) -> None:
        if self._is_inherited:
            self._refuse_unless_held()

    def _refuse_unless_held(self) -> None:
        if self.lost is not None:
            raise LeaseLostError(f"lease {self.id} on profile {self.profile.key} is lost: {self.lost}")
        if self.released:
            raise LeaseLostError(f"lease {self.id} on profile {self.profile.key} was released before")

    def renew(self) -> None:
        """Renew the lease now, with all others of this process.

        Raises:
            LeaseLostError: It is not live any more, or nobody could tell in time.
        """
        self._refuse_if_inherited()
        try:
            self._keeper.renew_now()
        except DatabaseError as error:
            if elapsed_clock() >= self.trusted_until:
                raise LeaseLostError(f"lease {self.id} could not be renewed in time: {error}") from error
            log.warning("lease %d: renewal failed, the lease is trusted a little longer: %s", self.id, error)
        self._refuse_unless_held()

    def record(
        self, visit: Visit, *, statement: Statement = reports.RECORD_VISIT, more: Mapping[str, Any] | None = None
    ) -> None:
        """Write down one visit; kept trying until it is written or the lease is known lost.

        Args:
            statement: One that begins like `reports.RECORD_VISIT` and writes more under the same guard.
            more: The further parameters of `statement`.

        Raises:
            LeaseLostError: The lease is not live; the visit is recorded as refused.
            DatabaseUnavailableError: The database stayed away beyond the lease's longest time.
        """
        self._refuse_if_inherited()
        with self._reporting:
            reports.record_visit(
                self._database,
                self._worker,
                self.name,
                visit,
                number=self._visits,
                patience=self._patience(),
                statement=statement,
                more=more,
            )
            self._visits += 1

    def release(
        self,
        outcome: Outcome | str | None = None,
        *,
        detail: str | None = None,
        host: str | None = None,
        retry_after: Duration | None = None,
        stop_rung: str | None = None,
        hold: bool = True,
        pause_because: str | None = None,
    ) -> Attempt | None:
        """End the lease and report how it went; kept trying until it is written or the lease is known lost.

        Releasing twice is no error: the second call changes nothing and returns what the first one did. When a
        browser start was recorded and its stop is not proven, the report is written but the profile stays out of
        the offer until the reaper has stopped the browser; the answer is None then (I3).

        Args:
            outcome: Default: the worst of the recorded visits, or a success when there is none.
            detail: What happened, in words.
            host: The target site or an address of it, when it is not the one that the checkout named.
            retry_after: How long the site told to wait; obeyed in full.
            stop_rung: How the browser was *proven* stopped, when one was started through this lease.
            hold: False: the outcome must not hold this profile.
            pause_because: Pause the profile with this reason.

        Raises:
            BadInputError: The outcome, host or duration cannot be right; the lease is held as before.
            LeaseLostError: The lease was not live any more; the report is recorded as refused.
            DatabaseUnavailableError: The database stayed away beyond the lease's longest time.
        """
        said = checked_outcome(outcome)
        host = host_name(host) if host is not None else None
        seconds = None if retry_after is None else parse_duration(retry_after, name="retry_after").total_seconds()
        self._refuse_if_inherited()
        with self._reporting:
            if self.released:
                return self._attempt
            try:
                if self._browser is not None and stop_rung is None:
                    self._leave_to_reaper(said, detail=detail, host=host, retry_after=seconds)
                    return None
                self._keeper.forget(self)
                self._attempt = reports.release(
                    self._database,
                    self._worker,
                    self.name,
                    outcome=said,
                    detail=detail,
                    host=host,
                    retry_after=seconds,
                    stop_rung=stop_rung,
                    hold=hold,
                    pause_because=pause_because,
                    patience=self._patience(),
                )
            except LeaseLostError as error:
                self._keeper.forget(self)
                self.lose(str(error))
                raise
            return self._attempt

    def _leave_to_reaper(
        self, outcome: Outcome | None, *, detail: str | None, host: str | None, retry_after: float | None
    ) -> None:
        # First: a lease whose report cannot be written must not be renewed for as long as this process lives.
        self._keeper.forget(self)
        if outcome is not None or self._visits == 0:
            said = outcome or Outcome.SUCCESS
            self.record(Visit(outcome=said, detail=detail, host=host, retry_after=retry_after))
        given_up = detail or "released before its browser was proven stopped"
        reports.begin_reclaim(self._database, self.name, detail=given_up, patience=self._patience())
        self._given_up = True

    def report_late(self, verdict: Verdict | None) -> None:
        """Keep as refused what the holder of a lost lease had to report (I2); that this fails is only logged."""
        outcome, detail = (verdict.outcome, verdict.detail) if verdict is not None else (None, None)
        try:
            seen = reports.look(self._database, self.name)
            reports.refuse(
                self._database, self._worker, self.name, seen, kind="release", outcome=outcome, detail=detail
            )
        except LeaseError as refused:
            log.debug("%s", refused)
        except DatabaseError as error:
            log.warning("lease %d is lost, and so is its report: %s", self.id, error, extra={"lease": self.id})

    def browser_starting(self, browser: Mapping[str, Any], *, machine: str | None, directory: str | None) -> None:
        """Write down how to stop a browser that is about to be started.

        Raises:
            ConflictError: Another profile has this directory on this machine: start nothing.
            LeaseLostError: The lease is not live: start nothing.
        """
        self._refuse_if_inherited()
        self._browser = browser
        reports.browser_starting(
            self._database, self._worker, self.name, browser=browser, machine=machine, directory=directory
        )

    def browser_started(self, browser: Mapping[str, Any]) -> None:
        """Write down the address of a browser that runs.

        Raises:
            LeaseLostError: The lease is not live: stop the browser.
        """
        self._browser = browser
        reports.browser_started(self._database, self._worker, self.name, browser=browser)

    def start_failed(self, *, fault: LaunchFault, reason: str) -> StartVerdict:
        """Judge a failed start, and open the launcher's breaker if nothing of it starts."""
        return reports.start_failed(self._database, self.name, fault=fault, reason=reason)

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call `callback` in a thread of its own when the lease is lost; at once when it is lost already."""
        with self._callbacks_lock:
            if self._lost is None:
                self._callbacks.append(callback)
                return
        _call_each([callback])

    def renewed(self, row: Row, *, asked_at: float) -> None:
        """The database renewed the lease by a request sent at `asked_at` (called by the keeper)."""
        self._trusted_until = asked_at + float(row.remaining) * (1 - MARGIN)
        self._expires_at = row.expires_at

    def lose(self, reason: str) -> None:
        """The lease is lost (called by the keeper): tell everybody who asked to be told."""
        with self._callbacks_lock:
            if self._lost is not None or self.released:
                return
            self._lost = reason
            callbacks, self._callbacks = self._callbacks, []
        if callbacks:
            threading.Thread(target=_call_each, args=(callbacks,), name="poolsql-lost", daemon=True).start()

    def _patience(self) -> float:
        # As long as the lease may be live by any clock, its report is kept and tried again; afterwards it is lost.
        remaining = self._grant.trusted_at_most_until - elapsed_clock()
        return max(remaining, self._grant.ttl / timedelta(seconds=1), self._database.patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.released or self._is_inherited:
            return
        if self._lost is not None:
            if error is None:
                self.check()
            return
        verdict = verdict_of(error) if error is not None else None
        try:
            self.release(verdict.outcome if verdict else None, detail=verdict.detail if verdict else None)
        except LeaseLostError:
            if error is None:
                raise
            log.warning("lease %d was lost before its release", self.id, extra={"lease": self.id})

    def __repr__(self) -> str:
        state = "released" if self.released else "lost" if self._lost else "held"
        return f"<Lease {self.id} on {self.profile.launcher}/{self.profile.key}, {state}>"


def checked_outcome(outcome: Outcome | str | None) -> Outcome | None:
    """Read an outcome that a caller gave.

    Raises:
        BadInputError: There is no such outcome.
    """
    if outcome is None or isinstance(outcome, Outcome):
        return outcome
    try:
        return Outcome(outcome)
    except ValueError:
        raise BadInputError(f"there is no outcome {outcome!r}; known are {', '.join(Outcome)}") from None


def _call_each(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception:
            log.exception("a callback failed after its lease was lost")
