"""What becomes of a task after each outcome, and which policies are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from poolsql.errors import BadInputError
from poolsql.leasing.outcomes import RULES, Outcome, Retry
from poolsql.scraping.retries import MOST_TRIES, Next, RetryPolicy
from poolsql.scraping.states import TaskState

POLICY = RetryPolicy(retries=2, delay=10, longest_delay=15)
FAILED = Next(TaskState.FAILED)

BY_RETRY = {
    Retry.NO: (FAILED, FAILED, FAILED),
    Retry.PER_JOB: (Next(TaskState.PENDING, 10), Next(TaskState.PENDING, 15), FAILED),
    Retry.AFTER_PAUSE: (Next(TaskState.PENDING), Next(TaskState.PENDING), FAILED),
    Retry.SAME_PROFILE: (
        Next(TaskState.PENDING, same_profile=True),
        Next(TaskState.PENDING, same_profile=True),
        Next(TaskState.FAILED, same_profile=True),
    ),
    Retry.YES: (Next(TaskState.PENDING), Next(TaskState.PENDING), Next(TaskState.PENDING)),
}


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.SUCCESS])
def test_every_outcome_is_retried_as_its_rule_says(outcome: Outcome) -> None:
    assert tuple(POLICY.after(outcome, tries=tries) for tries in (1, 2, 3)) == BY_RETRY[RULES[outcome].retry]


def test_what_is_always_retried_ends_one_day() -> None:
    assert POLICY.after(Outcome.WORKER_LOST, tries=MOST_TRIES - 1) == Next(TaskState.PENDING)
    assert POLICY.after(Outcome.WORKER_LOST, tries=MOST_TRIES) == FAILED


@pytest.mark.parametrize("tries", [1, 3, 100])
def test_a_success_is_done_whenever_it_comes(tries: int) -> None:
    assert POLICY.after(Outcome.SUCCESS, tries=tries) == Next(TaskState.DONE)


def test_number_of_retries_of_one_outcome() -> None:
    policy = RetryPolicy(retries=1, per_outcome={Outcome.SITE_ERROR: 4, Outcome.CAPTCHA: 0})
    assert policy.after(Outcome.SITE_ERROR, tries=4).state is TaskState.PENDING
    assert policy.after(Outcome.SITE_ERROR, tries=5).state is TaskState.FAILED
    assert policy.after(Outcome.CAPTCHA, tries=1).state is TaskState.FAILED
    assert policy.after(Outcome.TASK_FAILED, tries=2).state is TaskState.FAILED


def test_without_retries_everything_that_is_the_tasks_own_ends_at_once() -> None:
    assert RetryPolicy(retries=0).after(Outcome.TASK_FAILED, tries=1) == FAILED
    assert RetryPolicy(retries=0).after(Outcome.WORKER_LOST, tries=1).state is TaskState.PENDING


@pytest.mark.parametrize("tries", [61, 2_000, 10**9])
def test_delays_stay_numbers_however_often_it_was_tried(tries: int) -> None:
    policy = RetryPolicy(retries=10**10, delay=0.5, longest_delay=600)
    assert policy.after(Outcome.TASK_FAILED, tries=tries).delay == 600
    assert RetryPolicy(retries=10**10, delay=0).after(Outcome.TASK_FAILED, tries=tries).delay == 0


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"retries": -1}, "numbers"),
        ({"per_outcome": {Outcome.SITE_ERROR: -1}}, "numbers"),
        ({"delay": -0.1}, "delays"),
        ({"delay": math.nan}, "delays"),
        ({"delay": math.inf}, "delays"),
        ({"longest_delay": -1}, "delays"),
        ({"longest_delay": math.nan}, "delays"),
        ({"longest_delay": math.inf}, "delays"),
        ({"per_outcome": {"no_such": 1}}, "no outcome no_such"),
        *(({"per_outcome": {outcome: 1}}, str(outcome)) for outcome in Outcome if RULES[outcome].retry is Retry.NO),
    ],
)
def test_what_cannot_be_right_is_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        RetryPolicy(**values)
