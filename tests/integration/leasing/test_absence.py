"""Workers whose lock is gone: found after a grace, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql import Fleet
from poolsql.database.engine import Database
from poolsql.database.migration import upgrade
from poolsql.database.statements import Statement
from poolsql.leasing import absence
from poolsql.leasing.absence import GRACE_SECONDS, Absence
from poolsql.leasing.presence import PRESENCE_CLASS, present_keys
from poolsql.settings import Settings
from tests.fixtures.clocks import ManualClock
from tests.fixtures.fleets import Desk

NewDesk = Callable[..., Desk]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock()
    monkeypatch.setattr(absence, "elapsed_clock", made)
    return made


@pytest.fixture(autouse=True)
def _no_others(database: Database) -> None:
    """Nobody is absent from the tests before."""
    with database.connect() as connection:
        connection.execute(text("UPDATE poolsql.workers SET present_at = NULL"))


@pytest.fixture
def gone(new_desk: NewDesk) -> Desk:
    """A worker that was present once, holds a lease, and is not there; its ttl is shorter than the server's life."""
    desk = new_desk(ttl=0.01, renew=0.001)
    desk.granted()
    desk.execute("UPDATE poolsql.workers SET present_at = clock_timestamp() WHERE id = :id", id=desk.worker.id)
    return desk


@contextmanager
def present(desk: Desk) -> Iterator[None]:
    with desk.opened() as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s, %s)", (PRESENCE_CLASS, desk.worker.lock_key))
        yield


def looks(seen: Absence, clock: ManualClock, seconds: float) -> list[bool]:
    """Whether anybody was found, at each of the looks that fill this time."""
    found = []
    for _ in range(int(seconds)):
        clock.now += 1
        found.append(bool(seen.workers()))
    return found


def test_a_lock_that_is_missing_for_the_whole_grace_says_that_the_worker_is_gone(
    gone: Desk, database: Database, clock: ManualClock
) -> None:
    seen = Absence(database)
    assert seen.workers() == []
    assert looks(seen, clock, GRACE_SECONDS - 1) == [False] * int(GRACE_SECONDS - 1)
    clock.now += 1
    assert seen.workers() == [gone.worker.id]


def test_a_worker_that_is_back_in_between_begins_anew(gone: Desk, database: Database, clock: ManualClock) -> None:
    seen = Absence(database)
    seen.workers()
    looks(seen, clock, GRACE_SECONDS - 1)
    with present(gone):
        clock.now += 1
        assert seen.workers() == []
    assert not any(looks(seen, clock, GRACE_SECONDS))
    assert looks(seen, clock, 1) == [True]


def test_looks_that_are_far_apart_prove_nothing_about_the_time_between(
    gone: Desk, database: Database, clock: ManualClock
) -> None:
    seen = Absence(database)
    for _ in range(3):
        assert seen.workers() == []
        clock.now += absence.LOOK_WITHIN + GRACE_SECONDS


def test_the_time_that_a_look_takes_is_no_time_of_absence(
    gone: Desk, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Absence(database)
    assert seen.workers() == []
    looks(seen, clock, GRACE_SECONDS - 2)
    asked = present_keys

    def slowly(database: Database) -> set[int]:
        keys = asked(database)
        clock.now += 4  # in which the worker may have come back
        return keys

    with monkeypatch.context() as slow:
        slow.setattr(absence, "present_keys", slowly)
        assert seen.workers() == []
    assert seen.workers() == [gone.worker.id]


@pytest.mark.parametrize("browser", [False, True], ids=["without a browser", "with one"])
def test_what_an_absent_worker_holds_is_taken_back_before_it_expires(
    new_desk: NewDesk, database: Database, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, browser: bool
) -> None:
    # On another machine, so that its browser is not this reaper's to stop.
    lost, kept = new_desk(machine="there", ttl=60), new_desk(machine="there", ttl=60)
    monkeypatch.setattr(absence, "ABSENT", _without_the_servers_age())
    granted = {desk.worker.id: desk.granted() for desk in (lost, kept)}
    for desk in (lost, kept):
        desk.execute("UPDATE poolsql.workers SET present_at = clock_timestamp() WHERE id = :id", id=desk.worker.id)
        if browser:
            desk.start_browser(granted[desk.worker.id], machine="there")
    here = new_desk(profiles=0, machine="here")
    here.reaper().run_once()  # what the tests before left to expire
    reaper = here.reaper(dead_workers=Absence(database).workers)
    with present(kept):
        for _ in range(int(GRACE_SECONDS)):
            assert reaper.run_once().expired == 0
            clock.now += 1
        assert reaper.run_once().expired == 1
    lease_id = granted[lost.worker.id].lease_id
    if browser:
        row = lost.lease_row(lease_id)
        assert (row.state, row.reclaim_outcome) == ("reclaiming", "worker_lost")
    else:
        assert lost.leases() == []
        attempt = lost.attempt(lease_id)
        assert (attempt.outcome, attempt.ended_by) == ("worker_lost", "reaper")
    assert [row.state for row in kept.leases()] == ["held"]


def test_who_never_was_present_is_judged_by_the_ttl_alone(gone: Desk, database: Database, clock: ManualClock) -> None:
    gone.execute("UPDATE poolsql.workers SET present_at = NULL WHERE id = :id", id=gone.worker.id)
    seen = Absence(database)
    assert not any(looks(seen, clock, 2 * GRACE_SECONDS))


def test_until_one_ttl_after_the_servers_start_a_missing_lock_says_nothing(
    gone: Desk, database: Database, clock: ManualClock
) -> None:
    gone.execute("UPDATE poolsql.leases SET ttl = interval '10 years' WHERE worker_id = :id", id=gone.worker.id)
    seen = Absence(database)
    assert not any(looks(seen, clock, 2 * GRACE_SECONDS))


@pytest.mark.parametrize("key", [1, 2**31 - 2, 2**31 - 1])
def test_every_lock_key_is_read_right(new_desk: NewDesk, database: Database, clock: ManualClock, key: int) -> None:
    new_desk().execute(f"ALTER TABLE poolsql.workers ALTER COLUMN lock_key RESTART WITH {key}")
    desk = new_desk(ttl=0.01, renew=0.001)
    assert desk.worker.lock_key == key
    assert new_desk().worker.lock_key == (key + 1 if key < 2**31 - 1 else 1), "they come around again"
    desk.granted()
    desk.execute("UPDATE poolsql.workers SET present_at = clock_timestamp() WHERE id = :id", id=desk.worker.id)
    seen = Absence(database)
    with present(desk):
        assert desk.worker.id not in {worker for _ in range(9) for worker in _look(seen, clock)}
    assert desk.worker.id in {worker for _ in range(9) for worker in _look(seen, clock)}


def test_locks_of_other_databases_are_not_ours(
    gone: Desk, database: Database, clock: ManualClock, empty_database: Callable[[], URL], settings: Settings
) -> None:
    elsewhere = Database(empty_database(), settings)
    try:
        upgrade(elsewhere)
        with elsewhere.engine.connect() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_lock({PRESENCE_CLASS}, {gone.worker.lock_key})")
            seen = Absence(database)
            assert gone.worker.id in {worker for _ in range(9) for worker in _look(seen, clock)}
    finally:
        elsewhere.close()


@pytest.mark.parametrize("machine", ["there", "here"], ids=["of another machine", "whose process is seen to live"])
def test_a_fleet_takes_back_what_an_absent_worker_holds_unless_its_process_is_seen_to_live(
    new_fleet: Callable[..., Fleet], database: Database, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(absence, "elapsed_clock", clock)
    there, here = new_fleet(machine=machine), new_fleet(machine="here")
    pool = there.define_pool(f"absent {machine}", ttl=60)
    there.define_launcher("absent")
    pool.add_profile(f"absent {machine}", launcher="absent")
    lease = pool.checkout()
    presence = there._runtime._presence
    assert presence is not None
    assert presence.listens()
    monkeypatch.setattr(absence, "ABSENT", _without_the_servers_age())
    for _ in range(9):
        assert lease.id not in {attempt.lease_id for attempt in here.reap().attempts}
        clock.now += 1
    presence.close()
    found: dict[int, str] = {}
    for _ in range(9):
        found |= {attempt.lease_id: attempt.outcome for attempt in here.reap().attempts}
        clock.now += 1
    lost = machine == "there"
    assert found.get(lease.id) == ("worker_lost" if lost else None)
    assert here.pool(pool.name).status().counts == {"available" if lost else "leased": 1}
    lease._keeper.forget(lease)


def _look(seen: Absence, clock: ManualClock) -> list[object]:
    clock.now += 1
    return list(seen.workers())


def _without_the_servers_age() -> Statement:
    """The test's server is younger than a ttl."""
    query = absence.ABSENT.query
    line = "AND pg_postmaster_start_time() + leases.ttl < clock_timestamp()"
    assert line in query
    return Statement("absent", query.replace(line, ""))
