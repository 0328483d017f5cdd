"""The pauses of a wait: jittered, growing, never longer than what is left."""

from __future__ import annotations

from typing import Any, cast

import pytest

from poolsql.database.engine import Database
from poolsql.leasing import waiting
from poolsql.leasing.checkout import Request
from poolsql.leasing.waiting import FIRST_PAUSE, LONGEST_PAUSE, Wait
from poolsql.leasing.worker import Worker
from tests.fixtures.clocks import ManualClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock()
    monkeypatch.setattr(waiting, "elapsed_clock", made)
    return made


def new_wait(wait: Any) -> Wait:
    worker = Worker(machine="here", pid=1, process_started="", version="")
    return Wait(cast("Database", None), worker, Request(pool_id=1), pool="shop", wait=wait)


def pauses(wait: Wait, clock: ManualClock) -> list[float]:
    told = []
    while (pause := wait.pause()) is not None:
        told.append(pause)
        clock.now += pause
    return told


def test_without_a_wait_there_is_no_pause(clock: ManualClock) -> None:
    assert pauses(new_wait(0), clock) == []


def test_pauses_fill_the_wait_exactly(clock: ManualClock) -> None:
    began = clock.now
    told = pauses(new_wait("30s"), clock)
    assert sum(told) == pytest.approx(30)
    assert clock.now - began == pytest.approx(30)


def test_pauses_begin_short_and_grow_up_to_a_second(clock: ManualClock) -> None:
    told = pauses(new_wait(60), clock)
    assert FIRST_PAUSE / 2 <= told[0] <= FIRST_PAUSE
    assert max(told) <= LONGEST_PAUSE
    assert max(told[:3]) < min(told[10:-1])
    assert 60 <= len(told) <= 150, "at least one try a second"


def test_waiters_do_not_march_in_step(clock: ManualClock) -> None:
    told = pauses(new_wait(60), clock)
    assert len(set(told)) == len(told)


def test_time_that_tries_took_is_part_of_the_wait(clock: ManualClock) -> None:
    wait = new_wait(10)
    clock.now += 9.99
    assert wait.pause() == pytest.approx(0.01)
    clock.now += 0.02
    assert wait.pause() is None
