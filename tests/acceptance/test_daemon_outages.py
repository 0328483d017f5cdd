"""The database goes away under running leases: for less than their time nothing is lost, for more nothing is doubled.

"While the database is away" is seen from outside: by processes, exit codes and the site's record of requests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolsql.database.engine import Database
from poolsql.database.migration import upgrade
from poolsql.settings import Settings
from tests.acceptance.daemons import PATIENT, Daemons, daemons_on, hosts, job, pool_of
from tests.fixtures.conditions import until
from tests.fixtures.programs import Program
from tests.integration.database.clusters import Cluster
from tests.sites.numbered import NumberedSite

TASKS = 5
AWAY, BACK = "while it is away", "when it is back"
"""When the pages answer that are being visited as the database goes away."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A server of this module alone."""
    with Cluster() as running:
        yield running


@pytest.fixture
def daemons(cluster: Cluster, settings: Settings, tmp_path: Path) -> Iterator[Daemons]:
    """Daemons on a database that can be stopped."""
    database = Database(cluster.url, settings)
    upgrade(database)
    with daemons_on(database, tmp_path) as made:
        yield made
    database.close()


@pytest.fixture
def numbered() -> Iterator[NumberedSite]:
    """Pages that answer when the test lets them."""
    with NumberedSite() as site:
        yield site


def begin(daemons: Daemons, numbered: NumberedSite, **policy: str) -> Program:
    """A daemon in the middle of two pages."""
    pages = [numbered.held(number) for number in range(TASKS)]
    values = {"concurrency": "2", "task_timeout": '"10m"'}
    daemons.apply(pool_of(2, **{**PATIENT, **policy}), hosts(numbered.host), job("pages", pages, **values))
    daemons.fire("pages")
    daemon = daemons.start()
    until(lambda: numbered.held_now == 2, seconds=60)
    return daemon


def end(daemons: Daemons, daemon: Program) -> None:
    """The run has ended well, and so does the daemon."""
    daemons.wait_until_over()
    daemons.check_results(TASKS)
    until(lambda: not daemons.leases(), seconds=60)
    daemons.end(daemon)
    daemons.check_nothing_held()
    daemons.check_signed_off()


@pytest.mark.parametrize(
    ("policy", "away", "answered"),
    [
        pytest.param({"ttl": "15s"}, 0.0, AWAY, id="answered while it is away"),
        pytest.param({"ttl": "15s"}, 0.0, BACK, id="answered when it is back", marks=pytest.mark.slow),
        pytest.param({}, 20.0, AWAY, id="20 s of 90", marks=pytest.mark.slow),
    ],
)
def test_an_outage_shorter_than_the_ttl_costs_nothing(
    policy: dict[str, str], away: float, answered: str, cluster: Cluster, daemons: Daemons, numbered: NumberedSite
) -> None:
    daemon = begin(daemons, numbered, **policy)
    before = daemons.leases()
    cluster.stop()
    began = time.monotonic()
    if answered == AWAY:
        # What the pages gave cannot be written now; it must be kept.
        numbered.let_go()
    daemon.line_with("renewal failed")
    time.sleep(max(0.0, away - (time.monotonic() - began)))
    assert len(daemons.home.browsers()) == 2
    cluster.start()
    if answered == BACK:
        numbered.let_go()
    end(daemons, daemon)
    assert set(numbered.asked.values()) == {1}, "a page was visited twice"
    assert [task.tries for task in daemons.tasks()] == [1] * TASKS
    attempts = daemons.attempts()
    assert {attempt.outcome for attempt in attempts} == {"success"}
    assert {lease.id for lease in before} <= {attempt.lease_id for attempt in attempts}
    assert daemons.all("SELECT * FROM poolsql.refused_reports") == []


@pytest.mark.parametrize(
    ("policy", "away", "stopped_within", "answered"),
    [
        pytest.param({"ttl": "6s"}, 0.0, 30.0, AWAY, id="answered while it is away"),
        pytest.param({"ttl": "6s"}, 0.0, 30.0, BACK, id="answered when it is back", marks=pytest.mark.slow),
        pytest.param({}, 300.0, 120.0, BACK, id="5 min of 90 s", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_an_outage_longer_than_the_ttl_stops_the_browsers_and_the_tasks_are_done_again(
    policy: dict[str, str],
    away: float,
    stopped_within: float,
    answered: str,
    cluster: Cluster,
    daemons: Daemons,
    numbered: NumberedSite,
) -> None:
    daemon = begin(daemons, numbered, **policy)
    before = daemons.leases()
    cluster.stop()
    began = time.monotonic()
    if answered == AWAY:
        numbered.let_go()
    until(lambda: not daemons.home.browsers(), seconds=stopped_within)
    assert daemons.code_of("healthcheck") == 3
    time.sleep(max(0.0, away - (time.monotonic() - began)))
    assert daemon.runs
    assert numbered.asked.total() == 3, "two pages and robots.txt: it went on without leases"
    cluster.start()
    numbered.let_go()
    end(daemons, daemon)
    again = [path for path, times in numbered.asked.items() if times > 1]
    assert set(again) <= {"/held/0", "/held/1"}, "a task that had not been begun was done twice"
    if answered == BACK:
        assert len(again) == 2, "the tasks whose leases were lost before their pages had answered are done again"
    lost = [attempt for attempt in daemons.attempts() if attempt.lease_id in {lease.id for lease in before}]
    assert [attempt.outcome for attempt in lost] == ["lease_expired"] * 2
    assert daemons.all("SELECT key FROM poolsql.profiles WHERE consecutive_failures > 0") == []


@pytest.mark.slow
def test_a_second_signal_ends_a_daemon_whose_database_is_away(
    cluster: Cluster, daemons: Daemons, numbered: NumberedSite
) -> None:
    daemon = begin(daemons, numbered, ttl="6s")
    cluster.stop()
    try:
        daemon.line_with("renewal failed")
        daemon.terminate()
        daemon.line_with("stopping: no new tasks")
        daemon.terminate()
        assert daemon.wait(seconds=60) == 0, daemon.output
        assert "Traceback" not in daemon.output, daemon.output
        assert daemons.home.processes() == []
    finally:
        cluster.start()
    # What it could not write down is found out by the next one.
    numbered.let_go()
    second = daemons.start()
    end(daemons, second)
