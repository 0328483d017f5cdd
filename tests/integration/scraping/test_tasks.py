"""The task queue in a real Postgres: claims, results, and what stays where it is."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest

from poolsql.database.engine import Database
from poolsql.errors import LeaseLostError
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import Visit
from poolsql.scraping import tasks
from poolsql.scraping.retries import Next
from poolsql.scraping.states import TaskState
from poolsql.scraping.tasks import ATTACH_LEASE, CLAIM_TASK, FINISH_TASK, PUT_TASK_BACK
from poolsql.targets import parse_target
from tests.fixtures.fleets import Desk, FaultyDatabase
from tests.integration.scraping.runs import NewDesk, new_run, unique_host

# ---------------------------------------------------------------------------------------------------------------------
# Claiming


def test_each_task_is_claimed_once_by_racing_threads(desk: Desk, threads: ThreadPoolExecutor) -> None:
    run = new_run(desk, hosts=[unique_host() for _ in range(3)], count=40)
    start = Barrier(8)

    def claim_all() -> list[int]:
        start.wait()
        claimed = []
        while (task := run.claim()) is not None:
            claimed.append(task.id)
        return claimed

    claims = [future.result() for future in [threads.submit(claim_all) for _ in range(8)]]
    assert Counter(number for each in claims for number in each) == {row.id: 1 for row in run.rows()}
    assert sum(bool(each) for each in claims) > 1, "only one thread claimed anything, so nothing raced"


_CLAIM_ALL = """
import sys
from sqlalchemy.engine import make_url
from poolsql.database.engine import Database
from poolsql.scraping.tasks import claim_task
from poolsql.settings import load_settings
database = Database(make_url(sys.argv[1]), load_settings(machine="here"))
print("ready", flush=True)
sys.stdin.readline()
while (task := claim_task(database, int(sys.argv[2]), seconds=60)) is not None:
    print(task.id)
database.close()
"""


def test_each_task_is_claimed_once_by_racing_processes(desk: Desk) -> None:
    run = new_run(desk, count=60)
    address = desk.database.url.render_as_string(hide_password=False)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _CLAIM_ALL, address, str(run.id)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=30)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    claimed = Counter(int(line) for output in outputs for line in output.split())
    assert claimed == {row.id: 1 for row in run.rows()}


def test_tasks_come_in_order_and_not_before_their_time(desk: Desk) -> None:
    run = new_run(desk, count=3)
    first, second, third = (row.id for row in run.rows())
    desk.execute("UPDATE poolsql.tasks SET not_before = clock_timestamp() + interval '1 hour' WHERE id = :id", id=first)
    assert [run.claimed().id, run.claimed().id] == [second, third]
    assert run.claim() is None
    assert run.progress().next_in == pytest.approx(3600, abs=60)


def test_a_claim_takes_nothing_of_another_run(desk: Desk) -> None:
    new_run(desk)
    assert new_run(desk, count=0).claim() is None


def test_run_with_the_same_page_twice_has_two_tasks(desk: Desk) -> None:
    target = parse_target("https://shop.test/")
    run_id = tasks.create_run(desk.database, "twice", desk.pool.id, [target, target])
    assert tasks.run_progress(desk.database, run_id).total == 2


# ---------------------------------------------------------------------------------------------------------------------
# Tasks that must stay where they are (I12), and those that could only wait


@pytest.mark.parametrize("how", ["paused", "stopped"])
def test_tasks_of_a_host_that_wants_none_stay_and_others_go_on(desk: Desk, how: str) -> None:
    closed, opened = unique_host(), unique_host()
    run = new_run(desk, hosts=[closed, opened], count=2)
    if how == "paused":
        run.pause_host(closed, seconds=100)
    else:
        run.stop_host(closed)
    assert {run.claimed().host, run.claimed().host} == {opened}
    assert run.claim() is None
    progress = run.progress()
    assert (progress.pending, progress.over) == (2, False)
    if how == "paused":
        assert progress.next_in == pytest.approx(100, abs=20)
        run.pause_host(closed, seconds=-1)
    else:
        assert progress.next_in is None
        run.stop_host(closed, stopped=False)
    assert run.claimed().host == closed


def test_a_pause_outlasts_the_delay_of_a_task_and_the_delay_outlasts_a_pause(desk: Desk) -> None:
    host = unique_host()
    run = new_run(desk, hosts=[host])
    run.pause_host(host, seconds=500)
    assert run.progress().next_in == pytest.approx(500, abs=60)
    desk.execute(
        "UPDATE poolsql.tasks SET not_before = clock_timestamp() + interval '1 hour' WHERE run_id = :run", run=run.id
    )
    assert run.progress().next_in == pytest.approx(3600, abs=60)


def test_a_host_whose_slots_are_taken_does_not_bind_workers(desk: Desk) -> None:
    busy, idle = unique_host(), unique_host()
    run = new_run(desk, hosts=[busy, idle], count=1)
    desk.execute(
        "INSERT INTO poolsql.hosts (name, next_slot_at) VALUES (:name, clock_timestamp() + interval '1 minute')",
        name=busy,
    )
    assert run.claimed().host == idle
    assert run.claim() is None
    assert run.progress().next_in == pytest.approx(60 - tasks.LEAD, abs=20)
    desk.execute(
        "UPDATE poolsql.hosts SET next_slot_at = clock_timestamp() + interval '1 second' WHERE name = :name", name=busy
    )
    assert run.claimed().host == busy


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.CAPTCHA])
def test_after_a_block_only_the_same_profile_may_try_again(new_desk: NewDesk, outcome: Outcome) -> None:
    desk = new_desk(profiles=2)
    run = new_run(desk, count=1)
    task, lease = run.attached()
    run.finish(task, lease, outcome)
    lease.release()
    row = run.row(task)
    assert (row.state, row.outcome, row.profile_id) == ("pending", outcome, lease.profile.id)

    assert run.claim() is None, "the host is paused"
    run.pause_host(task.host, seconds=-1)
    assert run.claim() is None, "the profile still cools on this host, and whoever took the task could only wait"
    assert (run.progress().next_in or 0) > 60
    desk.execute("UPDATE poolsql.cooldowns SET until = clock_timestamp() WHERE profile_id = :id", id=lease.profile.id)
    again = run.claimed()
    assert (again.id, again.tries, again.profile_id) == (task.id, 1, lease.profile.id)


def test_the_binding_outlives_a_worker_that_dies_later(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    run = new_run(desk)
    task = run.tried(Outcome.BLOCKED)
    bound = run.row(task).profile_id
    run.pause_host(task.host, seconds=-1)
    desk.execute("DELETE FROM poolsql.cooldowns")
    _, lease = run.attached(profile_id=bound)
    desk.reap(lease.id)
    assert run.return_orphans() == 1
    assert run.claimed().profile_id == bound


def test_a_limit_binds_the_task_to_no_profile(desk: Desk) -> None:
    run = new_run(desk)
    task = run.tried(Outcome.RATE_LIMITED)
    assert (run.row(task).state, run.row(task).profile_id) == ("pending", None)
    assert run.claim() is None, "the host is paused"


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.CAPTCHA])
@pytest.mark.parametrize("action", ["retire", "pause"])
def test_a_task_ends_as_it_was_when_its_profile_will_not_come(desk: Desk, outcome: Outcome, action: str) -> None:
    run = new_run(desk, count=2)
    task = run.tried(outcome)
    state = {"retire": "retired", "pause": "paused"}[action]
    assert run.return_orphans() == 0
    desk.execute("UPDATE poolsql.profiles SET state = :state WHERE id = :id", state=state, id=desk.only)
    assert run.return_orphans() == 1
    row = run.row(task)
    assert (row.state, row.outcome) == ("failed", outcome)
    assert state in row.detail
    progress = run.progress()
    assert (progress.pending, progress.failed) == (1, 1), "a task that is bound to nobody stays"


@pytest.mark.parametrize("outcome", [Outcome.SESSION_LOST, Outcome.NOT_FOUND])
def test_what_is_never_retried_ends_at_once(desk: Desk, outcome: Outcome) -> None:
    run = new_run(desk)
    task = run.tried(outcome)
    assert (run.row(task).state, run.progress().over) == ("failed", True)


def test_a_failing_task_comes_later_each_time_and_then_ends(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=1)
    run = new_run(desk, retries=2, delay=100.0)
    waits = []
    for _ in range(3):
        task = run.tried(Outcome.TASK_FAILED)
        row = run.row(task)
        waits.append((row.state, (row.not_before - row.changed_at).total_seconds()))
        assert run.claim() is None
        run.due_now()
    assert waits == [
        ("pending", pytest.approx(100, abs=1)),
        ("pending", pytest.approx(200, abs=1)),
        ("failed", pytest.approx(0, abs=1)),
    ]
    assert (row.tries, row.outcome) == (3, Outcome.TASK_FAILED)
    assert run.claim() is None


# ---------------------------------------------------------------------------------------------------------------------
# Results: with their visit or not at all, under a live lease only (I2)


def test_result_and_visit_are_written_together(desk: Desk) -> None:
    run = new_run(desk)
    task, lease = run.attached()
    run.finish(task, lease, Outcome.SUCCESS, result={"title": "Ö"})
    row = run.row(task)
    assert (row.state, row.outcome, row.result, row.lease_id, row.tries) == (
        "done", "success", {"title": "Ö"}, None, 1,
    )  # fmt: skip
    (visit,) = run.visits(task)
    assert (visit.lease_id, visit.outcome, visit.url, visit.profile_id) == (lease.id, "success", task.url, desk.only)
    assert run.progress().over


def test_a_result_that_cannot_be_stored_leaves_no_visit(desk: Desk) -> None:
    run = new_run(desk)
    task, lease = run.attached()
    visit = Visit(outcome=Outcome.SUCCESS, task_id=task.id)
    bad = Next(TaskState.DONE, delay=float("inf"))
    with pytest.raises(Exception, match=r"interval|range|infin"):
        tasks.finish_task(lease, task, visit, result={}, then=bad)
    assert (run.row(task).state, run.visits(task)) == ("running", [])
    run.finish(task, lease, Outcome.SUCCESS, result={})
    assert len(run.visits(task)) == 1


@pytest.mark.parametrize("how", ["expired", "released", "reclaiming", "foreign token"])
def test_a_late_result_is_refused_recorded_and_changes_nothing(desk: Desk, how: str) -> None:
    run = new_run(desk)
    task, lease = run.attached()
    if how == "expired":
        desk.reap(lease.id)
    elif how == "released":
        lease.release(Outcome.CANCELLED)
    elif how == "reclaiming":
        desk.execute("UPDATE poolsql.leases SET state = 'reclaiming' WHERE id = :id", id=lease.id)
    else:
        desk.execute("UPDATE poolsql.leases SET token = gen_random_uuid() WHERE id = :id", id=lease.id)
    before, task_before = desk.picture(), run.row(task)
    with pytest.raises(Exception, match=r"refused|no lease") as raised:
        run.finish(task, lease, Outcome.SUCCESS, result={"late": True})
    assert desk.picture() == before
    assert run.row(task) == task_before
    if how != "foreign token":
        assert raised.type is LeaseLostError
        assert [(late.kind, late.outcome) for late in desk.refused(lease.id)] == [("visit", "success")]


def test_a_late_result_does_not_touch_the_task_of_its_next_holder(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    run = new_run(desk)
    task, first = run.attached()
    desk.reap(first.id)
    assert run.return_orphans() == 1
    again, second = run.attached()
    assert again.id == task.id
    with pytest.raises(LeaseLostError):
        run.finish(task, first, Outcome.SUCCESS, result={"by": "first"})
    run.finish(again, second, Outcome.SUCCESS, result={"by": "second"})
    assert run.row(task).result == {"by": "second"}
    assert [visit.outcome for visit in run.visits(task)] == ["success"]


def test_a_result_is_written_once_when_the_answer_is_lost(desk: Desk, faulty: FaultyDatabase) -> None:
    run = new_run(desk)
    task = run.claimed()
    lease = desk.hold(desk.granted(), database=faulty)
    assert tasks.attach_lease(faulty, task, lease)
    faulty.lose_answer_of(FINISH_TASK, times=2)
    run.finish(task, lease, Outcome.SUCCESS, result={"once": 1})
    assert faulty.ran.count(FINISH_TASK) == 3
    assert [visit.outcome for visit in run.visits(task)] == ["success"]
    assert (run.row(task).state, run.row(task).result) == ("done", {"once": 1})
    assert desk.refused(lease.id) == []


def test_a_lost_answer_does_not_lose_the_attached_lease(desk: Desk, faulty: FaultyDatabase) -> None:
    run = new_run(desk)
    task = run.claimed()
    lease = desk.lease()
    faulty.lose_answer_of(ATTACH_LEASE, times=2)
    assert tasks.attach_lease(faulty, task, lease)
    assert run.row(task).tries == 1
    run.finish(task, lease, Outcome.SUCCESS, result={})
    assert run.row(task).state == "done"


def test_a_task_that_was_put_back_is_not_put_back_twice(desk: Desk, faulty: FaultyDatabase) -> None:
    run = new_run(desk)
    task = run.claimed()
    faulty.lose_answer_of(PUT_TASK_BACK)
    tasks.put_back(faulty, task, tried=True, outcome=Outcome.LAUNCH_FAILED, detail="no\0 browser")
    row = run.row(task)
    assert (row.state, row.tries, row.outcome, row.detail) == ("pending", 1, "launch_failed", "no\ufffd browser")
    again = run.claimed()
    tasks.put_back(run.database, task, tried=True)
    assert (run.row(task).state, run.row(task).tries) == ("running", 1), "an old claim gave up somebody else's"
    tasks.put_back(run.database, again, ends=True, outcome=Outcome.ROBOTS_DISALLOWED)
    assert (run.row(task).state, run.row(task).outcome) == ("failed", "robots_disallowed")


def test_a_claim_whose_answer_was_lost_comes_back(desk: Desk, faulty: FaultyDatabase) -> None:
    run = new_run(desk, count=1)
    faulty.lose_answer_of(CLAIM_TASK)
    assert run.claim(database=faulty) is None, "the repetition finds nothing left"
    (row,) = run.rows()
    desk.execute("UPDATE poolsql.tasks SET claimed_until = clock_timestamp() WHERE id = :id", id=row.id)
    assert run.return_orphans() == 1
    assert run.claimed().tries == 0


def test_the_statements_say_what_they_do_when_the_database_ends_them(desk: Desk) -> None:
    """Every connection of ours is cut: the next statement opens another, and nothing is claimed twice."""
    run = new_run(desk, count=5)
    claimed = []
    for _ in range(5):
        desk.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        claimed.append(run.claimed().id)
    assert sorted(claimed) == [row.id for row in run.rows()]


def test_progress_of_an_unknown_run_is_empty(database: Database) -> None:
    progress = tasks.run_progress(database, 2**40)
    assert (progress.total, progress.over, progress.next_in) == (0, True, None)


def test_delays_are_kept_to_the_microsecond(desk: Desk) -> None:
    run = new_run(desk)
    task = run.claimed()
    tasks.put_back(run.database, task, delay=0.25)
    row = run.row(task)
    assert timedelta(0) <= timedelta(seconds=0.25) - (row.not_before - row.changed_at) < timedelta(seconds=0.2)


def test_a_run_says_for_which_hosts_it_waits(desk: Desk) -> None:
    stopped, paused, free = (unique_host() for _ in range(3))
    run = new_run(desk, hosts=[stopped, paused, free])
    assert tasks.note_waiting(run.database, run.id) is None
    run.stop_host(stopped)
    run.pause_host(paused, seconds=600)
    told = tasks.note_waiting(run.database, run.id)
    assert told is not None
    assert f"host {stopped} is stopped" in told
    assert f"host {paused} is paused until 2" in told
    assert free not in told
    assert tasks.note_waiting(run.database, run.id) is None, "it is news once"
    (row,) = desk.all("SELECT detail FROM poolsql.runs WHERE id = :id", id=run.id)
    assert row.detail == told
