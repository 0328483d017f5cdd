from __future__ import annotations

import pytest

from poolsql.deadlines import Deadline
from poolsql.errors import LeaseLostError
from poolsql.launchers.rest.api import ApiError
from poolsql.launchers.rest.retrying import with_retries


class Work:
    """Fails with each of these errors in turn, then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries = 0
        self.waited: list[float] = []

    def __call__(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def run(self, seconds: float = 100) -> str:
        return with_retries(self, Deadline(seconds), sleep=self.waited.append)


def passing(*, retry_after: float | None = None) -> ApiError:
    return ApiError("busy", retry=True, retry_after=retry_after)


def test_what_succeeds_is_done_once() -> None:
    work = Work()
    assert (work.run(), work.tries, work.waited) == ("done", 1, [])


def test_three_more_tries_each_after_twice_the_wait_and_a_little_more() -> None:
    work = Work(passing(), passing(), passing())
    assert (work.run(), work.tries) == ("done", 4)
    for waited, base in zip(work.waited, (2, 4, 8), strict=True):
        assert base <= waited <= 1.25 * base


def test_a_fifth_try_is_not_made() -> None:
    work = Work(*(passing() for _ in range(4)))
    with pytest.raises(ApiError):
        work.run()
    assert (work.tries, len(work.waited)) == (4, 3)


def test_waits_differ_between_workers() -> None:
    waits = set()
    for _ in range(20):
        work = Work(passing())
        work.run()
        waits.add(work.waited[0])
    assert len(waits) > 1


@pytest.mark.parametrize("error", [ApiError("refused"), LeaseLostError("lost"), ValueError()])
def test_what_cannot_pass_is_not_tried_again(error: Exception) -> None:
    work = Work(error)
    with pytest.raises(type(error)):
        work.run()
    assert (work.tries, work.waited) == (1, [])


@pytest.mark.parametrize(("asked", "least"), [(30, 30), (1, 2), (0, 2)])
def test_what_the_api_asked_for_is_kept_in_full(asked: float, least: float) -> None:
    work = Work(passing(retry_after=asked))
    work.run()
    assert least <= work.waited[0] <= least + 0.5


@pytest.mark.parametrize(("retry_after", "seconds"), [(60, 50), (None, 1.9)])
def test_a_wait_beyond_the_deadline_is_not_begun(retry_after: float | None, seconds: float) -> None:
    work = Work(passing(retry_after=retry_after))
    with pytest.raises(ApiError, match="busy"):
        work.run(seconds)
    assert (work.tries, work.waited) == (1, [])
