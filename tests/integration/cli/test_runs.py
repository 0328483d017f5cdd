"""``poolsql run``."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import pytest

from poolsql.cli import run as run_commands
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls
from tests.integration.scheduling.jobs import Jobs

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def run_with(jobs: Jobs, calls: Calls, states: Sequence[str], *, name: str | None = None) -> int:
    """A run whose tasks are in these states."""
    run_id = int(calls("job", "run", name or jobs.define(), "--json").json["run"])
    jobs.execute("UPDATE poolsql.runs SET state = 'running' WHERE id = :run", run=run_id)
    for number, state in enumerate(states):
        jobs.execute(
            "INSERT INTO poolsql.tasks (run_id, url, host, state) VALUES (:run, :url, 'a.test', :state)",
            run=run_id,
            url=f"http://a.test/{number}",
            state=state,
        )
    return run_id


def end(jobs: Jobs, run_id: int, state: str) -> None:
    jobs.execute(
        "UPDATE poolsql.runs SET state = :state, ended_at = clock_timestamp() WHERE id = :run", run=run_id, state=state
    )


def test_runs_are_listed_and_shown_with_their_tasks(calls: Calls, jobs: Jobs) -> None:
    name = jobs.define(overlap=True)
    first, second = (run_with(jobs, calls, states, name=name) for states in (["done"], ["failed", "pending"]))
    end(jobs, first, "done")
    assert [row["id"] for row in calls("run", "list", "--job", name, "--json").json] == [second, first]
    assert [row["id"] for row in calls("run", "list", "--job", name, "--state", "done", "--json").json] == [first]
    heading, row = calls("run", "list", "--job", name, "--limit", 1).table
    told = dict(zip(heading, row, strict=True))
    assert (told["RUN"], told["STATE"], told["PENDING"], told["FAILED"]) == (str(second), "running", "1", "1")

    shown = calls("run", "show", second, "--json").json
    assert (shown["run"]["id"], [task["state"] for task in shown["tasks"]]) == (second, ["failed", "pending"])
    assert [task["state"] for task in calls("run", "show", second, "--state", "failed", "--json").json["tasks"]] == [
        "failed"
    ]
    text = calls("run", "show", second, "--limit", 1)
    assert "http://a.test/0" in text.out
    assert text.errors == "the first 1 tasks; --limit shows more\n"


@pytest.mark.parametrize(("state", "code"), [("done", 0), ("failed", 1), ("cancelled", 1)])
def test_watching_a_run_ends_with_it(
    calls: Calls,
    jobs: Jobs,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    code: int,
) -> None:
    run_id = run_with(jobs, calls, ["done", "running"])
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        """The run goes on while the program waits."""
        looks.append(seconds)
        if len(looks) == 2:
            jobs.execute(
                "UPDATE poolsql.tasks SET state = 'failed' WHERE run_id = :run AND state = 'running'", run=run_id
            )
        if len(looks) == 4:
            end(jobs, run_id, state)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(run_commands, "TELL_EVERY", 0.0)
    watched = calls("run", "watch", run_id)
    assert (watched.code, watched.errors) == (code, "")
    first, second, third = watched.out.splitlines()
    assert first.endswith(" is running, 1 of 2 tasks, 0 failed, 1 running")
    assert second.endswith(" is running, 2 of 2 tasks, 1 failed, 0 running")
    assert third.endswith(f" is {state}, 2 of 2 tasks, 1 failed, 0 running")
    again = calls("run", "watch", run_id, "--json")
    (line,) = again.out.splitlines()
    assert (again.code, json.loads(line)["state"]) == (code, state)


def test_a_run_is_cancelled_once_and_audited(calls: Calls, jobs: Jobs, desk: Desk) -> None:
    name = jobs.define()
    run_id = run_with(jobs, calls, ["done", "pending"], name=name)
    mark = last_audit(desk)
    assert calls("run", "cancel", run_id, "--reason", "wrong list").line == f"run {run_id} of {name} is cancelled"
    assert [task.outcome for task in jobs.tasks(run_id)] == [None, "cancelled"]
    assert calls("run", "cancel", run_id).line == f"run {run_id} of {name} is cancelled already"
    told = calls("run", "cancel", run_id, "--json").json
    assert (told["run"]["state"], told["changed"]) == ("cancelled", False)
    assert audited_since(desk, mark) == [("ann@here", "run cancel", f"run {run_id} of {name}", "wrong list")]
    done = run_with(jobs, calls, ["done"])
    end(jobs, done, "done")
    assert calls("run", "cancel", done).refusal == f"run {done} has ended already, as done"


def test_the_failed_tasks_of_a_run_are_tried_again_or_all(calls: Calls, jobs: Jobs, desk: Desk) -> None:
    run_id = run_with(jobs, calls, ["done", "failed", "failed"])
    assert f"run {run_id} is still open" in calls("run", "retry", run_id).refusal
    end(jobs, run_id, "done")
    mark = last_audit(desk)
    assert calls("run", "retry", run_id).line == f"run {run_id} tries 2 tasks again"
    assert [task.state for task in jobs.tasks(run_id)] == ["done", "pending", "pending"]
    end(jobs, run_id, "done")
    jobs.execute("UPDATE poolsql.tasks SET state = 'failed' WHERE run_id = :run AND state = 'pending'", run=run_id)
    assert calls("run", "retry", run_id, "--all", "--json").json == {"run": run_id, "tasks": 3, "left": {}}
    assert [entry[1] for entry in audited_since(desk, mark)] == ["run retry"] * 2


def test_what_is_never_retried_is_left_and_told(calls: Calls, jobs: Jobs) -> None:
    run_id = run_with(jobs, calls, ["failed", "failed", "failed"])
    jobs.execute(
        "UPDATE poolsql.tasks SET outcome = 'session_lost' "
        "WHERE id = (SELECT max(id) FROM poolsql.tasks WHERE run_id = :run)",
        run=run_id,
    )
    end(jobs, run_id, "failed")
    assert calls("run", "retry", run_id).out.splitlines() == [
        f"run {run_id} tries 2 tasks again",
        "left as they are, since they would end the same way: 1 session_lost",
    ]


@pytest.mark.parametrize("verb", ["show", "watch", "cancel", "retry"])
def test_a_run_that_does_not_exist(calls: Calls, desk: Desk, verb: str) -> None:
    mark = last_audit(desk)
    assert calls("run", verb, 2**40).refusal == f"there is no run {2**40}; see: poolsql run list"
    assert "Invalid value for 'ID'" in calls("run", verb, "0").refusal
    assert audited_since(desk, mark) == []


def test_runs_of_a_job_that_does_not_exist(calls: Calls) -> None:
    assert "there is no job 'x'" in calls("run", "list", "--job", "x").refusal
