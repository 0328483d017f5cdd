"""Borrowing a profile: the part that sync and async callers share. Everything here may block a thread for a while.

A leased profile whose browser was started leaves by `give_back` only: stop, prove, release, in this order.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from poolsql.durations import Duration, parse_duration
from poolsql.errors import (
    DatabaseUnavailableError,
    LauncherError,
    LaunchFailedError,
    LaunchFault,
    LeaseLostError,
    PoolsqlError,
)
from poolsql.fleet.browsers import Browsers, RunningBrowser
from poolsql.fleet.runtime import Runtime
from poolsql.leasing.checkout import Grant, Request, checkout_many
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Outcome, StartVerdict, Verdict, verdict_of
from poolsql.leasing.stickiness import StickyKey
from poolsql.leasing.waiting import Wait

log = logging.getLogger(__name__)


class Borrowing:
    """A checkout under way: a first try, then a place in the line.

    Making one asks the database nothing, so that async code can do it on its loop. The time of waiting begins with
    the first try.

    Raises:
        BadInputError: `wait` is no duration.
    """

    def __init__(
        self, runtime: Runtime, request: Request, *, pool: str, wait: Duration, sticky: StickyKey | None = None
    ) -> None:
        self.runtime = runtime
        self._sticky = sticky
        self._request = request
        self._pool = pool
        self._seconds = parse_duration(wait, name="wait")
        self._begun: Wait | None = None

    @property
    def _wait(self) -> Wait:
        if self._begun is None:
            self._begun = self.runtime.wait(self._request, pool=self._pool, wait=self._seconds, sticky=self._sticky)
        return self._begun

    def lease(self) -> Lease:
        """Try until a profile is leased or the time is up; for sync code.

        Raises:
            NoProfileAvailableError: None came free in time.
            DatabaseUnavailableError: The database could not be reached.
        """
        lease = self.try_once()
        try:
            while lease is None and self.left > 0:
                called = self.stand_in_line()
                with contextlib.suppress(TimeoutError):
                    called.result(timeout=self.left)
                lease = self.try_once()
            lease = lease or self.leave_line()
        except BaseException:
            self.abandon()
            raise
        return lease or self.last_try()

    def lease_many(self, number: int) -> list[Lease]:
        """Lease what is free now, up to a number."""
        runtime = self.runtime
        grants = checkout_many(runtime.database, runtime.worker, self._request, number)
        return [self._held(grant) for grant in grants]

    def lease_up_to(self, number: int) -> list[Lease]:
        """Wait for the first one as `lease` does, then add what is free at that moment, up to a number.

        The first one is not lost to what happens to the others: a database that goes away meanwhile leaves it alone.
        """
        first = self.lease()
        if number == 1:
            return [first]
        try:
            return [first, *self.lease_many(number - 1)]
        except DatabaseUnavailableError as error:
            log.warning("lease %d stays the only one of %d that were asked for: %s", first.id, number, error)
            return [first]
        except BaseException:
            first.release(Outcome.CANCELLED, detail="the checkout that it was a part of failed")
            raise

    def try_once(self) -> Lease | None:
        """Lease a profile if one is free or was handed over; else reap: a dead holder may be all that is in the way."""
        grant = self._wait.try_once()
        if grant is None and self.runtime.reap_if_due():
            grant = self._wait.try_once()
        return self._lease(grant)

    @property
    def left(self) -> float:
        """Seconds until the time is up; 0 when it is."""
        return self._wait.left

    def stand_in_line(self) -> Future[None]:
        """Wait from now on; what is returned is done when it is worth another try."""
        return self._wait.stand_in_line()

    def leave_line(self) -> Lease | None:
        """Wait no longer; the lease that was handed over at the last moment, if one was."""
        return self._lease(self._wait.leave_line())

    def abandon(self) -> None:
        """Leave nothing behind: neither a place in the line nor a lease that was handed over."""
        try:
            lease = self.leave_line()
            if lease is not None:
                lease.release(Outcome.CANCELLED, detail="cancelled while it waited")
        except PoolsqlError as error:
            log.warning("a wait that was cut off goes stale by itself: %s", error)

    def last_try(self) -> Lease:
        """Make sure that there was nothing to lease, when the time is up.

        Raises:
            NoProfileAvailableError: There was nothing; the miss is recorded.
        """
        return self._held(self._wait.last_try())

    def _lease(self, grant: Grant | None) -> Lease | None:
        return self._held(grant) if grant is not None else None

    def _held(self, grant: Grant) -> Lease:
        runtime = self.runtime
        return Lease(runtime.database, runtime.worker, runtime.keeper, grant, host=self._request.host)


class BorrowedBrowser:
    """A lease with its running browser."""

    def __init__(self, runtime: Runtime, lease: Lease, browser: RunningBrowser) -> None:
        self._runtime = runtime
        self.lease = lease
        self.browser = browser
        self._lock = threading.Lock()
        self._loss_is_known = False
        self._callbacks: list[Callable[[], None]] = []
        # A lost lease must not go on driving the profile. The reaper stops the browser too; whoever is first.
        lease.when_lost(self._stop_after_loss)
        runtime.began(self)

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call this when the lease is lost and before its browser is stopped; it must return soon."""
        with self._lock:
            if not self._loss_is_known:
                self._callbacks.append(callback)
                return
        callback()

    def stop(self) -> str | None:
        """Stop the browser; the rung of the ladder that did it, or None when it may still run."""
        try:
            return self.browser.stop()
        except LauncherError as error:
            log.warning("lease %d: %s", self.lease.id, error, extra={"lease": self.lease.id})
            return None

    def give_back(self, verdict: Verdict | None) -> None:
        """Stop the browser, prove it, and release; a stop that cannot be proven is left to the reaper.

        Raises:
            LeaseLostError: The lease was lost before; the browser is stopped all the same, and the report refused.
        """
        self._runtime.ended(self)
        rung = self.stop()
        if self.lease.lost is not None:
            self.lease.report_late(verdict)
            self.lease.check()
        self.lease.release(
            verdict.outcome if verdict else None,
            detail=verdict.detail if verdict else None,
            retry_after=verdict.retry_after if verdict else None,
            stop_rung=rung,
        )

    def end(self) -> None:
        """Give it back because its fleet is closed; the block that uses it finds the browser gone."""
        _quietly(self.lease, lambda: self.give_back(Verdict(Outcome.CANCELLED, "its fleet was closed")))

    def _stop_after_loss(self) -> None:
        with self._lock:
            self._loss_is_known = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        self.stop()


def start_browser(runtime: Runtime, lease: Lease, options: Mapping[str, Any]) -> BorrowedBrowser:
    """Start the browser of a leased profile; when that fails the profile is given back, by whose fault it was.

    Raises:
        LaunchFailedError: It did not start.
        BadInputError: The launcher cannot take these options.
        LeaseLostError: The lease was lost meanwhile.
    """
    browsers = runtime.browsers
    try:
        return BorrowedBrowser(runtime, lease, browsers.start(lease, options=options))
    except LaunchFailedError as error:
        rung = error.stop_rung or _stop_recorded(browsers, lease)
        _quietly(lease, partial(_release_unstarted, lease, error, rung))
        raise
    except LeaseLostError:
        raise
    except BaseException as error:
        give_back_unused(browsers, lease, error)
        raise


def give_back_unused(browsers: Browsers, lease: Lease, error: BaseException) -> None:
    """Give back a profile that `error` kept from being used, through nobody's fault but the caller's."""
    verdict = verdict_of(error)
    rung = _stop_recorded(browsers, lease)
    _quietly(lease, lambda: lease.release(verdict.outcome, detail=verdict.detail, stop_rung=rung))


def _stop_recorded(browsers: Browsers, lease: Lease) -> str | None:
    if lease.browser is None:
        return None
    try:
        return browsers.stop_recorded(lease.browser)
    except PoolsqlError as problem:
        log.warning("lease %d: %s", lease.id, problem, extra={"lease": lease.id})
        return None


def _release_unstarted(lease: Lease, error: LaunchFailedError, rung: str | None) -> None:
    """Release a lease whose browser did not start, as I5 has it: hold, pause, or the launcher's breaker."""
    detail = str(error)
    if error.fault is LaunchFault.PROXY:
        lease.release(Outcome.PROXY_FAILED, detail=detail, stop_rung=rung)
        return
    verdict = lease.start_failed(fault=error.fault, reason=detail)
    lease.release(
        Outcome.LAUNCH_FAILED,
        detail=detail,
        stop_rung=rung,
        hold=verdict is StartVerdict.HOLD,
        pause_because=detail if verdict is StartVerdict.PAUSE else None,
    )


def _quietly(lease: Lease, release: Callable[[], object]) -> None:
    """Release a lease on the way out of an error, which must not be hidden by another one."""
    try:
        release()
    except LeaseLostError as lost:
        log.warning("lease %d was lost meanwhile: %s", lease.id, lost, extra={"lease": lease.id})
    except PoolsqlError as problem:
        log.warning("lease %d could not be released: %s", lease.id, problem, extra={"lease": lease.id})
