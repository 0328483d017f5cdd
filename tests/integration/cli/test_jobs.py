"""``poolsql job``."""

from __future__ import annotations

import pytest

from poolsql.operations.runs import find_run
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls
from tests.integration.scheduling.jobs import Jobs

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_jobs_are_listed_with_their_next_instant_and_last_run(calls: Calls, jobs: Jobs) -> None:
    hourly, by_hand = jobs.define({"every": "1h"}), jobs.define()
    run_id = calls("job", "run", by_hand, "--json").json["run"]
    told = {row["name"]: row for row in calls("job", "list", "--json").json}
    assert 0 < told[hourly]["next_in"] <= 3600
    assert told[hourly]["next_at"].endswith("Z")
    assert (told[hourly]["last_run"], told[hourly]["pool"]) == (None, jobs.desk.pool.name)
    assert (told[by_hand]["schedule"], told[by_hand]["next_at"]) == (None, None)
    assert (told[by_hand]["last_run"], told[by_hand]["last_state"]) == (run_id, "due")
    heading, *rows = calls("job", "list").table
    (row,) = [dict(zip(heading, row, strict=True)) for row in rows if row[0] == by_hand]
    assert (row["LAST RUN"], row["ENDED AS"], row["SCHEDULE"]) == (str(run_id), "due", "-")


def test_a_job_is_fired_by_hand_and_audited(calls: Calls, jobs: Jobs, desk: Desk) -> None:
    name, mark = jobs.define(), last_audit(desk)
    line = calls("job", "run", name, "--reason", "try it").line
    (run,) = jobs.runs(name)
    assert line == f"run {run.id} of job {name} is due; to watch it: poolsql run watch {run.id}"
    assert find_run(desk.database, run.id).instant is None
    assert f"its run {run.id} is still open" in calls("job", "run", name).refusal
    assert audited_since(desk, mark) == [("ann@here", "job run", name, "try it")]


def test_a_job_is_paused_and_resumed_once_and_audited(calls: Calls, jobs: Jobs, desk: Desk) -> None:
    name, mark = jobs.define({"every": "1h"}), last_audit(desk)
    assert calls("job", "pause", name, "--reason", "site is down").line == f"job {name} is paused"
    assert calls("job", "pause", name).line == f"job {name} is paused already"
    (told,) = [row for row in calls("job", "list", "--json").json if row["name"] == name]
    assert (told["pause_reason"], told["next_at"]) == ("site is down", None)
    assert calls("job", "resume", name, "--json").json == {"job": name, "changed": True}
    assert calls("job", "resume", name).line == f"job {name} is not paused, so it fires already"
    assert audited_since(desk, mark) == [
        ("ann@here", "job pause", name, "site is down"),
        ("ann@here", "job resume", name, None),
    ]


@pytest.mark.parametrize("verb", ["run", "pause", "resume"])
def test_a_job_that_does_not_exist(calls: Calls, jobs: Jobs, desk: Desk, verb: str) -> None:
    name, mark = jobs.define(), last_audit(desk)
    assert f"did you mean {name}" in calls("job", verb, name[:-1]).refusal.replace("'", "")
    assert audited_since(desk, mark) == []
