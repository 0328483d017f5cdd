"""Playwright's drivers, the Node.js processes through which browsers are driven: about 120 MB each."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

from playwright import async_api, sync_api

from poolsql.errors import BadInputError, LaunchFailedError
from poolsql.fleet.threads import to_the_end

Driver = sync_api.Playwright | async_api.Playwright


class _ThreadsDriver:
    """The sync driver of one thread. Playwright allows one at a time, so sessions in each other share it."""

    def __init__(self) -> None:
        self.users = 0
        self.process = os.getpid()
        self._manager = sync_api.sync_playwright()
        try:
            self.playwright = self._manager.start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        # One that did not start, or was interrupted while it did, has not all of what its end wants to close.
        with suppress(AssertionError, AttributeError):
            self._manager.__exit__()


class _OfThread(threading.local):
    driver: _ThreadsDriver | None = None


_of_thread = _OfThread()


def check_sync(given: Driver | None) -> sync_api.Playwright | None:
    """Make sure that sync code can drive a browser here.

    Raises:
        BadInputError: This thread runs an event loop, or `given` is an async driver.
    """
    if isinstance(given, async_api.Playwright):
        raise BadInputError("playwright: this is Playwright's async driver; use `async with`, or give a sync one")
    if given is None and _shared() is None and _loop_runs():
        raise BadInputError(
            "this thread runs an event loop, which a sync browser session would block; use `async with` (and in a "
            "thread that has a sync Playwright of your own, give it as playwright=)"
        )
    return given


def check_async(given: Driver | None) -> async_api.Playwright | None:
    """Make sure that async code can use this driver.

    Raises:
        BadInputError: `given` is a sync driver.
    """
    if isinstance(given, sync_api.Playwright):
        raise BadInputError("playwright: this is Playwright's sync driver; use `with`, or give an async one")
    return given


@contextmanager
def sync_driver(given: sync_api.Playwright | None) -> Iterator[sync_api.Playwright]:
    """The given driver, else this thread's own, which its last user stops.

    Raises:
        LaunchFailedError: It does not start.
    """
    if given is not None:
        yield given
        return
    driver = _shared()
    if driver is None:
        try:
            driver = _of_thread.driver = _ThreadsDriver()
        except Exception as error:
            raise _not_started(error) from error
    driver.users += 1
    try:
        yield driver.playwright
    finally:
        driver.users -= 1
        if driver.users == 0:
            _of_thread.driver = None
            driver.stop()


@asynccontextmanager
async def async_driver(given: async_api.Playwright | None) -> AsyncIterator[async_api.Playwright]:
    """The given driver, else a new one for this session; cancelling its start leaves no process behind.

    Raises:
        LaunchFailedError: It does not start.
    """
    if given is not None:
        yield given
        return
    manager = async_api.async_playwright()
    try:
        playwright = await to_the_end(manager.start(), undo=lambda _: manager.__aexit__())
    except Exception as error:
        raise _not_started(error) from error
    try:
        yield playwright
    finally:
        await to_the_end(manager.__aexit__())


def _shared() -> _ThreadsDriver | None:
    driver = _of_thread.driver
    return driver if driver is not None and driver.process == os.getpid() else None


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _not_started(error: Exception) -> LaunchFailedError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return LaunchFailedError(
        f"Playwright's driver does not start: {reason}; run `playwright --version` to see why (on Debian it needs "
        "the package libatomic1)"
    )
