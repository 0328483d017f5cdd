"""A worker whose network is cut without a word: the server, a reaper and the worker itself each find out by themselves.

What it measures is printed, and stands in docs/leasing.md.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from psutil import Process
from sqlalchemy import text

from poolsql import Fleet, connect
from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.database.migration import upgrade
from poolsql.leasing.checkout import MARGIN
from poolsql.leasing.keeper import ANSWER_SECONDS
from poolsql.leasing.presence import present_keys
from poolsql.settings import Settings
from tests.fixtures.browsers import BrowserHome, Ledger, make_pool
from tests.fixtures.conditions import until
from tests.fixtures.databases import address_of
from tests.fixtures.networks import Elsewhere, elsewhere
from tests.integration.database.clusters import PASSWORD, Cluster
from tests.integration.fleet.actions import Program, program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TTL = 40.0
"""Seconds: longer than presence takes to tell, by more than the time between two renewals."""


@pytest.fixture
def network() -> Iterator[Elsewhere]:
    """Another machine."""
    with elsewhere() as made:
        yield made


@pytest.fixture
def cluster(network: Elsewhere) -> Iterator[Cluster]:
    """A server on this machine that the other one reaches."""
    with Cluster(listen=network.ours) as running:
        yield running


@pytest.fixture
def database(cluster: Cluster, settings: Settings) -> Iterator[Database]:
    """Its database, with our tables."""
    opened = Database(cluster.url, settings)
    upgrade(opened)
    yield opened
    opened.close()


def fleet_on(machine: str, cluster: Cluster, home: BrowserHome) -> Fleet:
    """A fleet whose connections cannot be cut."""
    return connect(address_of(cluster.url), machine=machine, data_dir=home.data_dir)


def test_a_cut_network_is_noticed_long_before_the_ttl_and_the_worker_stops_its_browser_itself(
    network: Elsewhere, cluster: Cluster, database: Database, browser_home: BrowserHome
) -> None:
    address = database_address(f"postgresql://boss@{network.ours}:{cluster.port}/postgres").set(password=PASSWORD)
    with fleet_on("here", cluster, browser_home) as here, fleet_on("there", cluster, browser_home) as there:
        pool = make_pool(here, ttl=TTL, lost_cooldown=0)
        ledger = Ledger(database, pool)
        asked: dict[str, Any] = {
            "url": address_of(address),
            "machine": "there",
            "data_dir": str(browser_home.data_dir),
            "pool": pool.name,
            "pages": ["data:text/html,<title>one</title>", "data:text/html,<title>two</title>"],
        }
        with program("browse", inside=network.inside, **asked) as worker:
            worker.told()
            (key,) = until(lambda: present_keys(database))
            until(lambda: _server_is_older_than(database, TTL), seconds=2 * TTL)
            assert here.reap().expired == 0

            network.cut()
            cut_at = time.monotonic()
            noticed: dict[str, float] = {}

            def taken_back() -> bool:
                if key not in present_keys(database):
                    noticed.setdefault("its lock is free", time.monotonic() - cut_at)
                return here.reap().expired == 1

            until(taken_back, seconds=TTL)
            noticed["its lease is taken back"] = time.monotonic() - cut_at
            (lease,) = ledger.leases()
            assert (lease.state, lease.reclaim_outcome) == ("reclaiming", "worker_lost")
            assert browser_home.main().is_running(), "it knows nothing yet"
            until(lambda: not _browsers(browser_home, worker), seconds=2 * TTL)
            noticed["it has stopped its browser"] = time.monotonic() - cut_at

            assert here.reap().attempts == [], "whether it has stopped its browser, only its machine can tell"
            (attempt,) = there.reap().attempts
            assert attempt.outcome == "worker_lost"
            network.mend()
            worker.go_on()
            assert "is lost" in worker.told()["lost"]
            assert worker.end() == 0, worker.errors()
    print({what: round(seconds, 1) for what, seconds in noticed.items()})  # noqa: T201
    assert noticed["its lock is free"] < 11
    assert noticed["its lease is taken back"] < 25, "while its ttl goes on"
    assert noticed["it has stopped its browser"] < TTL * (1 - MARGIN) + ANSWER_SECONDS + 5


def _browsers(home: BrowserHome, worker: Program) -> list[Process]:
    return [process for process in home.processes() if process.pid != worker.process.pid]


def _server_is_older_than(database: Database, seconds: float) -> bool:
    query = "SELECT clock_timestamp() > pg_postmaster_start_time() + make_interval(secs => :seconds)"
    with database.connect() as connection:
        return bool(connection.execute(text(query), {"seconds": seconds}).scalar_one())
