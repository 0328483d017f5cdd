"""`with pool.browser()`: real pages, real profiles, and how the end of a block becomes an outcome."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator

import pytest
from playwright import sync_api
from playwright.sync_api import Error

from poolsql import BadInputError, Fleet, NoProfileAvailableError, Pool
from poolsql.database.engine import Database
from poolsql.fleet.drivers import sync_driver
from poolsql.fleet.session import Session
from tests.fixtures.browsers import BrowserHome, Ledger, Site, make_pool


@pytest.fixture(scope="module", autouse=True)
def driver() -> Iterator[None]:
    """One driver for all of these tests: the sessions of a thread share the one that is there."""
    with sync_driver(None):
        yield


def identity(pool: Pool, site: Site, profile_id: int) -> str:
    """The cookies that a profile shows to the site."""
    with pool.browser(profile_id=profile_id) as borrowed:
        borrowed.page.goto(site.url)
        return borrowed.page.inner_text("p")


def test_a_page_works_and_the_profile_comes_back_as_a_success(shop: Pool, ledger: Ledger, site: Site) -> None:
    with shop.browser(task="sku-1", host="shop.test") as borrowed:
        borrowed.page.goto(site.url)
        assert borrowed.page.inner_text("h1") == "Hello"
        assert borrowed.page in borrowed.context.pages
        assert borrowed.cdp_url.startswith("ws://127.0.0.1:")
        assert borrowed.profile.key == "p0"
        borrowed.lease.check()
        assert shop.status().counts == {"leased": 1}
    assert borrowed.lease.released
    attempt = ledger.last()
    assert (attempt.outcome, attempt.task, attempt.host) == ("success", "sku-1", "shop.test")
    assert (attempt.ended_by, attempt.browser_started, attempt.stop_rung) == ("holder", True, "browser_close")
    assert shop.status().available == 1


def test_cookies_stay_with_their_profile_and_are_never_shared(
    fleet: Fleet, database: Database, site: Site, browser_home: BrowserHome
) -> None:
    pool = make_pool(fleet, profiles=2)
    one, two = (row.id for row in Ledger(database, pool).profiles())
    with pool.browser(profile_id=one) as borrowed:
        borrowed.page.goto(site.setting("mine"))
        borrowed.page.wait_for_timeout(500)  # the cookie is as old as the promise says, far from the flush after 30 s
    assert identity(pool, site, two) == ""
    assert identity(pool, site, one) == "identity=mine"
    directories = {row.directory for row in Ledger(database, pool).profiles()}
    assert len(directories) == 2
    assert all(str(directory).startswith(str(browser_home.data_dir)) for directory in directories)


def test_what_is_reported_wins_over_what_the_block_ends_with(fleet: Fleet, database: Database) -> None:
    pool = make_pool(fleet, profiles=2)
    with pool.browser() as borrowed:
        borrowed.report("task_failed", detail="first thought")
        borrowed.report("not_found", detail="gone\0 for \ud800 good")
    with pytest.raises(BadInputError, match="no outcome 'fine'"), pool.browser() as borrowed:  # noqa: PT012 - all of the block
        borrowed.report("captcha", retry_after="90s")
        borrowed.report("fine")
    not_found, captcha = Ledger(database, pool).attempts()
    assert (not_found.outcome, not_found.detail) == ("not_found", "gone\ufffd for \ufffd good")
    assert (captcha.outcome, captcha.counted) == ("captcha", True)


def refused_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def a_time_out(borrowed: Session, site: Site) -> None:
    borrowed.page.goto(site.waiting, timeout=100)


def a_refused_connection(borrowed: Session, site: Site) -> None:
    borrowed.page.goto(f"http://127.0.0.1:{refused_port()}/")


def an_error_with_unstorable_text(borrowed: Session, site: Site) -> None:
    message = "a\0b \ud800"
    raise ValueError(message)


def an_interruption(borrowed: Session, site: Site) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    borrowed.page.goto(site.waiting)


@pytest.mark.parametrize(
    ("what_happens", "error", "outcome", "detail"),
    [
        (a_time_out, sync_api.TimeoutError, "task_timeout", "Page.goto: Timeout 100ms exceeded."),
        (a_refused_connection, Error, "site_error", "Page.goto: net::ERR_CONNECTION_REFUSED at"),
        (an_error_with_unstorable_text, ValueError, "task_failed", "ValueError: a\ufffdb \ufffd"),
        (an_interruption, KeyboardInterrupt, "cancelled", "KeyboardInterrupt"),
    ],
)
def test_an_exception_becomes_an_outcome_and_propagates(
    shop: Pool,
    ledger: Ledger,
    site: Site,
    what_happens: Callable[[Session, Site], None],
    error: type[BaseException],
    outcome: str,
    detail: str,
) -> None:
    with pytest.raises(error), shop.browser() as borrowed:
        what_happens(borrowed, site)
    attempt = ledger.last()
    assert attempt.outcome == outcome
    assert attempt.detail.startswith(detail)
    assert attempt.stop_rung == "browser_close"
    assert ledger.leases() == []


def test_a_dead_proxy_is_blamed_not_the_profile(fleet: Fleet, database: Database, site: Site) -> None:
    fleet.define_proxy("dead", f"http://127.0.0.1:{refused_port()}")
    pool = make_pool(fleet, proxy="dead")
    with pytest.raises(Error, match="ERR_PROXY_CONNECTION_FAILED"), pool.browser(host="shop.test") as borrowed:
        borrowed.page.goto("http://shop.test/")
    ledger = Ledger(database, pool)
    attempt, (profile,) = ledger.last(), ledger.profiles()
    assert (attempt.outcome, attempt.blames, attempt.counted) == ("proxy_failed", "proxy", False)
    assert (profile.waits_for, profile.consecutive_failures) == ("hold", 0)


def test_a_browser_that_is_killed_in_the_block_has_crashed(
    shop: Pool, ledger: Ledger, site: Site, browser_home: BrowserHome
) -> None:
    with pytest.raises(Error), shop.browser() as borrowed:  # noqa: PT012 - all of the block
        browser_home.main().kill()
        borrowed.page.goto(site.url)
    attempt, (profile,) = ledger.last(), ledger.profiles()
    assert (attempt.outcome, attempt.blames, attempt.counted) == ("browser_crashed", "browser", False)
    assert attempt.stop_rung != "browser_close"
    assert profile.waits_for == "hold"


def test_a_borrowed_browser_is_for_one_block(shop: Pool, ledger: Ledger) -> None:
    borrowed = shop.browser()
    with borrowed:
        with pytest.raises(BadInputError, match="borrowed before"), borrowed:
            pass
        assert shop.status().counts == {"leased": 1}
    with pytest.raises(BadInputError, match="borrowed before"), borrowed:
        pass
    assert ledger.outcomes() == ["success"]


def test_options_that_the_launcher_cannot_take_are_the_callers_fault(
    shop: Pool, ledger: Ledger, browser_home: BrowserHome
) -> None:
    with pytest.raises(BadInputError, match="colour: unknown"), shop.browser(options={"colour": "red"}):
        pass
    (profile,) = ledger.profiles()
    assert ledger.last().outcome == "task_failed"
    assert (profile.waits_for, profile.state, profile.consecutive_failures) == (None, "active", 0)
    assert browser_home.processes() == []
    assert ledger.leases() == []


def test_no_profile_is_told_with_reason_and_leaves_nothing(shop: Pool, ledger: Ledger) -> None:
    with shop.lease(), pytest.raises(NoProfileAvailableError, match="1 leased") as told, shop.browser(wait=0.05):
        pass
    assert told.value.counts == {"leased": 1}
    assert ledger.outcomes() == ["success"]
