"""A lease that is lost while its browser runs (I2, I3): the browser is stopped, and the caller is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest
from playwright.async_api import Error as AsyncError
from playwright.async_api import Playwright, async_playwright
from playwright.sync_api import Error
from sqlalchemy.engine import URL
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect as connect_raw

from poolsql import Fleet, LeaseLostError, NoProfileAvailableError, Outcome, Pool, Visit
from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Parameters, Statement
from poolsql.errors import DatabaseUnavailableError
from poolsql.settings import load_settings
from tests.fixtures.browsers import BrowserHome, Ledger, Site, make_pool, unstoppable_browsers
from tests.fixtures.conditions import until

NewFleet = Callable[..., Fleet]


@pytest.fixture
def shop(fleet: Fleet) -> Pool:
    """A pool whose holders learn soon that a lease is lost."""
    return make_pool(fleet, ttl=2, renew=0.2)


def lose(ledger: Ledger) -> None:
    """Let a reaper elsewhere take the leases; their browsers go on for now."""
    ledger.take_away()


# Sync


def test_the_browser_is_stopped_and_the_block_ends_with_lease_lost(
    shop: Pool, ledger: Ledger, browser_home: BrowserHome
) -> None:
    with pytest.raises(LeaseLostError, match="on profile p0 is lost"), shop.browser() as borrowed:  # noqa: PT012 - all of the block
        lose(ledger)
        until(lambda: borrowed.lease.lost is not None)
        until(lambda: not browser_home.processes())
        with pytest.raises(LeaseLostError):
            borrowed.lease.check()
        with pytest.raises(LeaseLostError):
            borrowed.lease.record(Visit(outcome=Outcome.SUCCESS, detail="a late result"))
        borrowed.report("blocked", detail="seen too late")
    late = {row.kind: (row.outcome, row.detail) for row in ledger.refused()}
    assert late["visit"] == ("success", "a late result")
    assert late["release"] == ("blocked", "seen too late")
    assert ledger.attempts() == []
    assert [lease.state for lease in ledger.leases()] == ["reclaiming"]


def test_a_call_that_the_stop_cuts_off_is_told_as_lease_lost(shop: Pool, ledger: Ledger, site: Site) -> None:
    with pytest.raises(LeaseLostError) as told, shop.browser() as borrowed:  # noqa: PT012 - all of the block
        lose(ledger)
        borrowed.page.goto(site.waiting)
    assert isinstance(told.value.__cause__, Error)


def test_an_error_of_the_callers_own_wins_over_lease_lost(shop: Pool, ledger: Ledger) -> None:
    with pytest.raises(KeyError), shop.browser() as borrowed:  # noqa: PT012 - all of the block
        lose(ledger)
        until(lambda: borrowed.lease.lost is not None)
        raise KeyError
    (late,) = (row for row in ledger.refused() if row.kind == "release")
    assert late.outcome == "task_failed"


def test_a_loss_that_only_the_release_notices_is_told_too(fleet: Fleet, database: Database) -> None:
    pool = make_pool(fleet)
    ledger = Ledger(database, pool)
    with pytest.raises(LeaseLostError, match="refused"), pool.browser():
        lose(ledger)
    assert [row.kind for row in ledger.refused()] == ["release"]


class AwayDatabase(Database):
    """A database that can go away altogether."""

    away = False

    def run_once(self, statement: Statement, parameters: Parameters) -> list[Row]:
        if self.away:
            raise psycopg.OperationalError("connection refused, says the test")
        return list(super().run_once(statement, parameters))

    def connect(self):  # type: ignore[no-untyped-def]
        if self.away:
            raise DatabaseUnavailableError("connection refused, says the test")
        return super().connect()


def test_a_browser_is_stopped_also_when_the_database_is_away(
    database_url: URL, fleet: Fleet, database: Database, browser_home: BrowserHome
) -> None:
    shop = make_pool(fleet, ttl=1, renew=0.2)
    away = AwayDatabase(database_url, load_settings(machine="here", data_dir=browser_home.data_dir))
    away.patience = 0.1
    with Fleet(away, fleet.settings) as cut_off:
        pool = cut_off.pool(shop.name)
        with pytest.raises(LeaseLostError, match="renewed in time"), pool.browser():  # noqa: PT012 - all of the block
            away.away = True
            until(lambda: not browser_home.processes())
        away.away = False
    away.close()
    ledger = Ledger(database, shop)
    until(lambda: fleet.reap().attempts)
    assert ledger.outcomes() == ["lease_expired"]


# Async


@asynccontextmanager
async def driver() -> AsyncIterator[Playwright]:
    async with async_playwright() as playwright:
        yield playwright


def test_the_task_is_cancelled_and_told_why(shop: Pool, ledger: Ledger, site: Site, browser_home: BrowserHome) -> None:
    async def work() -> None:
        async with driver() as playwright:
            # Twice: while a page loads, and while nothing of the browser is awaited.
            for wait in ("page", "sleep"):
                with pytest.raises(LeaseLostError) as told:  # noqa: PT012 - all of the block
                    async with shop.browser(playwright=playwright) as borrowed:
                        lose(ledger)
                        if wait == "page":
                            await borrowed.page.goto(site.waiting)
                        await asyncio.sleep(60)
                assert isinstance(told.value.__cause__, asyncio.CancelledError | AsyncError)
                assert browser_home.processes() == []
                task = asyncio.current_task()
                assert task is not None
                assert task.cancelling() == 0
                ledger.make_due()
                await asyncio.to_thread(shop._runtime.reap)
                ledger.free()

    asyncio.run(work())
    assert ledger.outcomes() == ["lease_expired", "lease_expired"]


def test_a_cancellation_by_the_caller_stays_one(shop: Pool, ledger: Ledger, browser_home: BrowserHome) -> None:
    async def hold(*, inside: asyncio.Event, playwright: Playwright) -> None:
        async with shop.browser(playwright=playwright):
            inside.set()
            await asyncio.sleep(60)

    async def work() -> None:
        async with driver() as playwright:
            # With a lease that holds, and with one that is lost at the same time.
            for lost in (False, True):
                inside = asyncio.Event()
                task = asyncio.create_task(hold(inside=inside, playwright=playwright))
                await inside.wait()
                if lost:
                    lose(ledger)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert browser_home.processes() == []

    asyncio.run(work())
    assert ledger.outcomes() == ["cancelled"]
    assert "cancelled" in {row.outcome for row in ledger.refused()}


def test_a_time_out_of_the_callers_own_stays_one(shop: Pool, ledger: Ledger) -> None:
    async def work() -> None:
        async with driver() as playwright:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5), shop.browser(playwright=playwright):
                    await asyncio.sleep(60)

    asyncio.run(work())
    assert ledger.outcomes() == ["cancelled"]


# A stop that cannot be proven


def test_a_profile_is_not_offered_before_its_browser_is_proven_stopped(
    shop: Pool, ledger: Ledger, fleet: Fleet, browser_home: BrowserHome
) -> None:
    with unstoppable_browsers(browser_home):
        with shop.browser() as borrowed:
            borrowed.report("not_found")
        assert borrowed.lease.released
        assert borrowed.lease.attempt is None
        assert browser_home.main().is_running()
        assert shop.status().counts == {"reclaiming": 1}
        with pytest.raises(NoProfileAvailableError, match="1 reclaiming"), shop.browser():
            pass
        ledger.make_due()
        assert fleet.reap().stuck == 1
        assert shop.status().counts == {"reclaiming": 1}
    ledger.make_due()
    (attempt,) = fleet.reap().attempts
    assert attempt.outcome == "not_found"
    assert browser_home.processes() == []
    assert ledger.last().stop_rung == "browser_close"
    assert shop.status().available == 1


def test_only_its_own_machine_can_give_a_profile_back(
    new_fleet: NewFleet, database: Database, browser_home: BrowserHome
) -> None:
    there, here = new_fleet(machine="there"), new_fleet()
    pool = make_pool(there)
    ledger = Ledger(database, pool)
    with pytest.raises(LeaseLostError), unstoppable_browsers(browser_home), pool.browser():
        lose(ledger)
    ledger.make_due()
    assert here.reap().attempts == []
    with pytest.raises(NoProfileAvailableError), here.pool(pool.name).browser():
        pass
    assert browser_home.main().is_running()
    (attempt,) = there.reap().attempts
    assert attempt.outcome == "lease_expired"
    assert browser_home.processes() == []
    ledger.free()
    # The profile lives where it was first started.
    with pytest.raises(NoProfileAvailableError), here.pool(pool.name).browser():
        pass


def test_whoever_still_drives_an_old_lease_is_cut_off_before_the_next_one_starts(
    new_fleet: NewFleet, database: Database, site: Site
) -> None:
    old, new = new_fleet(), new_fleet()
    pool = make_pool(old, lost_cooldown=0)
    ledger = Ledger(database, pool)
    with pytest.raises(LeaseLostError), pool.browser() as borrowed, connect_raw(borrowed.cdp_url, proxy=None) as raw:  # noqa: PT012 - all of the block
        lose(ledger)
        with pytest.raises(NoProfileAvailableError), new.pool(pool.name).browser():
            pass
        raw.send('{"id": 1, "method": "Browser.getVersion"}')
        assert '"id":1' in str(raw.recv(timeout=5))
        ledger.make_due()
        with new.pool(pool.name).browser(wait=5) as next_one:
            with pytest.raises(ConnectionClosed):
                raw.recv(timeout=0)
            # The end of the old block must not touch the browser of the new lease.
            assert next_one.lease.id != borrowed.lease.id
            borrowed._borrowed.stop()
            next_one.page.goto(site.url)
            assert next_one.page.inner_text("h1") == "Hello"
    assert ledger.outcomes() == ["lease_expired", "success"]
