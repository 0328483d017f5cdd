"""One run per job and instant, whoever fires, and none before its instant by the database's clock."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from psycopg.types.json import Jsonb

from poolsql.database.engine import Database
from poolsql.errors import BadInputError
from poolsql.operations.jobs import find_job, pause_job, resume_job
from poolsql.scheduling.firing import FIRE, Firing
from poolsql.scheduling.jobs import remove_job
from poolsql.scheduling.misfires import Misfire
from poolsql.settings import Settings
from tests.fixtures.clocks import MovedClock
from tests.fixtures.fleets import Desk
from tests.integration.scheduling.jobs import ALL, Jobs

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVERY_MINUTE = {"every": "1m"}


def at(minute: float) -> datetime:
    """A moment after noon."""
    return NOON + minute * MINUTE


@pytest.fixture
def firing(clock: MovedClock) -> Firing:
    return Firing(clock.database)


@pytest.fixture
def databases(clock: MovedClock, settings: Settings) -> Iterator[list[Database]]:
    """The database as eight daemons see it."""
    opened = [Database(clock.url, settings) for _ in range(8)]
    yield opened
    for database in opened:
        database.close()


def test_fires_at_its_instant_and_not_before(jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
    name = jobs.define(EVERY_MINUTE, created=NOON)
    clock.set(at(1) - timedelta(milliseconds=1))
    assert firing.fire_due() == []
    assert jobs.runs(name) == []
    clock.set(at(1))
    (fired,) = firing.fire_due()
    (run,) = jobs.runs(name)
    assert (fired.job, fired.instant, fired.run_id) == (name, at(1), run.id)
    assert (run.state, run.instant) == ("due", at(1))


def test_many_daemons_fire_each_instant_once(
    jobs: Jobs, clock: MovedClock, databases: list[Database], threads: ThreadPoolExecutor
) -> None:
    names = [jobs.define(EVERY_MINUTE, created=NOON, overlap=True, **ALL) for _ in range(5)]
    expected = [at(minute) for minute in range(1, 21)]
    daemons = [Firing(database) for database in databases]
    for minute in range(1, 21):
        clock.set(at(minute))
        rounds = [threads.submit(daemon.fire_due) for daemon in daemons]
        fired = [firing for done in rounds for firing in done.result()]
        assert sorted(firing.job for firing in fired) == sorted(names), "each instant belongs to one daemon"
    for name in names:
        assert jobs.instants(name) == expected


def test_a_daemon_whose_clock_is_ahead_cannot_fire_early(jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
    name = jobs.define(EVERY_MINUTE, created=NOON)
    clock.set(at(0.5))
    row = firing._database.run(FIRE, _parameters(jobs, name, at(1)))
    assert row == []
    assert jobs.runs(name) == []


def test_a_daemon_that_comes_late_with_an_old_instant_does_not_fire_it(
    jobs: Jobs, clock: MovedClock, firing: Firing
) -> None:
    name = jobs.define(EVERY_MINUTE, created=NOON, overlap=True)
    clock.set(at(3))
    firing.fire_due()
    assert jobs.instants(name) == [at(3)], "the latest only"
    for minute in (1, 2, 3):
        assert clock.database.run(FIRE, _parameters(jobs, name, at(minute))) == []
    # Not even when the run's row was deleted meanwhile.
    jobs.execute("DELETE FROM poolsql.runs WHERE job_id = :id", id=find_job(clock.database, name).id)
    assert clock.database.run(FIRE, _parameters(jobs, name, at(3))) == []
    assert firing.fire_due() == []


def test_two_instants_fired_at_once_do_not_overlap(
    jobs: Jobs, clock: MovedClock, databases: list[Database], desk: Desk, threads: ThreadPoolExecutor
) -> None:
    name = jobs.define(EVERY_MINUTE, created=NOON)
    clock.set(at(2))
    with desk.opened() as holder:
        holder.execute("SELECT FROM poolsql.jobs FOR UPDATE")
        racing = [
            threads.submit(database.run, FIRE, _parameters(jobs, name, at(minute)))
            for database, minute in zip(databases[:2], (1, 2), strict=True)
        ]
        desk.wait_until_blocked(2)
        holder.commit()
    for race in racing:
        race.result()
    open_runs = [run for run in jobs.runs(name) if run.ended_at is None]
    assert len(open_runs) == 1


class TestOverlap:
    def test_an_instant_in_an_open_run_is_skipped_and_recorded(
        self, jobs: Jobs, clock: MovedClock, firing: Firing
    ) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON)
        for minute in (1, 2):
            clock.set(at(minute))
            firing.fire_due()
        first, second = jobs.runs(name)
        assert (first.state, second.state) == ("due", "skipped")
        assert second.ended_at is not None
        assert "still open" in second.detail

    def test_the_instant_after_the_run_has_ended_fires(self, jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON)
        for minute in (1, 2, 3):
            clock.set(at(minute))
            firing.fire_due()
            if minute == 2:
                jobs.end_runs(name)
        assert [run.state for run in jobs.runs(name)] == ["done", "skipped", "due"]

    def test_is_allowed_where_the_job_says_so(self, jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON, overlap=True)
        for minute in (1, 2):
            clock.set(at(minute))
            firing.fire_due()
        assert [run.state for run in jobs.runs(name)] == ["due", "due"]

    def test_where_all_instants_are_to_run_each_waits_for_the_one_before(
        self, jobs: Jobs, clock: MovedClock, firing: Firing
    ) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON, **ALL)
        clock.set(at(3.5))
        for minutes in (1, 2, 3):
            firing.fire_due()
            assert jobs.instants(name) == [at(minute) for minute in range(1, minutes + 1)]
            assert firing.fire_due() == [], "its run is open"
            jobs.end_runs(name)
        assert firing.fire_due() == []


class TestMisfires:
    def test_latest_only(self, jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON)
        clock.set(at(100.5))
        firing.fire_due()
        assert jobs.instants(name) == [at(100)]
        assert firing.fire_due() == []

    def test_latest_only_within_its_grace(self, jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
        name = jobs.define({"every": "1h"}, created=NOON, misfire_grace=10 * MINUTE)
        clock.set(at(75))
        assert firing.fire_due() == []
        clock.set(at(129))
        firing.fire_due()
        assert jobs.instants(name) == [at(120)]

    def test_all_within_the_grace(self, jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
        name = jobs.define(
            EVERY_MINUTE, created=NOON, overlap=True, misfire=Misfire.ALL, misfire_grace=timedelta(minutes=3)
        )
        clock.set(at(100.5))
        firing.fire_due()
        assert jobs.instants(name) == [at(98), at(99), at(100)]

    def test_all_need_a_grace(self, jobs: Jobs) -> None:
        with pytest.raises(BadInputError, match="misfire_grace"):
            jobs.define(EVERY_MINUTE, created=NOON, misfire=Misfire.ALL)

    def test_once_fires_once(self, jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
        name = jobs.define({"once": at(5)}, created=NOON)
        for minute in (4, 6, 7, 2000):
            clock.set(at(minute))
            firing.fire_due()
        assert jobs.instants(name) == [at(5)]


class TestChanges:
    def test_a_paused_job_does_not_fire_and_makes_nothing_up_when_resumed(
        self, jobs: Jobs, clock: MovedClock, firing: Firing
    ) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON, **ALL)
        clock.set(at(0.5))
        assert pause_job(clock.database, name, who="ann", reason="holiday")
        assert not pause_job(clock.database, name, who="ann")
        clock.set(at(5.5))
        assert firing.fire_due() == []
        assert resume_job(clock.database, name, who="ann")
        assert not resume_job(clock.database, name, who="ann")
        clock.set(at(6))
        firing.fire_due()
        assert jobs.instants(name) == [at(6)]
        audit = jobs.all("SELECT who, action, reason FROM poolsql.audit WHERE subject = :name ORDER BY id", name=name)
        assert audit == [("ann", "job pause", "holiday"), ("ann", "job resume", None)]

    def test_a_new_schedule_counts_from_now_on_without_a_restart(
        self, jobs: Jobs, clock: MovedClock, firing: Firing
    ) -> None:
        name = jobs.define({"every": "1h"}, created=NOON, **ALL)
        clock.set(at(30.5))
        assert firing.fire_due() == []
        jobs.define(EVERY_MINUTE, name=name, **ALL)
        clock.set(at(31))
        firing.fire_due()
        assert jobs.instants(name) == [at(31)]

    def test_the_same_schedule_again_goes_on(self, jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
        name = jobs.define({"every": "1h"}, created=NOON)
        clock.set(at(60.5))
        jobs.define({"every": "60m"}, name=name, concurrency=3)
        firing.fire_due()
        assert jobs.instants(name) == [at(60)]
        assert jobs.runs(name)[0].definition["concurrency"] == 3

    def test_an_instant_of_a_schedule_that_was_changed_meanwhile_does_not_fire(
        self, jobs: Jobs, clock: MovedClock
    ) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON)
        clock.set(at(1))
        before = _parameters(jobs, name, at(1))
        jobs.execute("UPDATE poolsql.jobs SET schedule = '{\"every\": 7200}' WHERE name = :name", name=name)
        assert clock.database.run(FIRE, before) == []

    def test_a_removed_job_does_not_fire_and_its_runs_are_cancelled(
        self, jobs: Jobs, clock: MovedClock, firing: Firing
    ) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON)
        clock.set(at(1))
        firing.fire_due()
        with clock.database.transaction() as connection:
            remove_job(connection, name)
        clock.set(at(2))
        assert firing.fire_due() == []
        assert [run.state for run in jobs.runs(name)] == ["cancelled"]

    def test_a_removed_job_that_is_defined_again_is_back_and_counts_from_now(
        self, jobs: Jobs, clock: MovedClock, firing: Firing
    ) -> None:
        name = jobs.define(EVERY_MINUTE, created=NOON, **ALL)
        with clock.database.transaction() as connection:
            remove_job(connection, name)
        clock.set(at(10.5))
        jobs.define(EVERY_MINUTE, name=name, **ALL)
        clock.set(at(11))
        firing.fire_due()
        assert jobs.instants(name) == [at(11)]

    def test_a_schedule_that_cannot_be_read_does_not_keep_the_others_from_firing(
        self, jobs: Jobs, clock: MovedClock, firing: Firing, caplog: pytest.LogCaptureFixture
    ) -> None:
        broken = jobs.define(EVERY_MINUTE, created=NOON)
        jobs.execute('UPDATE poolsql.jobs SET schedule = \'{"moon": "full"}\' WHERE name = :name', name=broken)
        good = jobs.define(EVERY_MINUTE, created=NOON)
        clock.set(at(1))
        firing.fire_due()
        firing.fire_due()
        assert jobs.instants(good) == [at(1)]
        assert sum(broken in record.getMessage() for record in caplog.records) == 1, "told once, not each second"


def test_jobs_without_a_schedule_never_fire(jobs: Jobs, clock: MovedClock, firing: Firing) -> None:
    name = jobs.define(None, created=NOON)
    clock.set(at(1e6))
    assert firing.fire_due() == []
    assert jobs.runs(name) == []


def _parameters(jobs: Jobs, name: str, instant: datetime) -> dict[str, object]:
    (row,) = jobs.all("SELECT id, schedule FROM poolsql.jobs WHERE name = :name", name=name)
    return {"job_id": row.id, "instant": instant, "schedule": Jsonb(row.schedule)}
