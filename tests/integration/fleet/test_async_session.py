"""`async with pool.browser()`: the loop is never blocked, and a cancellation at any stage leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from playwright.async_api import Error, Playwright, async_playwright
from playwright.sync_api import sync_playwright

from poolsql import BadInputError, Fleet, NoProfileAvailableError, Pool
from poolsql.database.engine import Database
from poolsql.fleet import browsers
from poolsql.fleet.borrowing import BorrowedBrowser, Borrowing
from poolsql.launchers.contract import BrowserHandle
from poolsql.leasing.lease import Lease
from tests.fixtures.browsers import BrowserHome, Ledger, Site, drivers, freeze, make_pool
from tests.fixtures.conditions import until

AfterStart = Callable[[Callable[[BrowserHandle], None]], None]


def run_with_driver(work: Callable[[Playwright], Coroutine[Any, Any, None]]) -> None:
    """Run async work with one driver for all its sessions."""

    async def main() -> None:
        async with async_playwright() as playwright:
            await work(playwright)

    asyncio.run(main())


async def seen(condition: Callable[[], object]) -> None:
    """Wait on the loop until a condition is true."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - other threads and processes make it true
            await asyncio.sleep(0.002)


class Ticking:
    """A coroutine that shows that the loop runs."""

    def __init__(self) -> None:
        self.ticks = 0

    async def tick(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.ticks += 1

    def during(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The method, which now passes only while the loop ticks."""

        def call(*arguments: Any, **named: Any) -> Any:
            before = self.ticks
            until(lambda: self.ticks > before + 2, seconds=5)
            return method(*arguments, **named)

        return call


def test_sessions_share_a_driver_and_keep_their_profiles_apart(fleet: Fleet, database: Database, site: Site) -> None:
    pool = make_pool(fleet, profiles=2)

    async def work(playwright: Playwright) -> None:
        driver = drivers()
        async with pool.browser(playwright=playwright) as one, pool.browser(playwright=playwright) as two:
            await one.page.goto(site.setting("one"))
            await two.page.goto(site.url)
            assert await two.page.inner_text("p") == ""
            assert drivers() == driver
            await asyncio.sleep(0.5)  # as old as the promise says; the browser flushes every 30 s only
        async with pool.browser(playwright=playwright, profile_id=one.profile.id) as again:
            await again.page.goto(site.url)
            assert await again.page.inner_text("p") == "identity=one"
            again.report("not_found", detail="gone")

    run_with_driver(work)
    assert Ledger(database, pool).outcomes() == ["success", "success", "not_found"]
    assert {attempt.stop_rung for attempt in Ledger(database, pool).attempts()} == {"browser_close"}


def test_a_session_can_bring_its_own_driver(shop: Pool, site: Site) -> None:
    async def work() -> None:
        async with shop.browser() as borrowed:
            await borrowed.page.goto(site.url)
            assert await borrowed.page.inner_text("h1") == "Hello"
            assert len(drivers()) == 1

    asyncio.run(work())
    assert drivers() == set()


def test_errors_of_a_block_become_outcomes_and_propagate(
    shop: Pool, ledger: Ledger, site: Site, browser_home: BrowserHome
) -> None:
    async def work(playwright: Playwright) -> None:
        with pytest.raises(Error):  # noqa: PT012 - all of the block
            async with shop.browser(playwright=playwright) as borrowed:
                browser_home.main().kill()
                await borrowed.page.goto(site.url)
        ledger.free()
        with pytest.raises(TimeoutError):
            async with shop.browser(playwright=playwright) as borrowed, asyncio.timeout(0.2):
                await borrowed.page.goto(site.waiting)

    run_with_driver(work)
    assert ledger.outcomes() == ["browser_crashed", "task_timeout"]


def test_nothing_that_may_take_time_blocks_the_loop(
    shop: Pool, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticking = Ticking()
    slow: list[tuple[type, str]] = [
        *((Borrowing, name) for name in ("try_once", "last_try")),
        *((browsers.Browsers, name) for name in ("start",)),
        *((BorrowedBrowser, name) for name in ("stop", "give_back")),
        *((Lease, name) for name in ("browser_starting", "browser_started", "release")),
    ]

    async def work(playwright: Playwright) -> None:
        ticks = asyncio.create_task(ticking.tick())
        lease = shop.checkout()
        for owner, name in slow:
            monkeypatch.setattr(owner, name, ticking.during(getattr(owner, name)))
        with pytest.raises(NoProfileAvailableError):
            async with shop.browser(playwright=playwright, wait=0.1):
                pytest.fail("there was a second profile")
        waiting = asyncio.create_task(enter_and_leave(shop, playwright, wait=20))
        await asyncio.to_thread(lease.release)
        await waiting
        ticks.cancel()

    run_with_driver(work)
    assert ledger.outcomes() == ["success", "success"]


async def enter_and_leave(pool: Pool, playwright: Playwright | None, **asked: Any) -> None:
    async with pool.browser(playwright=playwright, **asked):
        pass


# Cancelled while the block is entered


async def cancel_when(condition: Callable[[], object], entering: Coroutine[Any, Any, None]) -> None:
    """Cancel a task as soon as a condition is true; it has to end as cancelled."""
    task = asyncio.create_task(entering)
    await seen(condition)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def assert_nothing_is_left(ledger: Ledger, browser_home: BrowserHome) -> None:
    assert ledger.leases() == []
    assert browser_home.processes() == []
    assert ledger.profiles()[0].waits_for is None


def test_cancelled_while_waiting_for_a_profile(shop: Pool, ledger: Ledger, browser_home: BrowserHome) -> None:
    async def work(playwright: Playwright) -> None:
        with shop.lease():
            await cancel_when(ledger.waiters, enter_and_leave(shop, playwright, wait=60))

    run_with_driver(work)
    assert ledger.outcomes() == ["success"]
    assert ledger.waiters() == []
    assert_nothing_is_left(ledger, browser_home)


class Calls:
    """Calls of a method, which can be kept from returning."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.done = 0
        self.returned = 0
        self.may_return = threading.Event()
        self.may_return.set()

    @property
    def call(self) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            result = self._method(*arguments, **named)
            self.done += 1
            assert self.may_return.wait(20)
            self.returned += 1
            return result

        return call


async def cancel_during(calls: Calls, entering: Coroutine[Any, Any, None]) -> None:
    """Cancel a task, twice, while a call's work is done but not yet answered."""
    calls.may_return.clear()
    task = asyncio.create_task(entering)
    await seen(lambda: calls.done)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    calls.may_return.set()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_cancelled_while_a_profile_is_checked_out(
    shop: Pool, ledger: Ledger, browser_home: BrowserHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(Borrowing.try_once)
    monkeypatch.setattr(Borrowing, "try_once", calls.call)
    asyncio.run(cancel_during(calls, enter_and_leave(shop, None)))
    assert ledger.outcomes() == ["cancelled"]
    assert_nothing_is_left(ledger, browser_home)


def test_cancelled_while_the_driver_starts(shop: Pool, ledger: Ledger, browser_home: BrowserHome) -> None:
    asyncio.run(cancel_when(drivers, enter_and_leave(shop, None)))
    assert drivers() == set()
    assert ledger.outcomes() == ["cancelled"]
    assert_nothing_is_left(ledger, browser_home)


def test_cancelled_while_the_browser_starts(
    shop: Pool, ledger: Ledger, browser_home: BrowserHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(browsers.Browsers.start)
    monkeypatch.setattr(browsers.Browsers, "start", calls.call)

    async def work(playwright: Playwright) -> None:
        await cancel_during(calls, enter_and_leave(shop, playwright))

    run_with_driver(work)
    assert (ledger.last().outcome, ledger.last().stop_rung) == ("cancelled", "browser_close")
    assert_nothing_is_left(ledger, browser_home)


def test_cancelled_while_it_connects(
    shop: Pool,
    ledger: Ledger,
    browser_home: BrowserHome,
    after_start: AfterStart,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browsers, "STOP_SECONDS", 2.0)
    after_start(freeze)
    started = Calls(browsers.Browsers.start)
    monkeypatch.setattr(browsers.Browsers, "start", started.call)

    async def work(playwright: Playwright) -> None:
        await cancel_when(lambda: started.returned, enter_and_leave(shop, playwright))

    run_with_driver(work)
    assert (ledger.last().outcome, ledger.last().stop_rung) == ("cancelled", "sigkill")
    assert_nothing_is_left(ledger, browser_home)


def test_a_failure_under_way_does_not_hide_a_cancellation(
    shop: Pool, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Calls(_fails)
    monkeypatch.setattr(Lease, "browser_starting", calls.call)

    async def work(playwright: Playwright) -> None:
        task = asyncio.create_task(enter_and_leave(shop, playwright))
        await seen(lambda: shop.status().counts == {"leased": 1})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_with_driver(work)
    assert ledger.leases() == []


def _fails(*_: Any, **__: Any) -> None:
    time.sleep(0.2)
    message = "says the test"
    raise RuntimeError(message)


# Misuse


def test_sync_sessions_are_refused_on_a_loop_before_anything_is_leased(
    fleet: Fleet, shop: Pool, ledger: Ledger
) -> None:
    async def misuse(playwright: Playwright) -> None:
        with pytest.raises(BadInputError, match="use `async with`"), shop.browser():
            pass
        with pytest.raises(BadInputError, match="async driver; use `async with`"), shop.browser(playwright=playwright):
            pass

    run_with_driver(misuse)
    assert ledger.attempts() == []
    assert ledger.leases() == []


def test_a_sync_driver_is_refused_by_async_sessions(shop: Pool) -> None:
    with sync_playwright() as playwright:
        entering = shop.browser(playwright=playwright).__aenter__()
        with pytest.raises(BadInputError, match="sync driver; use `with`"):
            entering.send(None)


def test_a_closed_fleet_says_so(fleet: Fleet, shop: Pool) -> None:
    borrowed = shop.browser()
    fleet.close()
    fleet.close()

    async def enter(one: Awaitable[object]) -> None:
        with pytest.raises(BadInputError, match="this fleet is closed"):
            await one

    asyncio.run(enter(borrowed.__aenter__()))
    with pytest.raises(BadInputError, match="this fleet is closed"), shop.browser():
        pass
    with pytest.raises(BadInputError, match="this fleet is closed"):
        shop.checkout()
