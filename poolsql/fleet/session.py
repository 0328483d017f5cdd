"""A leased profile with its browser and a Playwright page, for ``with`` and ``async with``."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Any

from playwright import async_api, sync_api

from poolsql.durations import Duration, parse_duration
from poolsql.errors import BadInputError, LaunchFailedError, LeaseLostError, PoolsqlError
from poolsql.fleet.borrowing import BorrowedBrowser, Borrowing, give_back_unused, start_browser
from poolsql.fleet.browser_errors import classify_error
from poolsql.fleet.drivers import Driver, async_driver, check_async, check_sync, sync_driver
from poolsql.leasing.checkout import Profile
from poolsql.leasing.lease import Lease, checked_outcome
from poolsql.leasing.outcomes import Outcome, Verdict, verdict_of

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
        """The lease. The session renews and releases it; `Lease.lost` and `Lease.check` tell whether it still holds."""
        return self._borrowed.lease

    @property
    def profile(self) -> Profile:
        """The leased profile."""
        return self._borrowed.lease.profile

    @property
    def cdp_url(self) -> str:
        """Where a driver of your own can connect; valid until the block ends.

        Raises:
            LaunchFailedError: The profile's launcher told no address.
        """
        return _address(self._borrowed)

    def report(self, outcome: Outcome | str, *, detail: str | None = None, retry_after: Duration | None = None) -> None:
        """Say how it went; wins over what the end of the block would say. The last report counts.

        Args:
            outcome: One of `Outcome`, or its name.
            detail: What happened, in words.
            retry_after: How long the site told to wait; obeyed in full.

        Raises:
            BadInputError: There is no such outcome, or `retry_after` is no duration.
        """
        said = checked_outcome(outcome) or Outcome.SUCCESS
        waits = None if retry_after is None else parse_duration(retry_after, name="retry_after")
        self._verdict = Verdict(said, detail or "", retry_after=waits)

    def take_report(self) -> Verdict | None:
        """The last report, for somebody who writes it down as a visit: the end of the block then has none left."""
        verdict, self._verdict = self._verdict, None
        return verdict


class Session(_Report):
    """A leased profile with its running browser, for sync code. Use it in the thread that entered its block."""

    def __init__(self, borrowed: BorrowedBrowser, context: sync_api.BrowserContext, page: sync_api.Page) -> None:
        super().__init__(borrowed)
        self._context = context
        self._page = page

    @property
    def context(self) -> sync_api.BrowserContext:
        """The profile's own context: its cookies are the profile's. Never close it."""
        return self._context

    @property
    def page(self) -> sync_api.Page:
        """A fresh page of that context."""
        return self._page


class AsyncSession(_Report):
    """A leased profile with its running browser, for async code."""

    def __init__(self, borrowed: BorrowedBrowser, context: async_api.BrowserContext, page: async_api.Page) -> None:
        super().__init__(borrowed)
        self._context = context
        self._page = page

    @property
    def context(self) -> async_api.BrowserContext:
        """The profile's own context: its cookies are the profile's. Never close it."""
        return self._context

    @property
    def page(self) -> async_api.Page:
        """A fresh page of that context."""
        return self._page


class Borrowed:
    """What `Pool.browser` returns: enter it with ``with`` or ``async with``, once."""

    def __init__(self, borrowing: Borrowing, *, options: Mapping[str, Any], playwright: Driver | None = None) -> None:
        self._borrowing = borrowing
        self._runtime = borrowing.runtime
        self._threads = borrowing.runtime.threads
        self._options = options
        self._playwright = playwright
        self._entered = False
        self._process = 0
        self._session: Session | AsyncSession | None = None
        self._driver = ExitStack()
        self._async_driver = AsyncExitStack()
        self._watch: _LossWatch | None = None

    def __enter__(self) -> Session:
        given = check_sync(self._playwright)
        self._enter_once()
        lease = self._borrowing.lease()
        with ExitStack() as entering:
            entering.push(self._driver)
            try:
                playwright = self._driver.enter_context(sync_driver(given))
            except BaseException as error:
                give_back_unused(self._runtime.browsers, lease, error)
                raise
            borrowed = start_browser(self._runtime, lease, self._options)
            try:
                self._session = _connect(borrowed, playwright)
            except BaseException as error:
                _give_back_unconnected(borrowed, error)
                if isinstance(error, Exception):
                    raise _not_connected(borrowed, error) from error
                raise
            entering.pop_all()
        return self._session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if session is None or self._is_inherited():
            return
        with self._driver:
            # The browser is stopped first: with a frozen one, no call of the driver would ever return.
            try:
                session._borrowed.give_back(_verdict(session, error))  # noqa: SLF001 - the session's own module
            except PoolsqlError as problem:
                _raise_unless_moot(problem, error, because_of_loss=_follows_from_loss(error))

    async def __aenter__(self) -> AsyncSession:
        given = check_async(self._playwright)
        self._enter_once()
        lease = await self._lease()
        async with AsyncExitStack() as entering:
            entering.push_async_exit(self._async_driver)
            try:
                playwright = await self._async_driver.enter_async_context(async_driver(given))
            except BaseException as error:
                await self._threads.run(partial(give_back_unused, self._runtime.browsers, lease, error))
                raise
            borrowed = await self._threads.run(
                lambda: start_browser(self._runtime, lease, self._options), undo=_give_back_cancelled
            )
            try:
                session = await _connect_async(borrowed, playwright)
            except BaseException as error:
                await self._threads.run(partial(_give_back_unconnected, borrowed, error))
                if isinstance(error, Exception):
                    raise _not_connected(borrowed, error) from error
                raise
            entering.pop_all()
        self._session = session
        self._watch = _LossWatch(borrowed)
        return session

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        session, self._session = self._session, None
        if not isinstance(session, AsyncSession) or self._watch is None or self._is_inherited():
            return
        because_of_loss = self._watch.end(error) or _follows_from_loss(error)
        async with self._async_driver:
            try:
                give_back = session._borrowed.give_back  # noqa: SLF001 - the session's own module
                await self._threads.run(partial(give_back, _verdict(session, error)))
            except PoolsqlError as problem:
                _raise_unless_moot(problem, error, because_of_loss=because_of_loss)

    async def _lease(self) -> Lease:
        borrowing = self._borrowing
        lease = await self._threads.run(borrowing.try_once, undo=_release_cancelled)
        try:
            while lease is None and borrowing.left > 0:
                called = asyncio.wrap_future(await self._threads.run(borrowing.stand_in_line))
                await asyncio.wait([called], timeout=borrowing.left)
                lease = await self._threads.run(borrowing.try_once, undo=_release_cancelled)
            lease = lease or await self._threads.run(borrowing.leave_line, undo=_release_cancelled)
        except BaseException:
            await self._threads.run(borrowing.abandon)
            raise
        if lease is None:
            lease = await self._threads.run(borrowing.last_try, undo=_release_cancelled)
        return lease

    def _enter_once(self) -> None:
        if self._entered:
            raise BadInputError("this browser was borrowed before; call Pool.browser() anew for each block")
        self._entered = True
        self._process = os.getpid()

    def _is_inherited(self) -> bool:
        """Whether this is a forked child that leaves its parent's block: nothing in it is the child's to end."""
        return self._process != os.getpid()


class _LossWatch:
    """Cancels the task that entered the block when its lease is lost, as `asyncio.timeout` does at its time."""

    def __init__(self, borrowed: BorrowedBrowser) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._cancelling = self._task.cancelling() if self._task is not None else 0
        self._cancelled = False
        self._over = False
        borrowed.when_lost(self._lost)

    def end(self, error: BaseException | None) -> bool:
        """Stop watching; whether `error` is this watch's own cancellation, which then is LeaseLostError's."""
        self._over = True
        if not self._cancelled or self._task is None:
            return False
        return self._task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError)

    def _lost(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            log.debug("the loop of a lost lease has ended")

    def _cancel(self) -> None:
        if not self._over and self._task is not None:
            self._cancelled = True
            self._task.cancel()


def _address(borrowed: BorrowedBrowser) -> str:
    url = borrowed.browser.handle.cdp_url
    if url is None:
        raise LaunchFailedError(f"lease {borrowed.lease.id}: its launcher told no address to connect to")
    return url


def _connect(borrowed: BorrowedBrowser, playwright: sync_api.Playwright) -> Session:
    with _stopped_after(CONNECT_SECONDS, borrowed):
        browser = playwright.chromium.connect_over_cdp(_address(borrowed), timeout=CONNECT_SECONDS * 1000)
        context = browser.contexts[0]
        return Session(borrowed, context, context.new_page())


async def _connect_async(borrowed: BorrowedBrowser, playwright: async_api.Playwright) -> AsyncSession:
    async with asyncio.timeout(CONNECT_SECONDS):
        browser = await playwright.chromium.connect_over_cdp(_address(borrowed), timeout=CONNECT_SECONDS * 1000)
        context = browser.contexts[0]
        return AsyncSession(borrowed, context, await context.new_page())


@contextmanager
def _stopped_after(seconds: float, borrowed: BorrowedBrowser) -> Iterator[None]:
    """Stop the browser when a sync block takes too long: only that ends a call to a browser that does not answer."""
    timer = threading.Timer(seconds, borrowed.stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _verdict(session: Session | AsyncSession, error: BaseException | None) -> Verdict | None:
    """What was reported, else what the block's end stands for."""
    if session._verdict is not None or error is None:  # noqa: SLF001 - the session's own module
        return session._verdict  # noqa: SLF001 - as above
    return classify_error(error) if isinstance(error, Exception) else verdict_of(error)


def _raise_unless_moot(problem: PoolsqlError, error: BaseException | None, *, because_of_loss: bool) -> None:
    """Raise what went wrong with giving back, unless the block has an error of its own to tell."""
    if error is None or (because_of_loss and isinstance(problem, LeaseLostError)):
        raise problem from error
    log.warning("%s", problem)


def _follows_from_loss(error: BaseException | None) -> bool:
    """Whether an error of a block whose lease is lost can come from its browser being stopped.

    Calls under way fail in many ways then: with a closed target, or as an aborted page load.
    """
    return type(error).__module__.startswith("playwright.")


def _give_back_unconnected(borrowed: BorrowedBrowser, error: BaseException) -> None:
    """A browser that started but can't be driven is the browser's fault, never the profile's."""
    if isinstance(error, Exception):
        verdict = Verdict(Outcome.BROWSER_CRASHED, f"its browser started but cannot be driven: {type(error).__name__}")
    else:
        verdict = verdict_of(error)
    _give_back_quietly(borrowed, verdict)


def _give_back_quietly(borrowed: BorrowedBrowser, verdict: Verdict) -> None:
    try:
        borrowed.give_back(verdict)
    except PoolsqlError as problem:
        log.warning("%s", problem, extra={"lease": borrowed.lease.id})


def _not_connected(borrowed: BorrowedBrowser, error: Exception) -> PoolsqlError:
    lost = borrowed.lease.lost
    if lost is not None:
        return LeaseLostError(f"lease {borrowed.lease.id} was lost while its browser was started: {lost}")
    return LaunchFailedError(
        f"profile {borrowed.lease.profile.key}: its browser started but cannot be driven "
        f"({classify_error(error).detail}); the machine may be overloaded"
    )


def _release_cancelled(lease: Lease | None) -> None:
    if lease is not None:
        lease.release(Outcome.CANCELLED, detail="cancelled while it was checked out")


def _give_back_cancelled(borrowed: BorrowedBrowser) -> None:
    _give_back_quietly(borrowed, Verdict(Outcome.CANCELLED, "cancelled while its browser started"))
