"""Workers, the processes that hold leases, as an operator sees and drains them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import Connection, Label, Text, cast, func, select, update

from poolsql.database.engine import Database
from poolsql.database.tables import leases, loop_stamps, workers
from poolsql.errors import BadInputError
from poolsql.launchers.processes import ProcessIdentity, is_alive
from poolsql.leasing import audit
from poolsql.leasing.presence import present_keys
from poolsql.leasing.states import LeaseState
from poolsql.operations.names import MOST_NAMED, unknown_name
from poolsql.text import clean_text


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLine:
    """A loop of a daemon."""

    loop: str
    every: timedelta
    """How often it stamps at least."""
    stamped_at: datetime
    age: timedelta
    failing_since: datetime | None
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLine:
    """A process that has not signed off."""

    id: UUID
    machine: str
    pid: int
    version: str
    started_at: datetime
    age: timedelta
    draining_at: datetime | None
    alive: bool | None
    """Whether its process runs; None: it is on another machine, where this one cannot look."""
    present: bool | None
    """Whether it holds the lock that says that it lives; None: it never did, so that only the ttl of its leases would
    show its death (a connection pooler may be in between)."""
    held: int
    """Leases that it holds."""
    reclaiming: int
    loops: Sequence[LoopLine]
    """Those of a daemon, by name; empty for other workers."""


def list_workers(database: Database, *, machine: str) -> list[WorkerLine]:
    """The workers that have not signed off, the oldest first.

    Those of `machine` whose process is gone and that hold nothing any more are left out: nothing is to be done about
    them.
    """
    now = func.clock_timestamp()

    def counted(state: LeaseState) -> Label[int]:
        return func.count(leases.c.id).filter(leases.c.state == state.value).label(state.value)

    columns = [workers.c[name] for name in ("id", "machine", "pid", "version", "started_at", "draining_at")]
    query = (
        select(
            *columns,
            workers.c.process_started,
            workers.c.lock_key,
            workers.c.present_at,
            (now - workers.c.started_at).label("age"),
            counted(LeaseState.HELD),
            counted(LeaseState.RECLAIMING),
        )
        .outerjoin(leases, leases.c.worker_id == workers.c.id)
        .where(workers.c.ended_at.is_(None))
        .group_by(workers.c.id)
        .order_by(workers.c.started_at, workers.c.id)
    )
    stamps = select(
        loop_stamps.c.worker_id,
        *(loop_stamps.c[name] for name in ("loop", "every", "stamped_at", "failing_since", "note")),
        (now - loop_stamps.c.stamped_at).label("age"),
    ).order_by(loop_stamps.c.loop)
    loops: dict[UUID, list[LoopLine]] = defaultdict(list)
    with database.connect() as connection:
        rows = [dict(row) for row in connection.execute(query).mappings()]
        for stamp in connection.execute(stamps).mappings():
            values = dict(stamp)
            loops[values.pop("worker_id")].append(LoopLine(**values))
    present = present_keys(database)
    found = []
    for row in rows:
        was_present, key = row.pop("present_at") is not None, row.pop("lock_key")
        mark = row.pop("process_started")
        alive = is_alive(ProcessIdentity(row["pid"], mark)) if row["machine"] == machine else None
        if alive is not False or row["held"] or row["reclaiming"]:
            found.append(
                WorkerLine(**row, alive=alive, present=key in present if was_present else None, loops=loops[row["id"]])
            )
    return found


def drain_worker(database: Database, worker: str, *, who: str, reason: str | None = None) -> tuple[UUID, bool]:
    """Let a daemon take no more work: it ends what it has and exits. Audited.

    Args:
        worker: Its id, or the beginning of it.

    Returns:
        The worker's id, and False when it was draining already.

    Raises:
        UnknownNameError: No worker's id begins so.
        BadInputError: Several workers' ids do, or the worker is no daemon: nothing in it would heed this.
    """
    with database.transaction() as connection:
        worker_id = find_worker_id(connection, worker)
        if (
            connection.execute(select(loop_stamps.c.loop).where(loop_stamps.c.worker_id == worker_id).limit(1)).first()
            is None
        ):
            place = connection.execute(select(workers.c.machine, workers.c.pid).where(workers.c.id == worker_id)).one()
            raise BadInputError(
                f"worker {worker_id} is no daemon, so it would go on; end its program itself: process {place.pid} on "
                f"{place.machine}"
            )
        changed = connection.execute(
            update(workers)
            .where(workers.c.id == worker_id, workers.c.draining_at.is_(None))
            .values(draining_at=func.clock_timestamp())
        ).rowcount
        if changed:
            audit.record(connection, who=who, action="worker drain", subject=str(worker_id), reason=reason)
    return worker_id, bool(changed)


def find_worker_id(connection: Connection, name: str) -> UUID:
    """A worker that has not signed off, or left leases behind, by its id or the beginning of it.

    Raises:
        UnknownNameError: No worker's id begins so.
        BadInputError: Several workers' ids do; the message lists them.
    """
    beginning = clean_text(name).strip().lower()
    text = cast(workers.c.id, Text)
    concerned = workers.c.ended_at.is_(None) | workers.c.id.in_(select(leases.c.worker_id))
    running = select(workers.c.id).where(concerned).order_by(workers.c.started_at.desc())
    found: list[UUID] = list(
        connection.execute(running.where(text.startswith(beginning, autoescape=True)).limit(2)).scalars()
    )
    if not beginning or not found:
        known = connection.execute(running.limit(MOST_NAMED)).scalars()
        raise unknown_name("worker", name, (str(one) for one in known))
    if len(found) > 1:
        raise BadInputError(f"worker {name!r} could be {found[0]} or {found[1]}; write more of its id")
    (only,) = found
    return only
