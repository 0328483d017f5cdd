"""The tasks of a run: claimed by any worker, finished once, returned when their worker is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb
from sqlalchemy import insert

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.database.tables import runs, tasks
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.parts import VISIT
from poolsql.leasing.reports import Visit, cleaned
from poolsql.scraping.retries import MOST_TRIES, Next
from poolsql.scraping.states import RunState, TaskState
from poolsql.targets import Target

_HERE = "poolsql.scraping"
CLAIM_TASK = Statement.load(_HERE, "claim_task")
KEEP_CLAIMS = Statement.load(_HERE, "keep_claims")
ATTACH_LEASE = Statement.load(_HERE, "attach_lease")
FINISH_TASK = Statement.load("poolsql.leasing", "record_visit", *VISIT, end=(_HERE, "finish_task"))
PUT_TASK_BACK = Statement.load(_HERE, "put_task_back")
RETURN_TASKS = Statement.load(_HERE, "return_tasks")
END_UNSERVABLE = Statement.load(_HERE, "end_unservable")
RUN_PROGRESS = Statement.load(_HERE, "run_progress")
NOTE_WAITING = Statement.load(_HERE, "note_waiting")
END_RUNS = Statement.load(_HERE, "end_runs")

LEAD = 3.0
"""Seconds before a host's next slot at which its tasks may be claimed: the browser starts meanwhile."""


@dataclass(slots=True)
class Task:
    """A claimed task; `keep_claims` moves the end of its claim."""

    id: int
    url: str
    host: str
    tries: int
    """How often it was tried before."""
    profile_id: int | None
    """Only this profile may try it: its target says so, or its last outcome (I12)."""
    seed: str | None
    parameters: Mapping[str, Any]
    """What its target says besides, for the handler."""
    claimed_until: datetime
    """Until then nobody else takes it; also names this very claim."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    pending: int
    running: int
    done: int
    failed: int
    ended: bool
    """The run was closed: nothing of it is tried any more, whatever is left."""
    next_in: float | None
    """Seconds until the next waiting task may be tried; None when none waits or their host is stopped."""

    @property
    def over(self) -> bool:
        """Whether nothing is left to try."""
        return self.ended or (not self.pending and not self.running)

    @property
    def total(self) -> int:
        """All tasks."""
        return self.pending + self.running + self.done + self.failed


def create_run(database: Database, name: str, pool_id: int, targets: Iterable[Target]) -> int:
    """Create a run with a task for each target; returns its id."""
    rows = [{"url": target.url, "host": target.host} for target in targets]
    with database.transaction() as connection:
        run_id = connection.execute(insert(runs).values(name=name, pool_id=pool_id).returning(runs.c.id)).scalar_one()
        if rows:
            connection.execute(insert(tasks), [{"run_id": run_id, **row} for row in rows])
    return int(run_id)


def claim_task(database: Database, run_id: int, *, seconds: float, at_once: int | None = None) -> Task | None:
    """Take the next task that may be tried now, for `seconds` or until a lease is attached to it.

    Args:
        at_once: How many tasks of the run may be worked on by all workers together; claims of the same moment can
            exceed it. None: any number.
    """
    rows = database.run(CLAIM_TASK, {"run_id": run_id, "seconds": seconds, "lead": LEAD, "at_once": at_once})
    return Task(**rows[0]._asdict()) if rows else None


def keep_claims(database: Database, claimed: Sequence[Task], *, seconds: float) -> None:
    """Let the claims of tasks last for `seconds` from now; those that were over and taken by others are left so."""
    parameters = {
        "task_ids": [task.id for task in claimed],
        "claims": [task.claimed_until for task in claimed],
        "seconds": seconds,
    }
    kept = {row.id: row.claimed_until for row in database.run(KEEP_CLAIMS, parameters)}
    for task in claimed:
        task.claimed_until = kept.get(task.id, task.claimed_until)


def attach_lease(database: Database, task: Task, lease: Lease) -> bool:
    """Go on under a lease; False when the claim was over and somebody else may have the task."""
    parameters = {"lease_id": lease.id, "task_id": task.id, "claimed_until": task.claimed_until}
    return bool(database.run(ATTACH_LEASE, parameters))


def note_waiting(database: Database, run_id: int) -> str | None:
    """Write on the run for which paused or stopped hosts its tasks wait; returns it when it is news."""
    rows = database.run(NOTE_WAITING, {"run_id": run_id})
    return str(rows[0].detail) if rows else None


def end_runs(database: Database, *, run_id: int | None = None) -> list[tuple[int, RunState]]:
    """Close the runs that have nothing left to do, or one of them; returns their ids and how they ended."""
    return [(row.id, RunState(row.state)) for row in database.run(END_RUNS, {"run_id": run_id})]


def finish_task(lease: Lease, task: Task, visit: Visit, *, result: Mapping[str, Any] | None, then: Next) -> None:
    """Write a visit and its task's result under the lease's id and token: both, or none.

    Raises:
        LeaseLostError: The lease is not live; nothing was applied, the report is recorded as refused.
    """
    more = {
        "task_state": then.state.value,
        "delay": then.delay,
        "same_profile": then.same_profile,
        "result": Jsonb(result) if result is not None else None,
        "seed": task.seed if task.seed is not None else lease.profile.seed,
    }
    lease.record(visit, statement=FINISH_TASK, more=more)


def put_back(
    database: Database,
    task: Task,
    *,
    delay: float = 0.0,
    tried: bool = False,
    outcome: Outcome | None = None,
    ends: bool = False,
    detail: str | None = None,
) -> None:
    """Give up a claimed task without a visit.

    Args:
        delay: Seconds before it may be taken again.
        tried: It counts as a try all the same.
        outcome: How that try ended; default: the task's outcome stays what it was.
        ends: It ends here, as failed, instead.
        detail: Why, in words.
    """
    parameters = {
        "task_id": task.id,
        "claimed_until": task.claimed_until,
        "tried": tried,
        "task_state": (TaskState.FAILED if ends else TaskState.PENDING).value,
        "outcome": outcome.value if outcome is not None else None,
        "detail": cleaned(detail),
        "delay": delay,
    }
    database.run(PUT_TASK_BACK, parameters)


def return_orphans(database: Database, run_id: int) -> int:
    """Make tasks of workers that are gone available again, and end those that wait for a profile that is gone."""
    returned = database.run(RETURN_TASKS, {"run_id": run_id, "most_tries": MOST_TRIES})
    ended = database.run(END_UNSERVABLE, {"run_id": run_id})
    return len(returned) + len(ended)


def run_progress(database: Database, run_id: int) -> Progress:
    """How far a run is."""
    return Progress(**database.run(RUN_PROGRESS, {"run_id": run_id, "lead": LEAD})[0]._asdict())
