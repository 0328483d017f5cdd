"""Jobs as an operator sees them; what changes them is in `poolsql.scheduling.jobs`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from poolsql.database.engine import Database
from poolsql.database.tables import runs
from poolsql.scheduling.jobs import JobRow, list_jobs
from poolsql.scraping.states import RunState


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
