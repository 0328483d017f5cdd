"""Runs and jobs as operators see and change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolsql.errors import BadInputError, ConflictError, UnknownNameError
from poolsql.leasing.outcomes import Outcome
from poolsql.operations.jobs import find_job, fire_by_hand, list_jobs
from poolsql.operations.results import Source, results
from poolsql.operations.runs import Retried, cancel_run, find_run, list_runs, list_tasks, retry_run
from poolsql.scheduling.upkeep import CANCEL_TASKS
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.states import RunState, TaskState
from poolsql.scraping.tasks import claim_task, create_run, end_runs
from tests.fixtures.fleets import Desk
from tests.integration.scheduling.jobs import Jobs
from tests.integration.scraping.runs import Run


@pytest.fixture
def new_run(jobs: Jobs) -> Callable[..., Run]:
    """Fires a job by hand with so many tasks; its run can be worked on by the test."""
    return jobs.fired


class TestFiringByHand:
    def test_a_second_run_of_a_job_is_refused_while_one_is_open(self, new_run: Any, desk: Desk) -> None:
        run = new_run(1)
        name = find_run(desk.database, run.id).name
        with pytest.raises(ConflictError, match=f"run {run.id} is still open"):
            fire_by_hand(desk.database, name, who="test")
        run.tried(Outcome.SUCCESS)
        end_runs(desk.database)
        assert fire_by_hand(desk.database, name, who="test") > run.id

    def test_runs_may_overlap_where_the_job_says_so(self, jobs: Jobs, desk: Desk) -> None:
        name = jobs.define(None, overlap=True)
        first, second = (fire_by_hand(desk.database, name, who="test") for _ in range(2))
        assert first != second

    def test_is_audited(self, jobs: Jobs, desk: Desk) -> None:
        name = jobs.define(None)
        fire_by_hand(desk.database, name, who="ann", reason="look")
        row = desk.one("SELECT who, action, reason FROM poolsql.audit WHERE subject = :name", name=name)
        assert row == ("ann", "job run", "look")

    def test_a_misspelt_job_is_told(self, jobs: Jobs, desk: Desk) -> None:
        name = jobs.define(None)
        with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
            find_job(desk.database, f"{name}s")
        assert name in [job.name for job in list_jobs(desk.database)]


class TestCancelling:
    def test_ends_what_waits_and_what_was_only_claimed(self, new_run: Any) -> None:
        run = new_run(3)
        task, lease = run.attached()
        claimed = run.claimed()
        ended = cancel_run(run.database, run.id, who="ann", reason="wrong list")
        assert (ended.state, ended.running, ended.failed) == (RunState.CANCELLED, 1, 2)
        assert ended.detail == "cancelled: wrong list"
        assert run.row(claimed).outcome == "cancelled"
        # The visit that was under way keeps its result.
        run.finish(task, lease, Outcome.SUCCESS, result={"title": "x"})
        lease.release()
        assert run.row(task).state == "done"

    def test_nothing_of_it_is_claimed_any_more(self, new_run: Any) -> None:
        run = new_run(2)
        task, lease = run.attached()
        cancel_run(run.database, run.id, who="ann")
        run.finish(task, lease, Outcome.SITE_ERROR)
        lease.release()
        run.due_now()
        assert claim_task(run.database, run.id, seconds=5) is None, "a retry is not due either"
        assert run.progress().over
        run.database.run(CANCEL_TASKS, {})
        assert run.row(task).state == "failed"

    def test_a_task_whose_worker_died_meanwhile_ends_too(self, new_run: Any, desk: Desk) -> None:
        run = new_run(1)
        task, lease = run.attached()
        cancel_run(run.database, run.id, who="ann")
        desk.reap(lease.id)
        run.database.run(CANCEL_TASKS, {})
        assert run.row(task).state == "failed"

    def test_an_ended_run_cannot_be_cancelled(self, new_run: Any) -> None:
        run = new_run(1)
        run.tried(Outcome.SUCCESS)
        end_runs(run.database)
        with pytest.raises(ConflictError, match="ended already, as done"):
            cancel_run(run.database, run.id, who="ann")


def failed_with(new_run: Any, *outcomes: Outcome) -> Run:
    """A run that has ended; its tasks ended like this, without a further try."""
    run: Run = new_run(len(outcomes))
    run.retries = RetryPolicy(retries=0)
    for outcome in outcomes:
        run.tried(outcome)
    end_runs(run.database)
    return run


class TestRetrying:
    def test_tries_what_failed_and_keeps_the_rest(self, new_run: Any) -> None:
        run = failed_with(new_run, Outcome.SUCCESS, Outcome.TASK_FAILED)
        assert retry_run(run.database, run.id, who="ann") == Retried(tasks=1, left={})
        good, bad = run.rows()
        assert (good.state, bad.state, bad.tries, bad.seed) == ("done", "pending", 0, "s-1")
        assert find_run(run.database, run.id).state is RunState.RUNNING
        run.tried(Outcome.SUCCESS)
        assert end_runs(run.database, run_id=run.id) == [(run.id, RunState.DONE)]

    def test_leaves_what_is_never_retried_unless_all_are_wanted_i12(self, new_run: Any, desk: Desk) -> None:
        run = failed_with(
            new_run,
            Outcome.SUCCESS,
            Outcome.TASK_FAILED,
            Outcome.NOT_FOUND,
            Outcome.ROBOTS_DISALLOWED,
            Outcome.NOT_FOUND,
            Outcome.SESSION_LOST,
        )
        left = {"not_found": 2, "robots_disallowed": 1, "session_lost": 1}
        assert retry_run(run.database, run.id, who="ann") == Retried(tasks=1, left=left)
        states = ["done", "pending", "failed", "failed", "failed", "failed"]
        assert [task.state for task in run.rows()] == states
        desk.execute("UPDATE poolsql.tasks SET state = 'done' WHERE run_id = :id AND state = 'pending'", id=run.id)
        end_runs(run.database)
        with pytest.raises(BadInputError, match=r"not tried again: 2 not_found, .*; --all"):
            retry_run(run.database, run.id, who="ann")
        assert find_run(run.database, run.id).state is RunState.DONE, "it stays ended"
        assert retry_run(run.database, run.id, who="ann", only_failed=False) == Retried(tasks=6, left={})

    def test_what_a_person_cancelled_is_tried_again(self, new_run: Any) -> None:
        run = new_run(2)
        cancel_run(run.database, run.id, who="ann")
        assert retry_run(run.database, run.id, who="ann") == Retried(tasks=2, left={})

    @pytest.mark.parametrize("only_failed", [True, False])
    def test_a_target_that_could_not_be_visited_is_left_in_any_case(
        self, jobs: Jobs, new_run: Any, desk: Desk, only_failed: bool
    ) -> None:
        targets = {"list": [{"url": f"https://{desk.host}/", "profile": "nobody"}]}
        run = new_run(name=jobs.define(None, targets=targets))
        end_runs(desk.database)
        told = f"not tried again: 1 bad_target; to fire its job again: poolsql job run {jobs.names[-1]}"
        with pytest.raises(BadInputError, match=told):
            retry_run(desk.database, run.id, who="ann", only_failed=only_failed)
        assert [task.state for task in run.rows()] == ["failed"], "any profile might try it otherwise"

    def test_refuses_an_open_run(self, new_run: Any) -> None:
        run = new_run(1)
        with pytest.raises(ConflictError, match="still open"):
            retry_run(run.database, run.id, who="ann")

    def test_refuses_when_nothing_failed_and_leaves_the_run_ended(self, new_run: Any) -> None:
        run = failed_with(new_run, Outcome.SUCCESS)
        with pytest.raises(BadInputError, match="no task has failed"):
            retry_run(run.database, run.id, who="ann")
        assert find_run(run.database, run.id).state is RunState.DONE

    def test_refuses_while_another_run_of_the_job_is_open(self, new_run: Any) -> None:
        run = failed_with(new_run, Outcome.TASK_FAILED)
        name = find_run(run.database, run.id).name
        new_run(name=name)
        with pytest.raises(ConflictError, match=f"another run of job {name} is open; wait for it, or cancel it"):
            retry_run(run.database, run.id, who="ann")

    def test_refuses_a_run_that_no_daemon_works_on(self, desk: Desk) -> None:
        run_id = create_run(desk.database, "own", desk.pool.id, [])
        end_runs(desk.database)
        with pytest.raises(BadInputError, match="program of its own"):
            retry_run(desk.database, run_id, who="ann")

    def test_says_of_a_run_without_tasks_how_to_fire_it_again(self, jobs: Jobs, desk: Desk) -> None:
        name = jobs.define(None)
        run_id = fire_by_hand(desk.database, name, who="test")
        end = "UPDATE poolsql.runs SET state = :state, ended_at = clock_timestamp(), detail = 'no file' WHERE id = :id"
        jobs.execute(end, id=run_id, state="failed")
        again = f"to fire its job again: poolsql job run {name}"
        with pytest.raises(BadInputError, match=rf"is failed without any task \(no file\); {again}"):
            retry_run(desk.database, run_id, who="ann")
        jobs.execute("UPDATE poolsql.runs SET state = 'skipped', definition = NULL WHERE id = :id", id=run_id)
        with pytest.raises(BadInputError, match=f"was skipped and has no tasks; {again}"):
            retry_run(desk.database, run_id, who="ann")


def test_results_say_which_profile_and_seed_made_them(new_run: Any, desk: Desk) -> None:
    desk.execute("UPDATE poolsql.profiles SET seed = 'identity' WHERE id = :id", id=desk.only)
    run = new_run(2)
    desk.execute("UPDATE poolsql.tasks SET seed = NULL WHERE id = (SELECT max(id) FROM poolsql.tasks)")
    for number in range(2):
        task, lease = run.attached()
        run.finish(task, lease, Outcome.SUCCESS, result={"n": number})
        lease.release()
    key = desk.profile(desk.only).key
    got = list(results(run.database, Source(run=run.id)))
    assert [(row["profile"], row["seed"], row["result"]) for row in got] == [
        (key, "s-0", {"n": 0}),
        (key, "identity", {"n": 1}),
    ]
    job = find_run(run.database, run.id).job
    assert list(results(run.database, Source(job=job))) == got
    assert list(results(run.database, Source(job="another"))) == []
    assert [task.profile for task in list_tasks(run.database, run.id, state=TaskState.DONE)] == [key, key]


def test_lists_the_newest_first_by_job_and_state(new_run: Any, desk: Desk) -> None:
    runs = [new_run(1), new_run(1)]
    runs[0].tried(Outcome.SUCCESS)
    end_runs(desk.database)
    assert [row.id for row in list_runs(desk.database, limit=2)] == [runs[1].id, runs[0].id]
    assert [row.id for row in list_runs(desk.database, state=RunState.RUNNING, limit=1)] == [runs[1].id]
    job = find_run(desk.database, runs[0].id).job
    assert [row.id for row in list_runs(desk.database, job=job)] == [runs[0].id]
    with pytest.raises(UnknownNameError, match="run list"):
        find_run(desk.database, 10**9)
