"""Runs and their tasks as an operator sees them: listed, cancelled, tried again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, case, func, select, text, update
from sqlalchemy.exc import IntegrityError

from poolsql.database.engine import Database
from poolsql.database.tables import jobs, pools, profiles, runs, tasks
from poolsql.errors import BadInputError, ConflictError, UnknownNameError
from poolsql.leasing.audit import record
from poolsql.leasing.outcomes import RULES, Outcome, Retry
from poolsql.scheduling.upkeep import CANCEL_TASKS
from poolsql.scraping.states import RunState, TaskState
from poolsql.text import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run, with its tasks by state."""

    id: int
    name: str
    job: str | None
    pool: str
    state: RunState
    instant: datetime | None
    """The instant of its schedule; None: fired by hand."""
    detail: str | None
    created_at: datetime
    ended_at: datetime | None
    pending: int
    running: int
    done: int
    failed: int

    @property
    def total(self) -> int:
        """All its tasks."""
        return self.pending + self.running + self.done + self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A task of a run."""

    id: int
    url: str
    host: str
    state: TaskState
    tries: int
    outcome: str | None
    detail: str | None
    profile: str | None
    """Key of the profile that made its last visit."""
    seed: str | None
    parameters: Mapping[str, Any]
    result: Mapping[str, Any] | None
    not_before: datetime
    changed_at: datetime


NEVER_AGAIN = frozenset(
    outcome
    for outcome, rule in RULES.items()
    if rule.retry is Retry.NO and outcome not in {Outcome.SUCCESS, Outcome.CANCELLED}
)
"""Outcomes after which a task is not tried again (I12) unless a person wants all of them to be."""

BAD_TARGET = "bad_target"
"""Instead of an outcome: a task that failed before it could be tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retried:
    """What came of trying a run again."""

    tasks: int
    """Tasks that wait to be tried."""
    left: Mapping[str, int]
    """Failed tasks that stay as they are: how many by their outcome, or `BAD_TARGET`."""

    @property
    def told_left(self) -> str:
        """The same for people; empty: none."""
        return ", ".join(f"{number} {why}" for why, number in self.left.items())


def list_runs(
    database: Database, *, job: str | None = None, state: RunState | None = None, limit: int = 50
) -> list[RunRow]:
    """The newest runs first."""
    query = _runs().order_by(runs.c.id.desc()).limit(limit)
    if job is not None:
        query = query.where(jobs.c.name == clean_text(job))
    if state is not None:
        query = query.where(runs.c.state == state.value)
    with database.connect() as connection:
        return [_run(row) for row in connection.execute(query).mappings()]


def find_run(database: Database, run_id: int) -> RunRow:
    """Look a run up.

    Raises:
        UnknownNameError: There is no such run.
    """
    with database.connect() as connection:
        row = connection.execute(_runs().where(runs.c.id == run_id)).mappings().one_or_none()
    if row is None:
        raise UnknownNameError(f"there is no run {run_id}; see: poolsql run list")
    return _run(row)


def list_tasks(
    database: Database, run_id: int, *, state: TaskState | None = None, limit: int | None = None
) -> list[TaskRow]:
    """The tasks of a run, in the order of its targets."""
    query = _tasks().where(tasks.c.run_id == run_id).order_by(tasks.c.id).limit(limit)
    if state is not None:
        query = query.where(tasks.c.state == state.value)
    with database.connect() as connection:
        return [_task(row) for row in connection.execute(query).mappings()]


def cancel_run(database: Database, run_id: int, *, who: str, reason: str | None = None) -> RunRow:
    """End a run: what waits is not tried any more, what is being visited ends with its visit. Audited.

    Raises:
        UnknownNameError: There is no such run.
        ConflictError: It has ended already.
    """
    run = find_run(database, run_id)
    with database.transaction() as connection:
        ended = connection.execute(
            update(runs)
            .where(runs.c.id == run_id, runs.c.ended_at.is_(None))
            .values(state=RunState.CANCELLED.value, ended_at=func.clock_timestamp(), detail=_told("cancelled", reason))
        ).rowcount
        if not ended:
            raise ConflictError(f"run {run_id} has ended already, as {run.state}")
        record(connection, who=who, action="run cancel", subject=f"run {run_id} of {run.name}", reason=reason)
    database.run(CANCEL_TASKS, {})
    return find_run(database, run_id)


def retry_run(
    database: Database, run_id: int, *, who: str, only_failed: bool = True, reason: str | None = None
) -> Retried:
    """Open a run again and try its tasks anew: those that failed and may be tried again, or all. Audited.

    Tasks keep the profile and seed that their targets name. What is never retried by itself (I12: a login that is
    gone; a page that is not there or that robots.txt forbids) is left; what a person cancelled is not. With
    `only_failed` off these are tried too, and results of the first time are overwritten as the tasks end. A target
    that could not be visited at all, such as one that names no known profile, is left in any case.

    Raises:
        UnknownNameError: There is no such run.
        BadInputError: It was created by a program of its own and not by a job, or no task of it can be tried again.
        ConflictError: It is still open, or another run of its job is and must not overlap.
    """
    run = find_run(database, run_id)
    now = func.clock_timestamp()
    of_run = tasks.c.run_id == run_id
    final = tasks.c.outcome.in_([outcome.value for outcome in NEVER_AGAIN])
    # As `prepare_runs` writes them: no other task fails before its first try without a profile to blame for it.
    failed = tasks.c.state == TaskState.FAILED.value
    untried = (tasks.c.tries == 0) & tasks.c.profile_id.is_(None)
    bad = failed & untried & (tasks.c.outcome == Outcome.TASK_FAILED.value)
    unfit = func.coalesce(bad | final if only_failed else bad, False)
    wanted = failed if only_failed else failed | (tasks.c.state == TaskState.DONE.value)
    left = (
        select(case((bad, BAD_TARGET), else_=tasks.c.outcome).label("why"), func.count().label("number"))
        .where(of_run, failed, unfit)
        .group_by("why")
        .order_by("why")
    )
    with database.transaction() as connection:
        _open_again(connection, run, detail=_told("tried again", reason))
        retried = Retried(
            left={row.why: row.number for row in connection.execute(left)},
            tasks=connection.execute(
                update(tasks)
                .where(of_run, wanted, ~unfit)
                .values(state=TaskState.PENDING.value, tries=0, not_before=now, changed_at=now)
            ).rowcount,
        )
        if not retried.tasks:
            raise _nothing_to_try(run, retried, only_failed=only_failed)
        record(connection, who=who, action="run retry", subject=f"run {run_id} of {run.name}", reason=reason)
    return retried


def _open_again(connection: Connection, run: RunRow, *, detail: str) -> None:
    statement = (
        update(runs)
        .where(runs.c.id == run.id, runs.c.ended_at.is_not(None), runs.c.definition.is_not(None))
        .values(state=RunState.RUNNING.value, ended_at=None, detail=detail)
    )
    try:
        opened = connection.execute(statement).rowcount
    except IntegrityError as error:
        raise ConflictError(
            f"run {run.id}: another run of job {run.job} is open; wait for it, or cancel it: poolsql run list --job "
            f"{run.job}"
        ) from error
    if opened:
        return
    if run.state.open:
        raise ConflictError(f"run {run.id} is still open; it tries its tasks again by itself")
    if run.state is RunState.SKIPPED:
        raise BadInputError(f"run {run.id} was skipped and has no tasks; {_fire(run)}")
    raise BadInputError(f"run {run.id} was made by a program of its own, which has to try again")


def _nothing_to_try(run: RunRow, retried: Retried, *, only_failed: bool) -> BadInputError:
    if not run.total:
        why = f" ({run.detail})" if run.state is RunState.FAILED and run.detail else ""
        return BadInputError(f"run {run.id} is {run.state} without any task{why}; {_fire(run)}")
    if not retried.left:
        return BadInputError(f"run {run.id}: no task has failed; nothing to try")
    remedy = (
        _fire(run) if not only_failed or set(retried.left) == {BAD_TARGET} else "--all tries all tasks all the same"
    )
    return BadInputError(f"run {run.id}: what failed is not tried again: {retried.told_left}; {remedy}")


def _fire(run: RunRow) -> str:
    return f"to fire its job again: poolsql job run {run.job}"


def _told(what: str, reason: str | None) -> str:
    return f"{what}: {clean_text(reason)}" if reason else what


def _runs() -> Select[Any]:
    def counted(state: TaskState) -> Any:
        return func.count(tasks.c.id).filter(tasks.c.state == state.value)

    counts = (
        select(*(counted(state).label(state.value) for state in TaskState))
        .where(tasks.c.run_id == runs.c.id)
        .lateral("counts")
    )
    columns = ("id", "name", "state", "instant", "detail", "created_at", "ended_at")
    return (
        select(
            *(runs.c[name] for name in columns),
            jobs.c.name.label("job"),
            pools.c.name.label("pool"),
            *(counts.c[state.value] for state in TaskState),
        )
        .join(pools, pools.c.id == runs.c.pool_id)
        .outerjoin(jobs, jobs.c.id == runs.c.job_id)
        .join(counts, text("true"))
    )


def _run(row: RowMapping) -> RunRow:
    return RunRow(**{**dict(row), "state": RunState(row["state"])})


def _tasks() -> Select[Any]:
    columns = ("id", "url", "host", "state", "tries", "outcome", "detail")
    more = ("parameters", "result", "not_before", "changed_at")
    seed = func.coalesce(tasks.c.visited_seed, tasks.c.seed).label("seed")
    return select(*(tasks.c[name] for name in (*columns, *more)), profiles.c.key.label("profile"), seed).outerjoin(
        profiles, profiles.c.id == func.coalesce(tasks.c.visited_by, tasks.c.profile_id)
    )


def _task(row: RowMapping) -> TaskRow:
    return TaskRow(**{**dict(row), "state": TaskState(row["state"])})
