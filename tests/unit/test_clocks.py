from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from poolsql import clocks
from poolsql.clocks import elapsed_clock


def test_it_is_the_clock_that_counts_a_suspend_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def read(clock: int) -> float:
        asked.append(clock)
        return 12.5

    monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(time, "clock_gettime", read)
    assert elapsed_clock() == 12.5
    assert asked == [7]


def test_it_goes_on_and_never_back() -> None:
    readings = [elapsed_clock() for _ in range(1000)]
    assert readings == sorted(readings)


@dataclass
class Clocks:
    """The two clocks of a machine without CLOCK_BOOTTIME."""

    monotonic: float = 1000.0
    wall: float = 5000.0

    def move(self, *, monotonic: float = 0, wall: float = 0) -> None:
        self.monotonic += monotonic
        self.wall += wall


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clocks]:
    machine = Clocks()
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: machine.monotonic)
    monkeypatch.setattr(time, "time", lambda: machine.wall)
    monkeypatch.setattr(clocks, "_fallback", clocks._LargerProgress())
    yield machine
    monkeypatch.undo()


def test_without_that_clock_both_others_count_alike(machine: Clocks) -> None:
    began = elapsed_clock()
    machine.move(monotonic=5, wall=5)
    assert elapsed_clock() - began == 5


def test_a_suspend_that_stops_the_monotonic_clock_is_counted(machine: Clocks) -> None:
    began = elapsed_clock()
    machine.move(monotonic=1, wall=600)
    assert elapsed_clock() - began == 600


def test_a_wall_clock_that_is_set_back_or_stands_still_takes_nothing_away(machine: Clocks) -> None:
    began = elapsed_clock()
    machine.move(monotonic=5, wall=-3600)
    assert elapsed_clock() - began == 5
    machine.move(monotonic=5)
    assert elapsed_clock() - began == 10


def test_a_wall_clock_that_was_set_back_and_forth_is_not_counted_against_the_suspend(machine: Clocks) -> None:
    began = elapsed_clock()
    machine.move(monotonic=1, wall=-3600)
    elapsed_clock()
    machine.move(monotonic=1, wall=600)
    assert elapsed_clock() - began == 601


def test_it_never_goes_back_even_if_both_do(machine: Clocks) -> None:
    began = elapsed_clock()
    machine.move(monotonic=-1, wall=-1)
    assert elapsed_clock() == began


def test_threads_do_not_count_time_twice(machine: Clocks) -> None:
    began = elapsed_clock()
    machine.move(monotonic=1, wall=1)
    threads = [threading.Thread(target=elapsed_clock) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert elapsed_clock() - began == 1


FORK = """
import os
from poolsql import clocks

with clocks._fallback._lock:
    child = os.fork()
    if child == 0:
        os._exit(0 if clocks._fallback.read() >= 0 else 1)
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_child_that_was_forked_in_the_middle_of_a_reading_can_read() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=30)
