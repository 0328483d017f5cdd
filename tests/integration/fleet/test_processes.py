"""Workers as processes: killed, told to end, forked; several fleets; the embedded server's first and last user."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.engine import URL

from poolsql import (
    BadInputError,
    DatabaseUnavailableError,
    Fleet,
    LeaseLostError,
    NoProfileAvailableError,
    Pool,
    connect,
)
from poolsql.database.engine import Database
from tests.fixtures.browsers import BrowserHome, Ledger, Site, make_pool, processes_that_mention
from tests.fixtures.conditions import until
from tests.integration.fleet.actions import program


@pytest.fixture
def asked(shop: Pool, site: Site, database_url: URL, browser_home: BrowserHome) -> dict[str, Any]:
    """What the programs are told."""
    return {
        "url": database_url.render_as_string(hide_password=False),
        "data_dir": str(browser_home.data_dir),
        "pool": shop.name,
        "waiting": site.waiting,
        "setting": site.setting("kept"),
        "url_of_page": site.url,
    }


def test_the_browser_of_a_killed_worker_is_stopped_and_its_profile_comes_back(
    fleet: Fleet, shop: Pool, ledger: Ledger, browser_home: BrowserHome, asked: dict[str, Any]
) -> None:
    with program("hold", **asked) as worker:
        lease = worker.told()["lease"]
        assert fleet.reap().attempts == []
        worker.process.kill()
        worker.process.wait()
        assert browser_home.main().is_running()
        (attempt,) = fleet.reap().attempts
        assert (attempt.lease_id, attempt.outcome) == (lease, "worker_lost")
    assert browser_home.processes() == []
    seen, (profile,) = ledger.last(), ledger.profiles()
    assert (seen.task, seen.blames, seen.counted, seen.ended_by) == ("sku-1", "worker", False, "reaper")
    assert profile.waits_for == "cooldown"
    rests = profile.available_at - seen.ended_at
    assert rests == shop.policy.lost_cooldown
    assert shop.status().counts == {"cooling": 1}
    # Playwright's own directory is its driver's to remove, and that died with the worker.
    for left in browser_home.temporary.glob("playwright-artifacts-*"):
        left.rmdir()


def test_a_waiting_checkout_heals_the_fleet_without_a_daemon(
    new_fleet: Any, database: Database, asked: dict[str, Any], browser_home: BrowserHome
) -> None:
    pool = make_pool(new_fleet(), lost_cooldown=0)
    with program("hold", **{**asked, "pool": pool.name}) as worker:
        worker.told()
        worker.process.kill()
        worker.process.wait()
        with pool.lease(wait=10):
            assert browser_home.processes() == []
    assert Ledger(database, pool).outcomes() == ["worker_lost", "success"]
    for left in browser_home.temporary.glob("playwright-artifacts-*"):
        left.rmdir()


@pytest.mark.parametrize("action", ["end_on_sigterm", "end_on_sigterm_async"])
def test_a_worker_that_is_told_to_end_keeps_a_cookie_of_the_last_second(
    shop: Pool, ledger: Ledger, site: Site, asked: dict[str, Any], browser_home: BrowserHome, action: str
) -> None:
    with program(action, **asked) as worker:
        worker.told()
        worker.process.send_signal(signal.SIGTERM)
        assert worker.end() == 128 + signal.SIGTERM, worker.errors()
        assert worker.errors() == ""
    assert browser_home.processes() == []
    assert (ledger.last().outcome, ledger.last().stop_rung) == ("cancelled", "browser_close")
    assert shop.status().available == 1
    with shop.browser() as session:
        session.page.goto(site.url)
        assert session.page.inner_text("p") == "identity=kept"


def test_a_forked_child_is_a_new_worker_and_leaves_its_parents_leases_alone(
    fleet: Fleet, database: Database, asked: dict[str, Any]
) -> None:
    pool = make_pool(fleet, profiles=3)
    ledger = Ledger(database, pool)
    # A child drops its parent's connections open, which psycopg has a warning for.
    with program("fork", warnings="ignore::ResourceWarning", **{**asked, "pool": pool.name}) as parent:
        of_child, of_parent, at_last = (parent.told() for _ in range(3))
        assert parent.end() == 0, parent.errors()
        assert parent.errors() == ""
    assert (of_child["who"], of_parent["who"]) == ("child", "parent")
    assert of_parent["child_ended_with"] == 0
    assert of_child["worker"] != of_parent["worker"]
    assert ["of which this one is a fork" in text for text in of_child["refused"]] == [True, True]
    assert at_last["heading"] == "Hello"
    outcomes = {attempt.task: (attempt.outcome, str(attempt.worker_id)) for attempt in ledger.attempts()}
    assert outcomes == {
        "child": ("success", of_child["worker"]),
        "parent": ("success", of_parent["worker"]),
        "plain": ("success", of_parent["worker"]),
    }
    assert ledger.refused() == []
    ended = {str(worker.id): worker.ended_at for worker in ledger.workers()}
    assert ended[of_parent["worker"]] is not None
    assert of_child["worker"] in ended


def test_two_fleets_in_one_process_are_two_workers(new_fleet: Any, database: Database) -> None:
    one, two = new_fleet(), new_fleet()
    pool = make_pool(one, profiles=2)
    mine = pool.checkout()
    with two.pool(pool.name).lease() as other:
        workers = {lease.worker_id for lease in Ledger(database, pool).leases()}
        assert len(workers) == 2
        one.close()
        assert mine.lost == "its fleet was closed"
        other.renew()
        with pytest.raises(NoProfileAvailableError, match="2 leased"):
            two.pool(pool.name).checkout()
    ended = {worker.id: worker.ended_at for worker in Ledger(database, pool).workers() if worker.id in workers}
    assert sorted(moment is not None for moment in ended.values()) == [False, True]


def test_a_checkout_that_waits_when_its_fleet_is_closed_says_so(new_fleet: Any, database: Database) -> None:
    one, two = new_fleet(), new_fleet()
    pool = make_pool(one)
    with two.pool(pool.name).lease(), ThreadPoolExecutor() as threads:
        waiting = threads.submit(pool.checkout, wait=60)
        until(lambda: Ledger(database, pool).waiters())
        one.close()
        with pytest.raises(BadInputError, match="this fleet is closed"):
            waiting.result(timeout=10)
        assert Ledger(database, pool).waiters() == []


def test_closing_a_fleet_ends_what_it_lent(
    new_fleet: Any, database: Database, browser_home: BrowserHome, site: Site
) -> None:
    fleet = new_fleet()
    pool = make_pool(fleet, profiles=2)
    ledger = Ledger(database, pool)
    with pytest.raises(LeaseLostError, match="its fleet was closed"), pool.lease(), pool.browser() as session:  # noqa: PT012 - all of the block
        session.page.goto(site.url)
        fleet.close()
        assert browser_home.processes() == []
        fleet.close()
    # The browser's profile is back; whoever has the other one may still use it, so that lease has to expire.
    assert (ledger.last().outcome, ledger.last().detail) == ("cancelled", "its fleet was closed")
    assert [lease.state for lease in ledger.leases()] == ["held"]
    with pytest.raises(DatabaseUnavailableError, match="connect anew"):
        fleet.pool(pool.name)
    with pytest.raises(DatabaseUnavailableError, match="connect anew"):
        pool.status()


@pytest.fixture
def home_of_server() -> Iterator[Path]:
    """A data directory for an embedded server; made by poolsql itself, since as root the server is another user."""
    path = Path(tempfile.gettempdir()) / f"poolsql-{uuid4().hex[:10]}"
    yield path
    assert processes_that_mention(str(path)) == []
    subprocess.run(["rm", "-rf", str(path)], check=True)


def test_the_embedded_server_serves_two_processes_and_ends_with_the_last(
    home_of_server: Path, browser_home: BrowserHome, site: Site
) -> None:
    fleet = connect(data_dir=home_of_server, machine="here")
    try:
        pool = make_pool(fleet, profiles=2)
        with pool.browser() as session:
            session.page.goto(site.url)
            assert session.page.inner_text("h1") == "Hello"
        with program("join_embedded", data_dir=str(home_of_server), pool=pool.name) as other:
            assert other.told() == {"pools": pool.name}
            fleet.close()
            assert processes_that_mention(str(home_of_server))
            other.go_on()
            assert other.told() == {"available": {"available": 1, "leased": 1}}
            assert other.end() == 0
            assert other.errors() == ""
    finally:
        fleet.close()
    until(lambda: not processes_that_mention(str(home_of_server)))
    # The last one out left everything in place.
    with connect(data_dir=home_of_server, machine="here") as again:
        assert again.pool(pool.name).status().available == 2
