"""From a run that has fired to its tasks: its targets are looked up, and written together with its start."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Statement
from poolsql.database.tables import hosts, launchers, profiles, runs, tasks
from poolsql.errors import BadInputError, DatabaseUnavailableError
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import cleaned
from poolsql.scheduling.definitions import JobDefinition
from poolsql.scheduling.targets import BadTarget, TargetSpec, read_targets
from poolsql.scraping.states import RunState, TaskState

log = logging.getLogger(__name__)

DUE_RUNS = Statement.load("poolsql.scheduling", "due_runs")

LEFT_TO_OTHERS = 5.0
"""Seconds for which a run that another daemon has fired is left to it; it may have died meanwhile."""

AT_ONCE = 1000
"""Tasks that one statement writes."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What targets may name."""

    hosts: frozenset[str] | None
    """None: any host will do."""
    profiles: Mapping[str, Sequence[int]]


def prepare_runs(database: Database, *, own: Iterable[int] = ()) -> None:
    """Give tasks to the runs that have fired: those in `own` at once, those of other daemons after a while.

    Raises:
        DatabaseUnavailableError: The database is away; the runs that are left are prepared in a later round.
        Exception: One of them could not be prepared, through no fault of its definition; the others were. It is tried
            again in a later round.
    """
    problem: Exception | None = None
    for run in database.run(DUE_RUNS, {"own": list(own), "left_to_others": LEFT_TO_OTHERS}):
        try:
            _prepare(database, run)
        except DatabaseUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - raised when the others have had their turn
            problem = problem or error
    if problem is not None:
        raise problem


def _prepare(database: Database, run: Row) -> None:
    try:
        definition = JobDefinition.parse(run.definition)
        rows = _rows(database, run, read_targets(database, definition.targets))
    except BadInputError as error:
        _fail(database, run, str(error))
    else:
        _start(database, run, rows)


def _start(database: Database, run: Row, rows: Sequence[Mapping[str, Any]]) -> None:
    with database.transaction() as connection:
        if _move(connection, run, RunState.RUNNING):
            for first in range(0, len(rows), AT_ONCE):
                connection.execute(insert(tasks), rows[first : first + AT_ONCE])
    log.info("run %d of %s begins; tasks: %d", run.id, run.name, len(rows), extra={"run": run.id})


def _fail(database: Database, run: Row, problem: str) -> None:
    with database.transaction() as connection:
        _move(connection, run, RunState.FAILED, detail=cleaned(problem), ended_at=func.clock_timestamp())
    log.error("run %d of %s has failed: %s", run.id, run.name, problem, extra={"run": run.id})


def _move(connection: Connection, run: Row, state: RunState, **values: Any) -> bool:
    """Whether this process did it, and nobody before."""
    due = (runs.c.id == run.id) & (runs.c.state == RunState.DUE.value)
    return bool(connection.execute(update(runs).where(due).values(state=state.value, **values)).rowcount)


def _rows(database: Database, run: Row, targets: Sequence[TargetSpec | BadTarget]) -> list[Mapping[str, Any]]:
    known = _look_up(database, run, targets)
    return [{"run_id": run.id, **_row(target, known)} for target in targets]


def _row(target: TargetSpec | BadTarget, known: _Known) -> Mapping[str, Any]:
    if isinstance(target, BadTarget):
        return _failed(target.text, "", target.problem)
    problem, profile_id = None, None
    if known.hosts is not None and target.target.host not in known.hosts:
        problem = f'host {target.target.host} is not declared in fleet.toml; add [hosts."{target.target.host}"]'
    elif target.profile is not None:
        found = known.profiles.get(target.profile, ())
        if len(found) == 1:
            profile_id = found[0]
        else:
            told = "several launchers have it; write launcher/key" if found else "its job's pool has none of that key"
            problem = f"profile {target.profile!r}: {told}"
    if problem is not None:
        return _failed(target.target.url, target.target.host, problem)
    return {
        "url": target.target.url,
        "host": target.target.host,
        "state": TaskState.PENDING.value,
        "profile_id": profile_id,
        "seed": target.seed,
        "parameters": dict(target.parameters),
        "outcome": None,
        "detail": None,
    }


def _failed(url: str, host: str, problem: str) -> Mapping[str, Any]:
    return {
        "url": url,
        "host": host,
        "state": TaskState.FAILED.value,
        "profile_id": None,
        "seed": None,
        "parameters": {},
        "outcome": Outcome.TASK_FAILED.value,
        "detail": cleaned(problem),
    }


def _look_up(database: Database, run: Row, targets: Sequence[TargetSpec | BadTarget]) -> _Known:
    specs = [target for target in targets if isinstance(target, TargetSpec)]
    named = {target.profile for target in specs if target.profile is not None}
    by_name: dict[str, list[int]] = {}
    declared: frozenset[str] | None = None
    with database.connect() as connection:
        if named:
            query = (
                select(profiles.c.id, profiles.c.key, launchers.c.name)
                .join(launchers, launchers.c.id == profiles.c.launcher_id)
                .where(profiles.c.pool_id == run.pool_id)
            )
            for profile_id, key, launcher in connection.execute(query):
                for name in (key, f"{launcher}/{key}"):
                    by_name.setdefault(name, []).append(profile_id)
        if run.declared:
            declared = frozenset(connection.execute(select(hosts.c.name).where(hosts.c.declared)).scalars())
    return _Known(declared, by_name)
