"""Fleets whose browsers a product starts: what its answers do to profiles, launchers and leases."""

from __future__ import annotations

import json
import logging
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from playwright.sync_api import sync_playwright
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql import BadInputError, Fleet, LaunchFailedError, LeaseLostError, NoProfileAvailableError, Pool
from poolsql.database.engine import Database
from poolsql.launchers.contract import BrowserHandle, LaunchRequest
from poolsql.launchers.rest import retrying
from poolsql.launchers.rest.launcher import RestLauncher
from tests.fixtures.browsers import BrowserHome, Ledger
from tests.fixtures.justbrowser import TOKEN, JustBrowser, Trouble

from .support import ROOT

NewFleet = Callable[..., Fleet]


@pytest.fixture
def product(browser_home: BrowserHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[JustBrowser]:
    """The product, on this machine; waits between tries are short."""
    monkeypatch.setenv("JB_TOKEN", TOKEN)
    monkeypatch.setattr(retrying, "WAITS", (0.01, 0.02, 0.04))
    with JustBrowser(browser_home.data_dir) as running:
        yield running


def make_rest_pool(fleet: Fleet, product: JustBrowser, *keys: str, **options: Any) -> Pool:
    """A pool whose profiles the product knows, with a launcher of its own."""
    mark = uuid4().hex[:8]
    launcher = {"preset": "justbrowser", "token": "env:JB_TOKEN", "base_url": product.base_url, **options}
    fleet.define_launcher(f"jb-{mark}", kind="rest", **launcher)
    pool = fleet.define_pool(f"shop-{mark}")
    for key in keys:
        pool.add_profile(key, launcher=f"jb-{mark}")
    return pool


@pytest.fixture
def shop(fleet: Fleet, product: JustBrowser) -> Pool:
    return make_rest_pool(fleet, product, "profile_1")


@pytest.fixture
def six(fleet: Fleet, product: JustBrowser) -> Pool:
    return make_rest_pool(fleet, product, *(f"profile_{number}" for number in range(6)))


def launcher_row(database: Database, pool: Pool) -> Any:
    """The row of the pool's launcher."""
    query = (
        "SELECT DISTINCT launchers.* FROM poolsql.launchers JOIN poolsql.profiles ON launcher_id = launchers.id "
        "WHERE pool_id = :pool"
    )
    with database.connect() as connection:
        return connection.execute(text(query), {"pool": pool.id}).one()


def everything(database: Database) -> str:
    """All rows of all tables, as text."""
    with database.connect() as connection:
        names = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'poolsql'")).scalars().all()
        rows = [
            row for name in names for row in connection.execute(text(f"SELECT t::text FROM poolsql.{name} t")).scalars()
        ]
    assert rows
    return "\n".join(rows)


def fail_to_start(pool: Pool, **asked: Any) -> LaunchFailedError:
    """Enter a block whose browser does not start."""
    with pytest.raises(LaunchFailedError) as told, pool.browser(**asked):
        pytest.fail("the block was entered")
    return told.value


def test_a_session_drives_the_products_browser_and_its_stop_is_recorded(
    shop: Pool, product: JustBrowser, database: Database
) -> None:
    ledger = Ledger(database, shop)
    with shop.browser(task="sku-1", options={"headless": True}) as session:
        session.page.goto("data:text/html,<title>Hello</title>")
        assert session.page.title() == "Hello"
        (lease,) = ledger.leases()
        assert (lease.browser_machine, lease.browser["cdp_url"]) == ("here", session.cdp_url)
    assert not product.runs("profile_1")
    assert product.asked[0].body == {"headless": True}
    (profile,) = ledger.profiles()
    assert (ledger.last().outcome, ledger.last().stop_rung) == ("success", "vendor_stop")
    assert (profile.machine, profile.directory) == (None, None), "the product keeps the profile, on any machine"


def test_one_of_six_ids_that_is_unknown_is_paused_after_three_starts_at_most_i5(
    six: Pool, product: JustBrowser, database: Database
) -> None:
    ledger, key = Ledger(database, six), "profile_5"
    product.unknown.add(key)
    ids = {row.key: row.id for row in ledger.profiles()}
    with sync_playwright() as driver:
        for name, profile_id in ids.items():
            if name == key:
                fail_to_start(six, profile_id=profile_id, playwright=driver)
            else:
                with six.browser(profile_id=profile_id, playwright=driver):
                    pass
    ledger.free()
    while next(row for row in ledger.profiles() if row.key == key).state == "active":
        fail_to_start(six, profile_id=ids[key])
        ledger.free()
        assert product.count("start", key) <= 3
    for row in ledger.profiles():
        assert row.consecutive_failures == 0
        assert row.state == ("paused" if row.key == key else "active")
    paused = next(row for row in ledger.profiles() if row.key == key)
    assert key in paused.state_reason
    assert "404" in paused.state_reason
    assert paused.state_changed_by == "poolsql"
    assert ledger.leases() == []
    assert launcher_row(database, six).breaker_open_until is None
    with pytest.raises(NoProfileAvailableError):
        six.checkout(profile_id=ids[key])


def test_when_all_ids_are_unknown_the_breaker_opens_and_no_profile_is_changed_i5(
    six: Pool, product: JustBrowser, database: Database
) -> None:
    product.unknown.update(f"profile_{number}" for number in range(6))
    ledger = Ledger(database, six)
    for _ in range(3):
        fail_to_start(six)
    with pytest.raises(NoProfileAvailableError), six.browser():
        pass
    assert product.count("start") == 3
    launcher = launcher_row(database, six)
    assert launcher.breaker_open_until is not None
    assert "check the base URL" in launcher.breaker_reason
    assert six.status().counts == {"breaker": 6}
    for profile in ledger.profiles():
        assert (profile.state, profile.state_reason, profile.waits_for) == ("active", None, None)
        assert (profile.consecutive_failures, profile.consecutive_holds) == (0, 0)
    assert ledger.leases() == []


def test_a_product_that_does_not_run_opens_the_breaker_and_no_profile_waits_for_a_stop_i5(
    six: Pool, product: JustBrowser, database: Database
) -> None:
    product.close_api()
    for _ in range(3):
        assert "start the product" in str(fail_to_start(six))
    assert six.status().counts == {"breaker": 6}
    assert Ledger(database, six).leases() == []


def test_a_refused_token_opens_the_breaker_and_pauses_nobody_i5(
    six: Pool, product: JustBrowser, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JB_TOKEN", "wrong-canary-77aa")
    for _ in range(3):
        fail_to_start(six)
    assert "token refused" in launcher_row(database, six).breaker_reason
    assert {row.state for row in Ledger(database, six).profiles()} == {"active"}
    assert "wrong-canary" not in everything(database)
    assert product.count("start") == 3


def test_a_browser_that_may_run_keeps_its_profile_until_the_product_confirms_its_stop_i3(
    fleet: Fleet, shop: Pool, product: JustBrowser, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(database, shop)
    product.always("start", Trouble.LOST_ANSWER)
    product.always("stop", Trouble.STATUS, status=401)
    assert "may run all the same" in str(fail_to_start(shop))
    (lease,) = ledger.leases()
    assert lease.state == "reclaiming"
    ledger.make_due()
    assert fleet.reap().stuck == 1
    with pytest.raises(NoProfileAvailableError):
        shop.checkout()
    assert product.runs("profile_1")
    product.behave()
    ledger.make_due()
    with monkeypatch.context() as changed:
        now = time.time
        changed.setattr(time, "time", lambda: now() + 3600)
        assert fleet.reap().stuck == 1, "the start that nobody saw end may still be under way"
    with database.connect() as connection:
        connection.execute(text("UPDATE poolsql.leases SET reclaim_since = reclaim_since - interval '80 s'"))
    ledger.make_due()
    (attempt,) = fleet.reap().attempts
    assert attempt.outcome == "launch_failed"
    assert not product.runs("profile_1")
    assert ledger.leases() == []


def test_a_lie_about_a_stop_keeps_the_profile_out_of_the_offer_i3(
    fleet: Fleet,
    shop: Pool,
    product: JustBrowser,
    database: Database,
    browser_home: BrowserHome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = Ledger(database, shop)
    product.always("stop", Trouble.LIE)
    with monkeypatch.context() as impatient:
        impatient.setattr("poolsql.fleet.browsers.STOP_SECONDS", 0.5)
        with shop.browser():
            pass
        (lease,) = ledger.leases()
        assert lease.state == "reclaiming"
        with pytest.raises(NoProfileAvailableError):
            shop.checkout()
    assert product.runs("profile_1")
    product.behave()
    ledger.make_due()
    (attempt,) = fleet.reap().attempts
    assert attempt.outcome == "success"
    assert ledger.last().stop_rung == "vendor_stop"
    _forget_artifacts(browser_home)


def _forget_artifacts(home: BrowserHome) -> None:
    """Remove what Playwright leaves when its driver ends before the browser does."""
    for left in home.temporary.glob("playwright-artifacts-*"):
        left.rmdir()


@contextmanager
def worker(pool: Pool, database_url: URL, home: BrowserHome) -> Iterator[subprocess.Popen[str]]:
    """A worker in a process of its own, in the middle of a task; it is killed at the end."""
    with socket.create_server(("127.0.0.1", 0)) as never_answers:
        asked = {
            "url": database_url.render_as_string(hide_password=False),
            "data_dir": str(home.data_dir),
            "pool": pool.name,
            "waiting": f"http://127.0.0.1:{never_answers.getsockname()[1]}/",
        }
        program = [sys.executable, "-m", "tests.integration.fleet.worker_program", "hold", json.dumps(asked)]
        with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                assert select.select([process.stdout], [], [], 30)[0]
                assert "lease" in process.stdout.readline()
                yield process
            finally:
                process.kill()


def test_the_reaper_stops_the_browser_of_a_killed_worker_through_the_api_i3(
    new_fleet: NewFleet,
    fleet: Fleet,
    shop: Pool,
    product: JustBrowser,
    database: Database,
    database_url: URL,
    browser_home: BrowserHome,
) -> None:
    ledger = Ledger(database, shop)
    with worker(shop, database_url, browser_home) as process:
        assert product.runs("profile_1")
        process.kill()
        process.wait()
        assert product.runs("profile_1"), "it is the product's"
        ledger.expire()
        elsewhere = new_fleet(machine="elsewhere").reap()
        assert (elsewhere.attempts, elsewhere.stuck) == ([], 0), "the product of another machine is another one"
        assert product.runs("profile_1")
        (attempt,) = fleet.reap().attempts
    assert attempt.outcome in {"worker_lost", "lease_expired"}
    assert not product.runs("profile_1")
    assert (ledger.last().stop_rung, ledger.last().ended_by) == ("vendor_stop", "reaper")
    assert ledger.leases() == []
    _forget_artifacts(browser_home)


def test_a_start_has_the_launchers_time_and_ends_with_its_lease_i3(
    shop: Pool, product: JustBrowser, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []
    start = RestLauncher.start

    def lose_the_lease_and_start(
        self: RestLauncher, request: LaunchRequest, handle: BrowserHandle, *, timeout: float
    ) -> BrowserHandle:
        given.append(timeout)
        request.still_wanted.__self__.lose("lost, says the test")  # type: ignore[attr-defined]
        return start(self, request, handle, timeout=timeout)

    monkeypatch.setattr(RestLauncher, "start", lose_the_lease_and_start)
    with pytest.raises(LeaseLostError, match="says the test"), shop.browser():
        pass
    assert (given, product.asked) == ([60.0], [])


def test_the_token_is_in_no_row_log_or_error_i11(
    shop: Pool, product: JustBrowser, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ledger, errors = Ledger(database, shop), []
    for status in (400, 401, 409, 429, 500):
        product.always("start", Trouble.STATUS, status=status)
        errors.append(str(fail_to_start(shop)))
        ledger.free()
        with database.connect() as connection:
            connection.execute(text("UPDATE poolsql.launchers SET breaker_open_until = NULL"))
    product.behave()
    with shop.browser():
        assert TOKEN not in everything(database)
    written = [everything(database), *errors, *(record.getMessage() for record in caplog.records)]
    assert "[hidden]" in written[0], "the answers that repeat the token were kept, without it"
    assert TOKEN not in "\n".join(written)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hedless": True}, "did you mean 'headless'"),
        ({"headless": "yes"}, "must be true or false"),
        ({"token": "env:X"}, "token: unknown"),
    ],
)
def test_options_that_the_launcher_cannot_take_change_nothing(
    shop: Pool, product: JustBrowser, database: Database, options: dict[str, Any], expected: str
) -> None:
    launcher = launcher_row(database, shop).name
    with pytest.raises(BadInputError, match=expected):
        shop.add_profile("another", launcher=launcher, options=options)
    with pytest.raises(BadInputError, match=expected), shop.browser(options=options):
        pass
    ledger = Ledger(database, shop)
    assert [row.key for row in ledger.profiles()] == ["profile_1"]
    assert (ledger.outcomes(), product.asked) == (["task_failed"], [])


def test_a_launcher_that_cannot_be_right_is_not_defined(fleet: Fleet, database: Database) -> None:
    with pytest.raises(BadInputError, match=r"launcher wrong: .*did you mean 'justbrowser'"):
        fleet.define_launcher("wrong", kind="rest", preset="justbrowsr")
    with pytest.raises(BadInputError, match="did you mean 'rest'"):
        fleet.define_launcher("wrong", kind="resst")
    with database.connect() as connection:
        assert connection.execute(text("SELECT FROM poolsql.launchers WHERE name = 'wrong'")).all() == []
