"""How runs end, and how many of their tasks are worked on at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolsql.leasing.outcomes import Outcome
from poolsql.operations.jobs import fire_by_hand
from poolsql.operations.runs import find_run
from poolsql.scheduling.preparing import prepare_runs
from poolsql.scraping.states import RunState
from poolsql.scraping.tasks import claim_task, end_runs
from tests.fixtures.fleets import Desk
from tests.integration.scheduling.jobs import Jobs
from tests.integration.scraping.runs import Run


@pytest.fixture
def new_run(jobs: Jobs) -> Callable[..., Run]:
    """Fires a job by hand with so many tasks; its run can be worked on by the test."""
    return jobs.fired


def test_a_run_ends_well_when_a_task_did(new_run: Any) -> None:
    run = new_run(2)
    run.tried(Outcome.SUCCESS)
    assert end_runs(run.database, run_id=run.id) == [], "a task is left"
    run.tried(Outcome.NOT_FOUND)
    assert end_runs(run.database, run_id=run.id) == [(run.id, RunState.DONE)]
    row = find_run(run.database, run.id)
    assert (row.state, row.done, row.failed, row.total) == (RunState.DONE, 1, 1, 2)
    assert row.ended_at is not None
    assert end_runs(run.database) == [], "once"


def test_a_run_of_which_nothing_went_well_has_failed(new_run: Any) -> None:
    run = new_run(1)
    run.tried(Outcome.NOT_FOUND)
    end_runs(run.database)
    assert find_run(run.database, run.id).state is RunState.FAILED


def test_a_run_without_tasks_is_done(jobs: Jobs, desk: Desk) -> None:
    name = jobs.define(None)
    run_id = fire_by_hand(desk.database, name, who="test")
    assert end_runs(desk.database, run_id=run_id) == [], "it has not been prepared"
    prepare_runs(desk.database, own=[run_id])
    assert end_runs(desk.database, run_id=run_id) == [(run_id, RunState.DONE)]


def test_at_most_as_many_tasks_at_once_as_the_job_says(new_run: Any) -> None:
    run = new_run(3)
    first = claim_task(run.database, run.id, seconds=60, at_once=2)
    second = claim_task(run.database, run.id, seconds=60, at_once=2)
    assert first is not None
    assert second is not None
    assert claim_task(run.database, run.id, seconds=60, at_once=2) is None
    run.end_claim(first)
    run.return_orphans()
    assert claim_task(run.database, run.id, seconds=60, at_once=2) is not None


def test_a_target_whose_profile_is_not_in_use_ends_instead_of_waiting_for_ever(
    jobs: Jobs, new_run: Any, desk: Desk
) -> None:
    (new,) = desk.add_profiles(1, new=True)
    name = jobs.define(None, targets={"list": [{"url": f"https://{desk.host}/", "profile": desk.profile(new).key}]})
    run = new_run(name=name)
    run.return_orphans()
    (task,) = run.rows()
    assert task.state == "failed"
    assert "is new" in task.detail
