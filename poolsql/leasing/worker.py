"""Who holds leases: one row for each start of a process."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql import func

from poolsql.database.engine import Database
from poolsql.database.tables import leases, workers
from poolsql.leasing.states import LeaseState


@dataclass(frozen=True, slots=True)
class Worker:
    """One process that holds leases; the id is new for each process start.

    Machine, process id and start mark let others on that machine see whether it still runs.
    """

    machine: str
    pid: int
    process_started: str
    """Start mark of the process, so that a reused process id is not taken for it."""
    version: str
    id: UUID = field(default_factory=uuid4)
    lock_key: int = 0
    """What the lock that says that it lives, and its channel, are called; the database hands it out."""


def register(database: Database, worker: Worker) -> Worker:
    """Write the worker's row, and return the worker with its lock key; repeating it changes nothing."""
    row = {
        "id": worker.id,
        "machine": worker.machine,
        "pid": worker.pid,
        "process_started": worker.process_started,
        "version": worker.version,
    }
    with database.connect() as connection:
        lock_key = connection.execute(
            insert(workers)
            .values(row)
            .on_conflict_do_update(index_elements=["id"], set_={"machine": worker.machine})
            .returning(workers.c.lock_key)
        ).scalar_one()
    return replace(worker, lock_key=lock_key)


def sign_off(database: Database, worker: Worker) -> None:
    """Write down that the process has ended by itself."""
    with database.connect() as connection:
        connection.execute(update(workers).where(workers.c.id == worker.id).values(ended_at=func.clock_timestamp()))


def holders_on(database: Database, machine: str) -> list[Worker]:
    """The workers of one machine that hold leases, for those who can look whether their processes live."""
    held = select(leases.c.worker_id).where(leases.c.state == LeaseState.HELD.value)
    return _workers(database, workers.c.machine == machine, workers.c.id.in_(held))


def signed_on(database: Database, machine: str) -> list[Worker]:
    """The workers of one machine that have not signed off; some of their processes may be dead."""
    return _workers(database, workers.c.machine == machine, workers.c.ended_at.is_(None))


def _workers(database: Database, *which: ColumnElement[bool]) -> list[Worker]:
    columns = [workers.c[column.name] for column in fields(Worker)]
    with database.connect() as connection:
        return [Worker(**row) for row in connection.execute(select(*columns).where(*which)).mappings()]
