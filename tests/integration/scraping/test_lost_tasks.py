"""Tasks whose workers are gone come back, once and never under a live lease."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import Visit
from poolsql.scraping import tasks
from poolsql.scraping.retries import MOST_TRIES
from poolsql.scraping.tasks import ATTACH_LEASE, CLAIM_TASK, FINISH_TASK, RETURN_TASKS
from tests.fixtures.fleets import Desk
from tests.integration.scraping.runs import NewDesk, new_run, unique_host


def test_a_task_whose_worker_died_before_its_lease_comes_back_when_the_claim_is_over(desk: Desk) -> None:
    run = new_run(desk)
    task = run.claimed()
    assert (run.return_orphans(), run.claim()) == (0, None)
    run.end_claim(task)
    assert run.return_orphans() == 1
    again = run.claimed()
    assert (again.id, again.tries) == (task.id, 0)
    assert not tasks.attach_lease(desk.database, task, desk.lease()), "the first claim is over"


def test_claims_go_on_while_their_worker_lives(desk: Desk) -> None:
    run = new_run(desk, count=3)
    kept, taken, done = run.claimed(seconds=30), run.claimed(seconds=30), run.claimed(seconds=30)
    tasks.put_back(desk.database, done, ends=True)
    run.end_claim(taken)
    assert run.return_orphans() == 1
    new = run.claimed(seconds=30)
    assert new.id == taken.id
    before = [run.row(task) for task in (new, done)]
    tasks.keep_claims(desk.database, [kept, taken, done], seconds=500)
    assert (run.row(kept).claimed_until - run.now()).total_seconds() == pytest.approx(500, abs=20)
    assert [run.row(task) for task in (new, done)] == before, "a claim that was over was prolonged for its old worker"
    lease = desk.lease()
    assert not tasks.attach_lease(desk.database, taken, lease)
    assert tasks.attach_lease(desk.database, kept, lease), "the claim has another name now"
    tasks.keep_claims(desk.database, [kept], seconds=500)
    assert run.row(kept).claimed_until is None


def test_a_late_worker_may_still_attach_while_nobody_else_has_the_task(desk: Desk) -> None:
    run = new_run(desk)
    task = run.claimed(seconds=0.0)
    assert tasks.attach_lease(desk.database, task, desk.lease())
    assert run.return_orphans() == 0


def test_a_task_never_comes_back_while_its_lease_is_live(desk: Desk) -> None:
    run = new_run(desk)
    task, lease = run.attached()
    assert run.return_orphans() == 0
    desk.execute("UPDATE poolsql.leases SET state = 'reclaiming' WHERE id = :id", id=lease.id)
    assert run.return_orphans() == 0, "its browser may still be at it"
    assert run.row(task).state == "running"


@pytest.mark.parametrize("browser", [True, False])
def test_a_task_comes_back_when_its_lease_has_ended(desk: Desk, browser: bool) -> None:
    run = new_run(desk)
    task = run.claimed()
    granted = desk.granted()
    assert tasks.attach_lease(desk.database, task, desk.hold(granted))
    if browser:
        desk.start_browser(granted)
    desk.reap(granted.lease_id)
    assert run.return_orphans() == 1
    row = run.row(task)
    assert (row.state, row.outcome, row.lease_id, row.tries) == ("pending", "lease_expired", None, 1)
    assert run.return_orphans() == 0
    assert run.claimed().tries == 1


def test_a_task_that_kills_its_workers_ends_after_so_many_tries(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=1)
    run = new_run(desk)
    desk.execute("UPDATE poolsql.tasks SET tries = :tries WHERE run_id = :run", tries=MOST_TRIES - 2, run=run.id)
    for state in ("pending", "failed"):
        task, lease = run.attached()
        desk.reap(lease.id)
        assert run.return_orphans() == 1
        assert run.row(task).state == state
        desk.free_all()
    assert (run.row(task).outcome, run.progress().over) == ("lease_expired", True)


def test_two_may_return_the_same_orphans(desk: Desk, threads: ThreadPoolExecutor) -> None:
    run = new_run(desk, count=20)
    for _ in range(20):
        run.end_claim(run.claimed())
    start = Barrier(6)

    def return_all() -> int:
        start.wait()
        return run.return_orphans()

    assert sum(future.result() for future in [threads.submit(return_all) for _ in range(6)]) == 20
    assert {row.state for row in run.rows()} == {"pending"}


def test_a_claim_that_gets_its_lease_meanwhile_is_not_returned(desk: Desk, threads: ThreadPoolExecutor) -> None:
    """The snapshot of the return sees a claim that is over; before it gets the row, a lease is attached to it."""
    run = new_run(desk)
    task = run.claimed()
    run.end_claim(task)
    task = replace(task, claimed_until=run.row(task).claimed_until)
    lease = desk.lease()
    with desk.opened() as worker:
        attach = {"lease_id": lease.id, "task_id": task.id, "claimed_until": task.claimed_until}
        assert worker.run(ATTACH_LEASE, attach)
        returning = threads.submit(run.return_orphans)
        desk.wait_until_blocked()
        worker.commit()
        assert returning.result() == 0
    assert (run.row(task).state, run.row(task).lease_id) == ("running", lease.id)


def test_a_task_that_is_returned_and_taken_anew_meanwhile_is_not_returned_again(
    new_desk: NewDesk, threads: ThreadPoolExecutor
) -> None:
    """The snapshot of the second return sees the first lease ended; by its turn the task is under a second one."""
    desk = new_desk(profiles=2)
    run = new_run(desk)
    task, first = run.attached()
    desk.reap(first.id)
    second = desk.lease()
    with desk.opened() as other:
        assert other.run(RETURN_TASKS, {"run_id": run.id, "most_tries": MOST_TRIES})
        (claim,) = other.run(CLAIM_TASK, {"run_id": run.id, "seconds": 60.0, "lead": 0.0, "at_once": None})
        attach = {"lease_id": second.id, "task_id": claim.id, "claimed_until": claim.claimed_until}
        assert other.run(ATTACH_LEASE, attach)
        returning = threads.submit(run.return_orphans)
        desk.wait_until_blocked()
        other.commit()
        assert returning.result() == 0
    assert (run.row(task).state, run.row(task).lease_id) == ("running", second.id)


def test_a_result_that_is_being_written_wins_over_the_return(desk: Desk, threads: ThreadPoolExecutor) -> None:
    run = new_run(desk)
    task, lease = run.attached()
    with desk.opened() as worker:
        visit = Visit(outcome=Outcome.SUCCESS, task_id=task.id)
        values = {
            **visit.parameters(), "lease_id": lease.id, "token": lease.name.token, "number": 0,
            "task_state": "done", "delay": 0.0, "same_profile": False, "result": None, "seed": None,
        }  # fmt: skip
        assert worker.run(FINISH_TASK, values)
        assert run.return_orphans() == 0, "the task's lease is live, so its row is not even waited for"
        worker.commit()
    assert run.row(task).state == "done"


def test_workers_that_die_anywhere_lose_no_task(new_desk: NewDesk, threads: ThreadPoolExecutor) -> None:
    """Six workers, each of which gives up at a random place, until all is done: one result a task, in any order."""
    desk = new_desk(profiles=4, lost_cooldown=0, rest=0)
    run = new_run(desk, hosts=[unique_host() for _ in range(2)], count=15)

    def work(number: int) -> None:
        turn = number
        while not run.progress().over:
            turn += 1
            run.return_orphans()
            task = run.claim(seconds=0.05 if turn % 5 == 0 else 60)
            if task is None or turn % 5 == 0:  # dies with the claim
                continue
            granted = desk.grant(host=task.host)
            if granted is None:
                tasks.put_back(desk.database, task)
                continue
            lease = desk.hold(granted)
            if not tasks.attach_lease(desk.database, task, lease):
                lease.release(Outcome.CANCELLED)
                continue
            if turn % 7 == 0:  # dies with the lease
                desk.reap(lease.id)
                continue
            run.finish(task, lease, Outcome.SUCCESS, result={"by": number})
            lease.release()

    for future in [threads.submit(work, number) for number in range(6)]:
        future.result(timeout=60)
    assert {row.state for row in run.rows()} == {"done"}
    results = desk.all(
        "SELECT task_id, count(*) FILTER (WHERE outcome = 'success') AS results FROM poolsql.visits "
        "WHERE task_id = ANY (:ids) GROUP BY task_id",
        ids=[row.id for row in run.rows()],
    )
    assert {row.results for row in results} == {1}
    assert len(results) == 30
