"""Jobs as rows: defined and removed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, case, func, update
from sqlalchemy.dialects.postgresql import insert as upsert

from poolsql.database.tables import jobs, runs
from poolsql.errors import BadInputError, UnknownNameError
from poolsql.leasing.checks import checked_name
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.schedules import Schedule
from poolsql.scraping.states import RunState
from poolsql.text import clean_text


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
