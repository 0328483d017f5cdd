from __future__ import annotations

import threading
import time

import pytest

from poolsql import deadlines
from poolsql.deadlines import Deadline, finish_within, wait_until
from poolsql.errors import BadInputError


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_no_end_is_refused(seconds: float) -> None:
    with pytest.raises(BadInputError, match="positive number"):
        Deadline(seconds)


def test_time_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(deadlines, "elapsed_clock", lambda: now)
    deadline = Deadline(10)
    assert (deadline.seconds, deadline.spent(), deadline.left()) == (10, 0, 10)
    now = 104.0
    assert (deadline.seconds, deadline.spent(), deadline.left()) == (10, 4, 6)
    assert deadline.part(0.5, at_most=10).seconds == 3
    assert deadline.part(0.5, at_most=2).seconds == 2
    now = 111.0
    assert deadline.left() == 0
    assert deadline.part(0.5, at_most=2).seconds < 1e-6


def test_waiting_ends_with_the_condition() -> None:
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), Deadline(10))


def test_waiting_ends_with_the_deadline() -> None:
    began = time.monotonic()
    assert not wait_until(lambda: False, Deadline(0.05))
    assert 0.05 <= time.monotonic() - began < 1


def test_a_condition_is_looked_at_even_if_the_time_is_over() -> None:
    assert wait_until(lambda: True, Deadline(1e-9))


def test_work_that_ends_in_time_gives_its_result_or_its_error() -> None:
    assert finish_within(lambda: "done", Deadline(10), name="test-work") == "done"
    with pytest.raises(ZeroDivisionError):
        finish_within(lambda: 1 / 0, Deadline(10), name="test-work")


def test_work_that_never_ends_is_given_up() -> None:
    over = threading.Event()
    with pytest.raises(TimeoutError):
        finish_within(over.wait, Deadline(0.05), name="test-work")
    over.set()
