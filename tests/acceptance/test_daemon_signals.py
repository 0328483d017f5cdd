"""How a daemon ends: what is under way gets its time, nothing is taken on, and nothing is left."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.acceptance.daemons import Daemons, hosts, job, pool_of
from tests.fixtures.conditions import until
from tests.fixtures.databases import address_of
from tests.fixtures.programs import Program
from tests.integration.database.clusters import Cluster
from tests.sites.numbered import NumberedSite

LONG_GRACE = 100.0
"""Seconds that no test waits for."""

SOON = 30.0
"""Seconds within which browsers are stopped, on a machine that is busy with other tests."""


@pytest.fixture
def held(daemons: Daemons, numbered: NumberedSite) -> Callable[..., Program]:
    """Starts a daemon that is in the middle of two pages of six, whose answers wait for the test."""

    def start(*arguments: str, how_many: int = 6) -> Program:
        pages = [numbered.held(number) for number in range(how_many)]
        daemons.apply(pool_of(2, lost_cooldown="0s"), hosts(numbered.host), job("pages", pages, concurrency="2"))
        daemons.fire("pages")
        daemon = daemons.start(*arguments)
        until(lambda: numbered.held_now == 2, seconds=60)
        return daemon

    return start


def test_sigterm_lets_running_tasks_end_and_begins_none(
    held: Callable[..., Program], daemons: Daemons, numbered: NumberedSite
) -> None:
    daemon = held("--grace", f"{LONG_GRACE:g}s")
    daemon.terminate()
    daemon.line_with("stopping: no new tasks")
    assert daemon.runs, "it did not wait for what is under way"
    numbered.let_go()
    assert daemon.wait(seconds=SOON) == 0, daemon.output
    assert numbered.held_now == 2, "it has begun another task"
    tasks = daemons.tasks()
    assert [task.state for task in tasks] == ["done"] * 2 + ["pending"] * 4
    assert [task.result["title"] for task in tasks[:2]] == ["Page 0", "Page 1"]
    assert {attempt.outcome for attempt in daemons.attempts()} == {"success"}
    ends_cleanly(daemons, daemon)


def test_a_page_that_outlasts_the_grace_is_cut_off_and_given_back(
    held: Callable[..., Program], daemons: Daemons
) -> None:
    daemon = held("--grace", "1s")
    daemon.terminate()
    assert daemon.wait(seconds=SOON) == 0, daemon.output
    are_given_back(daemons)
    ends_cleanly(daemons, daemon)


@pytest.mark.parametrize("way", ["two signals", "Ctrl-C twice"])
def test_a_second_signal_cuts_the_grace_short(way: str, held: Callable[..., Program], daemons: Daemons) -> None:
    daemon = held("--grace", f"{LONG_GRACE:g}s")
    stop = daemon.terminate if way == "two signals" else daemon.press_ctrl_c
    stop()
    daemon.line_with("stopping: no new tasks")
    began = time.monotonic()
    stop()
    daemon.line_with("told to stop again")
    assert daemon.wait(seconds=SOON) == 0, daemon.output
    assert time.monotonic() - began < LONG_GRACE / 2
    are_given_back(daemons)
    ends_cleanly(daemons, daemon)


def test_ctrl_c_lets_running_tasks_end_though_everything_gets_the_signal(
    held: Callable[..., Program], daemons: Daemons, numbered: NumberedSite
) -> None:
    daemon = held("--grace", f"{LONG_GRACE:g}s", how_many=2)
    daemon.press_ctrl_c()
    daemon.line_with("stopping: no new tasks")
    numbered.let_go()
    assert daemon.wait(seconds=SOON) == 0, daemon.output
    assert [(task.state, task.outcome) for task in daemons.tasks()] == [("done", "success")] * 2
    ends_cleanly(daemons, daemon)


@pytest.mark.slow
def test_a_third_signal_ends_it_at_once_and_the_next_daemon_clears_up(
    held: Callable[..., Program], daemons: Daemons, numbered: NumberedSite
) -> None:
    daemon = held("--grace", f"{LONG_GRACE:g}s")
    browsers = daemons.home.browsers()
    assert len(browsers) == 2
    # Browsers that stand still let the second signal's stop wait.
    for browser in browsers:
        browser.suspend()
    for line in ("stopping: no new tasks", "told to stop again"):
        daemon.terminate()
        daemon.line_with(line)
    daemon.terminate()
    assert daemon.wait(seconds=SOON) == 130, daemon.output
    daemon.killed = True
    for browser in browsers:
        browser.resume()
    numbered.let_go()
    second = daemons.start()
    daemons.wait_until_over()
    assert [task.state for task in daemons.tasks()] == ["done"] * 6
    until(lambda: not daemons.leases(), seconds=SOON)
    daemons.end(second)
    daemons.check_nothing_held()
    daemons.check_signed_off()


def test_drained_by_an_operator_it_ends_like_by_a_signal(
    held: Callable[..., Program], daemons: Daemons, numbered: NumberedSite
) -> None:
    daemon = held("--grace", f"{LONG_GRACE:g}s")
    (worker,) = daemons.workers()
    drain = daemons.run("worker", "drain", str(worker.id))
    assert drain.wait(seconds=60) == 0, drain.output
    daemon.line_with("stopping: no new tasks")
    numbered.let_go()
    assert daemon.wait(seconds=SOON) == 0, daemon.output
    assert [task.state for task in daemons.tasks()] == ["done"] * 2 + ["pending"] * 4
    ends_cleanly(daemons, daemon)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_daemon_without_work_ends_at_once(number: signal.Signals, daemons: Daemons) -> None:
    daemon = daemons.start("--grace", f"{LONG_GRACE:g}s")
    daemon.process.send_signal(number)
    assert daemon.wait(seconds=SOON) == 0, daemon.output
    ends_cleanly(daemons, daemon)


@pytest.mark.slow
def test_a_daemon_that_is_started_before_its_database_waits_for_it(daemons: Daemons) -> None:
    with Cluster() as cluster:
        url = address_of(cluster.url)
        upgrade = daemons.run("db", "upgrade", POOLSQL_DATABASE_URL=url)
        assert upgrade.wait(seconds=60) == 0, upgrade.output
        cluster.stop()
        daemon = daemons.start(working=False, POOLSQL_DATABASE_URL=url)
        daemon.line_with("waiting for the database")
        cluster.start()
        daemon.line_with(": up to")
        daemons.end(daemon)


def are_given_back(daemons: Daemons) -> None:
    """Nothing has failed: the tasks are as if they had not been begun."""
    tasks = daemons.tasks()
    assert [(task.state, task.result, task.claimed_until) for task in tasks] == [("pending", None, None)] * len(tasks)
    assert {task.outcome for task in tasks} == {None, "cancelled"}
    assert {attempt.outcome for attempt in daemons.attempts()} == {"cancelled"}
    profiles = daemons.all("SELECT consecutive_failures, state FROM poolsql.profiles")
    assert [tuple(profile) for profile in profiles] == [(0, "active")] * 2


def ends_cleanly(daemons: Daemons, daemon: Program) -> None:
    """Nothing is left of a daemon that has ended."""
    assert "Traceback" not in daemon.output, daemon.output
    daemons.check_nothing_held()
    daemons.check_signed_off()
    assert daemons.home.processes() == []
