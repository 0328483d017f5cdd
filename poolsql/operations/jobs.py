"""Jobs as an operator sees and changes them: listed, paused, resumed, and fired by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from poolsql.database.engine import Database
from poolsql.database.tables import jobs, pools, runs
from poolsql.errors import ConflictError
from poolsql.leasing.audit import record
from poolsql.operations.names import unknown_name
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.schedules import Schedule, schedule_from_json
from poolsql.scraping.states import RunState
from poolsql.text import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as the database knows it."""

    id: int
    name: str
    pool_id: int
    pool: str
    schedule: Schedule | None
    definition: Mapping[str, Any]
    overlap: bool
    misfire: Misfire
    misfire_grace: timedelta | None
    fired_through: datetime
    """Instants up to this moment are done with."""
    paused_at: datetime | None
    pause_reason: str | None
    removed_at: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job with its next instant and its last run."""

    id: int
    name: str
    pool: str
    schedule: str | None
    """None: it runs when somebody says so."""
    next_at: datetime | None
    """The next instant of its schedule; None: there is none, or the job is paused."""
    next_in: timedelta | None
    paused_at: datetime | None
    pause_reason: str | None
    overlap: bool
    misfire: str
    misfire_grace: timedelta | None
    last_run: int | None
    """Id of the newest run."""
    last_state: RunState | None


def list_job_lines(database: Database) -> list[JobLine]:
    """All jobs by name."""
    newest = select(func.max(runs.c.id)).where(runs.c.job_id.is_not(None)).group_by(runs.c.job_id)
    query = select(runs.c.job_id, runs.c.id, runs.c.state).where(runs.c.id.in_(newest))
    with database.connect() as connection:
        now = connection.execute(select(func.clock_timestamp())).scalar_one()
        last = {row.job_id: (row.id, RunState(row.state)) for row in connection.execute(query)}
    return [_line(job, now, *last.get(job.id, (None, None))) for job in list_jobs(database)]


def list_jobs(database: Database, *, removed: bool = False) -> list[JobRow]:
    """All jobs by name; with `removed`, those too that are out of service."""
    query = _jobs() if removed else _jobs().where(jobs.c.removed_at.is_(None))
    with database.connect() as connection:
        return [_job(row) for row in connection.execute(query).mappings()]


def find_job(database: Database, name: str) -> JobRow:
    """Look a job up.

    Raises:
        UnknownNameError: There is no such job; the message names one that is spelt alike.
    """
    with database.connect() as connection:
        return _find(connection, name)


def pause_job(database: Database, name: str, *, who: str, reason: str | None = None) -> bool:
    """Let a job fire no more until it is resumed; an open run goes on. False when it was paused already; audited."""
    return _set_paused(database, name, pause=True, who=who, reason=reason)


def resume_job(database: Database, name: str, *, who: str, reason: str | None = None) -> bool:
    """Let a paused job fire again, from its next instant on: what it missed is not made up for; audited."""
    return _set_paused(database, name, pause=False, who=who, reason=reason)


def fire_by_hand(database: Database, name: str, *, who: str, reason: str | None = None) -> int:
    """Fire a job now, paused or not; returns the id of the run, which a daemon works on. Audited.

    Raises:
        UnknownNameError: There is no such job.
        ConflictError: A run of it is open, and its runs must not overlap.
    """
    with database.transaction() as connection:
        job = _find(connection, name)
        run_id = connection.execute(
            upsert(runs)
            .values(
                name=job.name,
                pool_id=job.pool_id,
                job_id=job.id,
                state=RunState.DUE.value,
                exclusive=not job.overlap,
                definition=dict(job.definition),
            )
            .on_conflict_do_nothing()
            .returning(runs.c.id)
        ).scalar()
        if run_id is None:
            query = select(runs.c.id).where(runs.c.job_id == job.id, runs.c.ended_at.is_(None), runs.c.exclusive)
            raise ConflictError(
                f"job {name}: its run {connection.execute(query).scalar()} is still open; wait for it, cancel it, or "
                "set overlap = true"
            )
        record(connection, who=who, action="job run", subject=job.name, reason=reason)
    return int(run_id)


def _line(job: JobRow, now: datetime, run: int | None, state: RunState | None) -> JobLine:
    schedule = job.schedule if job.paused_at is None else None
    next_at = schedule.next(after=now) if schedule is not None else None
    return JobLine(
        id=job.id,
        name=job.name,
        pool=job.pool,
        schedule=str(job.schedule) if job.schedule is not None else None,
        next_at=next_at,
        next_in=next_at - now if next_at is not None else None,
        paused_at=job.paused_at,
        pause_reason=job.pause_reason,
        overlap=job.overlap,
        misfire=job.misfire.value,
        misfire_grace=job.misfire_grace,
        last_run=run,
        last_state=state,
    )


def _set_paused(database: Database, name: str, *, pause: bool, who: str, reason: str | None) -> bool:
    with database.transaction() as connection:
        job = _find(connection, name)
        changes = jobs.c.paused_at.is_(None) if pause else jobs.c.paused_at.is_not(None)
        now = func.clock_timestamp()
        values: dict[str, Any] = (
            {"paused_at": now, "pause_reason": clean_text(reason) if reason else None}
            if pause
            else {"paused_at": None, "pause_reason": None, "fired_through": now}
        )
        changed = connection.execute(update(jobs).where(jobs.c.id == job.id, changes).values(values)).rowcount
        if changed:
            verb = "pause" if pause else "resume"
            record(connection, who=who, action=f"job {verb}", subject=job.name, reason=reason)
    return bool(changed)


def _jobs() -> Select[Any]:
    wanted = [column for column in jobs.c if column.name != "declared"]
    return select(*wanted, pools.c.name.label("pool")).join(pools, pools.c.id == jobs.c.pool_id).order_by(jobs.c.name)


def _find(connection: Connection, name: str) -> JobRow:
    query = _jobs().where(jobs.c.name == clean_text(name), jobs.c.removed_at.is_(None))
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        known = connection.execute(select(jobs.c.name).where(jobs.c.removed_at.is_(None))).scalars()
        raise unknown_name("job", name, known)
    return _job(row)


def _job(row: RowMapping) -> JobRow:
    values = dict(row)
    schedule = schedule_from_json(values.pop("schedule"), anchor=values["created_at"])
    return JobRow(**{**values, "schedule": schedule, "misfire": Misfire(values["misfire"])})
