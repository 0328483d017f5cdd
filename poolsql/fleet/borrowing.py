"""Borrowing a profile: the part that sync and async callers share. Everything here may block a thread for a while.

A leased profile whose browser was started leaves by `give_back` only: stop, prove, release, in this order.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from poolsql.errors import (
    LauncherError,
    LaunchFailedError,
    LaunchFault,
    LeaseLostError,
    NoProfileAvailableError,
)
from poolsql.fleet.browsers import Browsers
from poolsql.fleet.runtime import Runtime
from poolsql.launchers.contract import BrowserHandle
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Outcome, Verdict
from poolsql.leasing.waiting import Wait

log = logging.getLogger(__name__)


class Borrowing:
    """A checkout under way: tries, with the pauses told to whoever sleeps or awaits them."""

    def __init__(self, runtime: Runtime, wait: Wait, host: str | None) -> None:
        self._runtime = runtime
        self._wait = wait
        self._host = host

    def try_once(self) -> Lease | None:
        """Lease a profile if one is free now; else reap, since a dead holder may be all that is in the way."""
        grant = self._wait.try_once()
        if grant is None and self._runtime.reap_if_due():
            grant = self._wait.try_once()
        if grant is None:
            return None
        return Lease(self._runtime.database, self._runtime.worker, self._runtime.keeper, grant, host=self._host)

    def pause(self) -> float | None:
        """Seconds until the next try; None when the time is up."""
        return self._wait.pause()

    def give_up(self) -> NoProfileAvailableError:
        """Record the miss, and return the error that tells why."""
        return self._wait.give_up()


class BorrowedBrowser:
    """A lease with its running browser."""

    def __init__(self, browsers: Browsers, lease: Lease, handle: BrowserHandle) -> None:
        self._browsers = browsers
        self.lease = lease
        self.handle = handle
        # A lost lease must not go on driving the profile. The reaper stops the browser too; whoever is first.
        lease.when_lost(self._stop_after_loss)

    def give_back(self, verdict: Verdict | None) -> None:
        """Stop the browser, prove it, and release; a stop that cannot be proven is left to the reaper.

        Raises:
            LeaseLostError: The lease was lost before; the browser is stopped all the same.
        """
        rung = None
        try:
            rung = self._browsers.stop(self.handle)
        except LauncherError as error:
            log.warning("lease %d: %s", self.lease.id, error, extra={"lease": self.lease.id})
        if self.lease.lost is not None:
            self.lease.check()
        self.lease.release(
            verdict.outcome if verdict else None,
            detail=verdict.detail if verdict else None,
            retry_after=verdict.retry_after if verdict else None,
            stop_rung=rung,
        )

    def _stop_after_loss(self) -> None:
        try:
            self._browsers.stop(self.handle)
        except LauncherError as error:
            log.warning("lease %d is lost, its browser goes on: %s", self.lease.id, error)


def start_browser(browsers: Browsers, lease: Lease, options: Mapping[str, Any]) -> BorrowedBrowser:
    """Start the browser of a leased profile; when that fails the profile is given back, by whose fault it was.

    Raises:
        LaunchFailedError: It did not start.
        LeaseLostError: The lease was lost meanwhile.
    """
    try:
        return BorrowedBrowser(browsers, lease, browsers.start(lease, options=options))
    except LaunchFailedError as error:
        give_back_unstarted(browsers, lease, error)
        raise
    except LeaseLostError:
        raise
    except BaseException as error:
        outcome = Outcome.TASK_FAILED if isinstance(error, Exception) else Outcome.CANCELLED
        lease.release(outcome, detail=f"{type(error).__name__}: {error}")
        raise


def give_back_unstarted(browsers: Browsers, lease: Lease, error: LaunchFailedError) -> None:
    """Release a lease whose browser did not start, as I5 has it: hold, pause, or the launcher's breaker."""
    rung = None
    if lease.browser is not None:
        try:
            rung = browsers.stop_recorded(lease.browser)
        except LauncherError as problem:
            log.warning("lease %d: %s", lease.id, problem, extra={"lease": lease.id})
    detail = str(error)
    try:
        if error.fault is LaunchFault.PROXY:
            lease.release(Outcome.PROXY_FAILED, detail=detail, stop_rung=rung)
            return
        verdict = lease.start_failed(fault=error.fault, reason=detail)
        lease.release(
            Outcome.LAUNCH_FAILED,
            detail=detail,
            stop_rung=rung,
            hold=verdict == "hold",
            pause_because=detail if verdict == "pause" else None,
        )
    except LeaseLostError as lost:
        log.warning("lease %d was lost while its browser did not start: %s", lease.id, lost)
