"""Trying again what failed by a launcher's fault: up to three times, after 2, 4 and 8 seconds and a little more."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar, cast

from tenacity import RetryCallState, Retrying, retry_if_exception

from poolsql.deadlines import Deadline
from poolsql.launchers.rest.api import ApiError

Result = TypeVar("Result")

WAITS: tuple[float, ...] = (2.0, 4.0, 8.0)
"""Seconds before each further try."""
_JITTER = 0.25
"""Share of a wait that is added at most, so that workers that failed together do not come back together."""


def with_retries(work: Callable[[], Result], deadline: Deadline, *, sleep: Callable[[float], None]) -> Result:
    """Do `work`, again after a pause when it failed in a way that may pass.

    A wait that the API asked for is kept in full. No try begins after the deadline: when the wait would end later,
    the error is raised at once.

    Raises:
        ApiError: The last try's.
    """
    waits = WAITS

    def wait(state: RetryCallState) -> float:
        pause = waits[min(state.attempt_number, len(waits)) - 1]
        asked = _error(state).retry_after or 0.0
        return max(asked, pause) + random.uniform(0, pause * _JITTER)  # noqa: S311 - no secret

    def is_over(state: RetryCallState) -> bool:
        return state.attempt_number > len(waits) or state.upcoming_sleep >= deadline.left()

    tries = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, ApiError) and error.retry),
        wait=wait,
        stop=is_over,
        sleep=sleep,
        reraise=True,
    )
    return tries(work)


def _error(state: RetryCallState) -> ApiError:
    """What the try failed with: tenacity asks about failures only, which its types do not say."""
    return cast("ApiError", state.outcome and state.outcome.exception())
