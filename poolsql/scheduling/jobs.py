"""Jobs as rows: declared, listed, paused, removed, and fired by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, case, func, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from poolsql.database.engine import Database
from poolsql.database.tables import jobs, pools, runs
from poolsql.errors import BadInputError, ConflictError, UnknownNameError
from poolsql.leasing.audit import record
from poolsql.leasing.checks import checked_name
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.schedules import Schedule, schedule_from_json
from poolsql.scraping.states import RunState
from poolsql.text import clean_text, did_you_mean


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


def define_job(
    connection: Connection,
    name: str,
    *,
    pool_id: int,
    schedule: Schedule | None,
    definition: Mapping[str, Any],
    overlap: bool = False,
    misfire: Misfire = Misfire.LATEST,
    misfire_grace: timedelta | None = None,
    declared: bool = False,
) -> int:
    """Create a job, or change an existing one, inside the caller's transaction; returns its id.

    A new or changed schedule counts from now on; a run that is open goes on as it was. A job that had been removed
    is back.

    Raises:
        BadInputError: The name cannot be kept, or `misfire` is ``all`` without a grace.
    """
    if misfire is Misfire.ALL and misfire_grace is None:
        raise BadInputError(f'job {name}: misfire = "all" needs misfire_grace, such as "1h"')
    values = {
        "pool_id": pool_id,
        "schedule": schedule.to_json() if schedule is not None else None,
        "definition": dict(definition),
        "overlap": overlap,
        "misfire": misfire.value,
        "misfire_grace": misfire_grace,
        "declared": declared,
        "removed_at": None,
    }
    statement = upsert(jobs).values(name=checked_name(name, "job"), **values)
    goes_on = jobs.c.removed_at.is_(None) & jobs.c.schedule.is_not_distinct_from(statement.excluded.schedule)
    fired_through = case((goes_on, jobs.c.fired_through), else_=func.clock_timestamp())
    return int(
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["name"], set_={**values, "fired_through": fired_through}
            ).returning(jobs.c.id)
        ).scalar_one()
    )


def remove_job(connection: Connection, name: str) -> None:
    """Take a job out of service inside the caller's transaction: it fires no more, open runs are cancelled.

    Its runs and their results stay.
    """
    job_id = connection.execute(
        update(jobs)
        .where(jobs.c.name == clean_text(name), jobs.c.removed_at.is_(None))
        .values(removed_at=func.clock_timestamp(), declared=False)
        .returning(jobs.c.id)
    ).scalar()
    if job_id is None:
        raise UnknownNameError(f"there is no job {name!r}")
    connection.execute(
        update(runs)
        .where(runs.c.job_id == job_id, runs.c.ended_at.is_(None))
        .values(state=RunState.CANCELLED.value, ended_at=func.clock_timestamp(), detail="its job was removed")
    )


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
        known = connection.execute(select(jobs.c.name).where(jobs.c.removed_at.is_(None))).scalars().all()
        hint = did_you_mean(name, known) or f"; known are {', '.join(sorted(known)[:20]) or 'none'}"
        raise UnknownNameError(f"there is no job {name!r}{hint}")
    return _job(row)


def _job(row: RowMapping) -> JobRow:
    values = dict(row)
    schedule = schedule_from_json(values.pop("schedule"), anchor=values["created_at"])
    return JobRow(**{**values, "schedule": schedule, "misfire": Misfire(values["misfire"])})
