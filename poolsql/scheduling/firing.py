"""Firing jobs at their instants: any number of daemons may try, one run comes of it.

Instants are computed by the database's clock, and the statement that fires compares once more: daemons' own clocks
have no say.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from psycopg.types.json import Jsonb

from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Statement
from poolsql.errors import BadInputError
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.schedules import Schedule, schedule_from_json

log = logging.getLogger(__name__)

DUE_JOBS = Statement.load("poolsql.scheduling", "due_jobs")
FIRE = Statement.load("poolsql.scheduling", "fire")

MOST_INSTANTS = 1000
"""Missed instants of one job that one round fires; the next round goes on."""


@dataclass(frozen=True, slots=True)
class Fired:
    """An instant that this process decided."""

    job: str
    instant: datetime
    run_id: int | None
    """None: skipped, because the run before was still open."""


class Firing:
    """Looks at all jobs and fires what is due; remembers the schedules that it has read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._schedules: dict[tuple[int, str], Schedule | None] = {}

    def fire_due(self) -> list[Fired]:
        """One round.

        Raises:
            DatabaseError: The database failed; what was fired stays fired.
        """
        fired: list[Fired] = []
        rows = self._database.run(DUE_JOBS, {})
        known = {(row.id, json.dumps(row.schedule)) for row in rows}
        self._schedules = {key: schedule for key, schedule in self._schedules.items() if key in known}
        for row in rows:
            schedule = self._schedule(row)
            if schedule is None:
                continue
            for instant in _due(row, schedule):
                outcome = self._fire(row, instant)
                if outcome is None:
                    break  # somebody else was first, or its run before has to end first
                fired.append(outcome)
        return fired

    def _fire(self, row: Row, instant: datetime) -> Fired | None:
        parameters = {"job_id": row.id, "instant": instant, "schedule": Jsonb(row.schedule)}
        for result in self._database.run(FIRE, parameters):
            if result.run_id is None:
                log.warning("job %s: its run of %s is skipped, the one before is still open", row.name, instant)
            else:
                late = (row.now - instant).total_seconds()
                log.info("job %s fires for %s (%.1f s late), run %d", row.name, instant, late, result.run_id)
            return Fired(row.name, instant, result.run_id)
        return None

    def _schedule(self, row: Row) -> Schedule | None:
        key = (row.id, json.dumps(row.schedule))
        if key not in self._schedules:
            try:
                self._schedules[key] = schedule_from_json(row.schedule, anchor=row.created_at)
            except BadInputError as error:
                # Written by hand, or by a newer version: the other jobs go on.
                log.error("job %s does not fire: %s", row.name, error)  # noqa: TRY400 - the message says it all
                self._schedules[key] = None
        return self._schedules[key]


def _due(row: Row, schedule: Schedule) -> Iterable[datetime]:
    after = row.fired_through
    if row.misfire_grace is not None:
        after = max(after, row.now - row.misfire_grace)
    match Misfire(row.misfire):
        case Misfire.LATEST:
            latest = schedule.latest(after=after, until=row.now)
            return [] if latest is None else [latest]
        case Misfire.ALL:
            return _first(schedule.due(after=after, until=row.now))


def _first(instants: Iterable[datetime]) -> Iterable[datetime]:
    for _, instant in zip(range(MOST_INSTANTS), instants, strict=False):
        yield instant
