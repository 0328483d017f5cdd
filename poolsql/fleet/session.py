"""A leased profile with its browser and a Playwright page, for ``with`` and ``async with``."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any

from playwright import async_api, sync_api

from poolsql.durations import Duration, parse_duration
from poolsql.errors import LaunchFailedError, LeaseLostError
from poolsql.fleet.borrowing import BorrowedBrowser, Borrowing, start_browser
from poolsql.fleet.browser_errors import classify_error
from poolsql.fleet.browsers import Browsers
from poolsql.fleet.threads import Threads
from poolsql.leasing.checkout import Profile
from poolsql.leasing.lease import Lease, checked_outcome
from poolsql.leasing.outcomes import Outcome, Verdict

log = logging.getLogger(__name__)

CONNECT_SECONDS = 15.0
"""For connecting to a started browser; HTTP health is no proof that its protocol answers."""


class _Report:
    """What both kinds of session share: the lease, and what the caller says about how it went."""

    def __init__(self, borrowed: BorrowedBrowser) -> None:
        self._borrowed = borrowed
        self._verdict: Verdict | None = None

    @property
    def lease(self) -> Lease:
        """The lease."""
        return self._borrowed.lease

    @property
    def profile(self) -> Profile:
        """The leased profile."""
        return self._borrowed.lease.profile

    @property
    def cdp_url(self) -> str:
        """Where a driver of your own can connect; valid until the block ends."""
        url = self._borrowed.handle.cdp_url
        if url is None:
            raise LaunchFailedError(f"lease {self.lease.id}: its launcher told no address to connect to")
        return url

    def report(self, outcome: Outcome | str, *, detail: str | None = None, retry_after: Duration | None = None) -> None:
        """Say how it went; wins over what the end of the block would say. The last report counts.

        Raises:
            BadInputError: There is no such outcome, or `retry_after` is no duration.
        """
        said = checked_outcome(outcome) or Outcome.SUCCESS
        waits = None if retry_after is None else parse_duration(retry_after, name="retry_after")
        self._verdict = Verdict(said, detail or "", retry_after=waits)


class Session(_Report):
    """A leased profile with its running browser, for sync code."""

    def __init__(self, borrowed: BorrowedBrowser, context: sync_api.BrowserContext, page: sync_api.Page) -> None:
        super().__init__(borrowed)
        self.context = context
        """The profile's own context: its cookies are the profile's. Never close it."""
        self.page = page
        """A fresh page."""


class AsyncSession(_Report):
    """A leased profile with its running browser, for async code."""

    def __init__(self, borrowed: BorrowedBrowser, context: async_api.BrowserContext, page: async_api.Page) -> None:
        super().__init__(borrowed)
        self.context = context
        """The profile's own context: its cookies are the profile's. Never close it."""
        self.page = page
        """A fresh page."""


class Borrowed:
    """What `Pool.browser` returns: enter it with ``with`` or ``async with``, once."""

    def __init__(
        self,
        browsers: Browsers,
        borrowing: Borrowing,
        threads: Threads,
        *,
        options: Mapping[str, Any],
        playwright: async_api.Playwright | None = None,
    ) -> None:
        self._browsers = browsers
        self._borrowing = borrowing
        self._threads = threads
        self._options = options
        self._playwright = playwright
        self._session: Session | AsyncSession | None = None
        self._driver: ExitStack | None = None
        self._async_driver: AsyncExitStack | None = None
        self._watch: _LossWatch | None = None

    def __enter__(self) -> Session:
        while (lease := self._borrowing.try_once()) is None:
            pause = self._borrowing.pause()
            if pause is None:
                raise self._borrowing.give_up()
            time.sleep(pause)
        borrowed = start_browser(self._browsers, lease, self._options)
        self._driver = ExitStack()
        try:
            self._session = self._connect(borrowed, self._driver)
        except BaseException as error:
            _give_back_quietly(borrowed, _unconnected(error))
            self._driver.close()
            raise
        return self._session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, driver = self._session, self._driver
        assert session is not None and driver is not None, "entered before"  # noqa: S101, PT018 - for the types
        self._session = self._driver = None
        with driver:
            # The browser is stopped first: with a frozen one, no call of the driver would ever return.
            _give_back(session, error)

    async def __aenter__(self) -> AsyncSession:
        while (lease := await self._threads.run(self._borrowing.try_once, undo=_release_cancelled)) is None:
            pause = self._borrowing.pause()
            if pause is None:
                raise await self._threads.run(self._borrowing.give_up)
            await asyncio.sleep(pause)
        leased = lease
        borrowed = await self._threads.run(
            lambda: start_browser(self._browsers, leased, self._options), undo=_give_back_cancelled
        )
        self._async_driver = AsyncExitStack()
        try:
            session = await self._connect_async(borrowed, self._async_driver)
        except BaseException as error:
            verdict = _unconnected(error)
            await self._threads.run(lambda: _give_back_quietly(borrowed, verdict))
            await self._async_driver.aclose()
            raise
        self._session = session
        self._watch = _LossWatch(session.lease)
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, driver, watch = self._session, self._async_driver, self._watch
        assert session is not None and driver is not None and watch is not None, "entered before"  # noqa: S101, PT018
        self._session = self._async_driver = self._watch = None
        lost = watch.end(error)
        try:
            await self._threads.run(lambda: _give_back(session, error))
        except LeaseLostError as late:
            lost = lost or error is None
            if lost:
                raise late from error
        finally:
            await driver.aclose()
        if lost:
            raise LeaseLostError(f"lease {session.lease.id} is lost: {session.lease.lost}") from error

    def _connect(self, borrowed: BorrowedBrowser, driver: ExitStack) -> Session:
        playwright = driver.enter_context(sync_api.sync_playwright())
        browser = playwright.chromium.connect_over_cdp(_Report(borrowed).cdp_url, timeout=CONNECT_SECONDS * 1000)
        context = browser.contexts[0]
        return Session(borrowed, context, context.new_page())

    async def _connect_async(self, borrowed: BorrowedBrowser, driver: AsyncExitStack) -> AsyncSession:
        playwright = self._playwright
        if playwright is None:
            playwright = await driver.enter_async_context(async_api.async_playwright())
        async with asyncio.timeout(CONNECT_SECONDS):
            browser = await playwright.chromium.connect_over_cdp(
                _Report(borrowed).cdp_url, timeout=CONNECT_SECONDS * 1000
            )
            context = browser.contexts[0]
            return AsyncSession(borrowed, context, await context.new_page())


class _LossWatch:
    """Cancels the task that entered the block when its lease is lost, as `asyncio.timeout` does at its time."""

    def __init__(self, lease: Lease) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._cancelled = False
        self._over = False
        lease.when_lost(self._lost)

    def end(self, error: BaseException | None) -> bool:
        """Stop watching; whether `error` is this watch's own cancellation, which then is LeaseLostError's."""
        self._over = True
        if not self._cancelled or self._task is None:
            return False
        return self._task.uncancel() == 0 and isinstance(error, asyncio.CancelledError)

    def _lost(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            log.debug("the loop of a lost lease has ended")

    def _cancel(self) -> None:
        if not self._over and self._task is not None:
            self._cancelled = True
            self._task.cancel()


def _give_back(session: Session | AsyncSession, error: BaseException | None) -> None:
    verdict = session._verdict  # noqa: SLF001 - the session's own module
    if verdict is None and error is not None:
        verdict = classify_error(error) if isinstance(error, Exception) else _cancelled(error)
    try:
        session._borrowed.give_back(verdict)  # noqa: SLF001 - the session's own module
    except LeaseLostError:
        if error is None:
            raise
        log.warning("lease %d was lost before its block ended", session.lease.id)


def _give_back_quietly(borrowed: BorrowedBrowser, verdict: Verdict) -> None:
    try:
        borrowed.give_back(verdict)
    except LeaseLostError as lost:
        log.warning("lease %d was lost meanwhile: %s", borrowed.lease.id, lost)


def _unconnected(error: BaseException) -> Verdict:
    """A browser that started but can't be driven is the browser's fault, never the profile's."""
    if isinstance(error, Exception):
        return Verdict(Outcome.BROWSER_CRASHED, f"no connection to the started browser: {type(error).__name__}")
    return _cancelled(error)


def _cancelled(error: BaseException) -> Verdict:
    return Verdict(Outcome.CANCELLED, type(error).__name__)


def _release_cancelled(lease: Lease | None) -> None:
    if lease is not None:
        lease.release(Outcome.CANCELLED, detail="cancelled while it was checked out")


def _give_back_cancelled(borrowed: BorrowedBrowser) -> None:
    _give_back_quietly(borrowed, Verdict(Outcome.CANCELLED, "cancelled while its browser started"))
