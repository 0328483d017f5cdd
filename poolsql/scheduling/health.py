"""Whether daemons are well: every loop stamps when it comes round, and says so when it fails."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.durations import format_duration
from poolsql.launchers.processes import ProcessIdentity, is_alive

HEALTH = Statement.load("poolsql.scheduling", "health")

ROUNDS_MISSED = 5
"""Rounds after which a loop that has not stamped counts as dead or hanging."""

LEAST_PATIENCE = 60.0
"""Seconds that any loop may take for one round: the reaper waits for browsers to stop."""

FAILING_FOR = 30.0
"""Seconds for which a loop may fail: a database that restarts is no illness."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    """One loop of a daemon."""

    worker_id: UUID
    machine: str
    pid: int
    loop: str
    age: float
    """Seconds since it last came round."""
    problem: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """The daemons of one machine, or of all."""

    loops: tuple[LoopHealth, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is a daemon, and all is well with each."""
        return not self.problems


def check_health(database: Database, *, machine: str | None = None, here: str | None = None) -> Health:
    """Look at the daemons of a machine; None: of all machines.

    Args:
        here: This machine's name: of its daemons those whose processes have died are none any more.

    Raises:
        DatabaseUnavailableError: The database cannot be reached, which is no health either.
    """
    rows = [
        row
        for row in database.run(HEALTH, {"machine": machine})
        if row.machine != here or is_alive(ProcessIdentity(row.pid, row.process_started))
    ]
    loops = tuple(
        LoopHealth(
            worker_id=row.worker_id,
            machine=row.machine,
            pid=row.pid,
            loop=row.loop,
            age=row.age,
            problem=_problem(row.every, row.age, row.failing, row.note),
        )
        for row in rows
    )
    problems = [
        f"daemon {loop.pid} on {loop.machine}: loop {loop.loop} {loop.problem}" for loop in loops if loop.problem
    ]
    if not loops:
        where = "anywhere" if machine is None else f"on {machine}"
        problems = [f"no daemon runs {where}; start one: poolsql daemon"]
    return Health(loops, tuple(problems))


def _problem(every: float, age: float, failing: float | None, note: str | None) -> str | None:
    if age > max(LEAST_PATIENCE, ROUNDS_MISSED * every):
        return f"has not come round for {format_duration(age)}"
    if failing is not None and failing > FAILING_FOR:
        return f"has been failing for {format_duration(failing)}: {note}"
    return None
