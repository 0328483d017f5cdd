"""Daemons through the nights in which clocks are changed: each instant once, by the database's clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from poolsql.operations.jobs import find_job
from tests.fixtures.clocks import MovedClock
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk
from tests.integration.scheduling.jobs import ALL, Jobs

RATE = 1500
"""Seconds of the night in one of ours."""

ROOT = Path(__file__).resolve().parents[3]

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start_daemon(clock: MovedClock, tmp_path: Path) -> Iterator[Start]:
    """Starts daemons as processes of their own; those that are left are killed."""
    daemons: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "POOLSQL_DATABASE_URL": clock.url.render_as_string(hide_password=False),
            "POOLSQL_DATA_DIR": str(tmp_path),
            "POOLSQL_ENV_FILE": "",
        }
        command = [sys.executable, "-m", "tests.integration.scheduling.daemon_program", *arguments]
        log = tmp_path / f"daemon-{len(daemons)}.log"
        with log.open("wb") as output:
            daemon = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=output, start_new_session=True)
        daemons.append(daemon)
        return daemon

    yield start
    for daemon in daemons:
        if daemon.poll() is None:
            daemon.kill()
        daemon.wait()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes_at",
    [datetime(2026, 10, 25, 1, 0, tzinfo=UTC), datetime(2027, 3, 28, 1, 0, tzinfo=UTC)],
    ids=["an hour occurs twice", "an hour is skipped"],
)
def test_two_daemons_fire_each_instant_once_through_the_change(
    changes_at: datetime, jobs: Jobs, clock: MovedClock, start_daemon: Start, desk: Desk
) -> None:
    begins, ends = changes_at - timedelta(hours=2), changes_at + timedelta(hours=2, minutes=30)
    berlin = {"created": begins, "zone": "Europe/Berlin", "overlap": True, **ALL}
    names = {
        schedule: jobs.define(schedule, **berlin)
        for schedule in ("30 2 * * *", "0 3 * * *", "0 * * * *", "*/20 * * * *", "15 1-4 * * *")
    }
    interval = jobs.define({"every": "7m"}, created=begins, overlap=True, **ALL)
    clock.set(begins, rate=RATE)
    first = start_daemon()
    until(lambda: clock.now() >= begins + timedelta(seconds=4 * RATE), seconds=30)
    before = clock.now()
    clock.set(before)
    second = start_daemon("300")
    until(lambda: len(_firing(jobs)) == 2, seconds=30)
    clock.set(before, rate=RATE)
    # The first is killed in the middle of firing: it waits for a row that the test holds.
    with desk.opened() as holder:
        holder.execute("SELECT FROM poolsql.jobs FOR UPDATE")
        desk.wait_until_blocked(2)
        first.kill()
        first.wait()
        holder.commit()
    third = start_daemon()
    until(lambda: clock.now() >= ends, seconds=60)
    clock.set(ends)

    expected = {
        name: list(find_job(clock.database, name).schedule.due(after=begins, until=ends))  # type: ignore[union-attr]
        for name in (*names.values(), interval)
    }
    for name, instants in expected.items():
        until(lambda name=name, instants=instants: len(jobs.runs(name)) >= len(instants), seconds=30)  # type: ignore[misc]
        runs = jobs.runs(name)
        assert [run.instant for run in runs] == instants
        assert all(run.in_time for run in runs), "none before its instant by the database's clock"
    assert len(expected[names["30 2 * * *"]]) == 1, "a local time that occurs twice, or not at all, runs once"
    assert len(expected[names["0 * * * *"]]) == 4, "each real hour"
    until(lambda: not jobs.all("SELECT FROM poolsql.runs WHERE ended_at IS NULL"), seconds=30)
    for daemon in (second, third):
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(timeout=30) == 0


def _firing(jobs: Jobs) -> list[object]:
    """The daemons that fire."""
    return jobs.all("SELECT worker_id FROM poolsql.loop_stamps WHERE loop = 'fire'")
