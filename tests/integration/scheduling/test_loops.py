"""A daemon's loops: stamped when they come round, called when they are overdue, started anew when they end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from poolsql.errors import DatabaseUnavailableError
from poolsql.fleet.fleet import Fleet
from poolsql.scheduling import daemon as daemon_module
from poolsql.scheduling import loops
from poolsql.scheduling.daemon import Daemon
from poolsql.scheduling.loops import LONGEST_NOTE, Loop, Stamps
from tests.fixtures.clocks import ManualClock
from tests.fixtures.fleets import Desk, FaultyDatabase


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock()
    monkeypatch.setattr(loops, "elapsed_clock", made)
    return made


@pytest.fixture
def drained() -> list[str]:
    return []


@pytest.fixture
def new_loop(desk: Desk, faulty: FaultyDatabase, drained: list[str]) -> Callable[..., Loop]:
    """Makes loops of the desk's worker."""

    def make(work: Callable[[], object] = lambda: None, *, name: str = "fire", every: float = 1.0) -> Loop:
        return Loop(name, work, every=every, stamps=Stamps(faulty, desk.worker, drain=lambda: drained.append(name)))

    return make


def stamp(desk: Desk) -> Any:
    return desk.one("SELECT * FROM poolsql.loop_stamps WHERE worker_id = :id", id=desk.worker.id)


def failing(error: BaseException) -> Callable[[], object]:
    def work() -> object:
        raise error

    return work


def test_a_round_is_stamped_after_its_work(new_loop: Callable[..., Loop], desk: Desk) -> None:
    stamps: list[list[Any]] = []
    query = "SELECT FROM poolsql.loop_stamps WHERE worker_id = :id"
    new_loop(lambda: stamps.append(desk.all(query, id=desk.worker.id))).round()
    assert stamps == [[]]
    row = stamp(desk)
    assert (row.loop, row.machine, row.every.total_seconds(), row.note, row.failing_since) == (
        "fire",
        "here",
        1.0,
        None,
        None,
    )


def test_a_failing_round_is_stamped_with_its_reason_and_since_when(
    new_loop: Callable[..., Loop], desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "poolsql.scheduling.loops")
    errors = [DatabaseUnavailableError("gone"), DatabaseUnavailableError("still gone"), None]

    def work() -> object:
        error = errors.pop(0)
        if error is not None:
            raise error
        return None

    loop = new_loop(work)
    loop.round()
    first = stamp(desk)
    assert first.note == "gone"
    loop.round()
    second = stamp(desk)
    assert (second.note, second.failing_since) == ("still gone", first.failing_since)
    assert second.stamped_at > first.stamped_at
    loop.round()
    assert (stamp(desk).note, stamp(desk).failing_since) == (None, None)
    # Whoever watches learns of the beginning and of the end.
    assert [record.getMessage() for record in caplog.records] == [
        "loop fire fails, trying again: gone",
        "loop fire goes on",
    ]


def test_whatever_is_raised_a_round_returns_and_a_long_reason_is_cut(new_loop: Callable[..., Loop], desk: Desk) -> None:
    new_loop(failing(ZeroDivisionError("x" * 10_000 + "\x00"))).round()
    note = stamp(desk).note
    assert note.startswith("ZeroDivisionError: xxx")
    assert len(note) == LONGEST_NOTE


def test_a_round_returns_though_it_cannot_be_stamped(
    new_loop: Callable[..., Loop], desk: Desk, faulty: FaultyDatabase
) -> None:
    done: list[int] = []
    loop = new_loop(lambda: done.append(1))
    faulty.down = True
    loop.round()
    faulty.down = False
    assert done == [1]
    assert desk.all("SELECT FROM poolsql.loop_stamps WHERE worker_id = :id", id=desk.worker.id) == []


def test_a_stamp_tells_that_an_operator_drains_the_worker(
    new_loop: Callable[..., Loop], desk: Desk, drained: list[str]
) -> None:
    loop = new_loop()
    loop.round()
    assert drained == []
    desk.execute("UPDATE poolsql.workers SET draining_at = now() WHERE id = :id", id=desk.worker.id)
    loop.round()
    assert drained == ["fire"]


def test_a_loop_is_idle_between_its_rounds_and_not_during_them(
    new_loop: Callable[..., Loop], clock: ManualClock
) -> None:
    during: list[float] = []

    def work() -> None:
        clock.now += 500
        during.append(loop.idle_for)

    loop = new_loop(work)
    clock.now += 7
    assert loop.idle_for == 7
    loop.round()
    assert during == [0.0], "a round that takes long is no reason to call another"
    assert loop.idle_for == 0
    clock.now += 3
    assert loop.idle_for == 3


@pytest.mark.parametrize(("every", "idle", "called"), [(1.0, 12.9, False), (1.0, 13.1, True), (60.0, 180.0, False)])
def test_a_loop_whose_next_round_lies_in_the_future_of_a_clock_that_was_set_back_is_called(
    every: float,
    idle: float,
    called: bool,
    new_loop: Callable[..., Loop],
    clock: ManualClock,
    new_fleet: Callable[..., Fleet],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(daemon_module, "OVERDUE_AFTER", 10.0)
    daemon = Daemon(new_fleet())
    rounds: list[int] = []
    loop = new_loop(lambda: rounds.append(1), every=every)
    scheduler = daemon._scheduler
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    scheduler.add_job(loop.round, "interval", seconds=every, id=loop.name, next_run_time=in_an_hour)
    scheduler.start(paused=True)
    clock.now += idle

    async def look_once() -> None:
        sleeps = 0

        async def sleep(_: float) -> None:
            nonlocal sleeps
            sleeps += 1
            if sleeps == 2:
                raise asyncio.CancelledError

        monkeypatch.setattr(asyncio, "sleep", sleep)
        with pytest.raises(asyncio.CancelledError):
            await daemon._call_overdue([loop])

    try:
        asyncio.run(look_once())
        due = scheduler.get_job(loop.name).next_run_time
        assert (due < in_an_hour) is called
    finally:
        scheduler.shutdown()


class FailingCrew:
    """A crew whose first work ends through a fault of ours."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self.begun = 0
        self._stop = stop

    async def work(self) -> None:
        self.begun += 1
        if self.begun == 1:
            raise ZeroDivisionError
        self._stop()
        await asyncio.Event().wait()


def test_a_crew_that_ends_unexpectedly_is_started_anew(
    new_fleet: Callable[..., Fleet], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(daemon_module, "LOOK_EVERY", 0.0)
    daemon = Daemon(new_fleet())
    crew: Any = FailingCrew(daemon._stopping.set)

    async def scene() -> None:
        work = asyncio.create_task(crew.work())
        while not daemon._stopping.is_set():
            work = await daemon._work_until_stopping(crew, work)
        assert not work.done()
        work.cancel()

    asyncio.run(scene())
    assert crew.begun == 2
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "the crew has ended unexpectedly" in record.getMessage()
    assert record.exc_info is not None
