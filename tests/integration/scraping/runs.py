"""A run and its tasks in a real database, for the tests of the queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from poolsql.database.engine import Database
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import Visit
from poolsql.scraping import tasks
from poolsql.scraping.retries import Next, RetryPolicy
from poolsql.scraping.tasks import Task
from poolsql.targets import parse_target
from tests.fixtures.fleets import Desk


@dataclass
class Run:
    """One run at a desk."""

    desk: Desk
    id: int
    retries: RetryPolicy = field(default_factory=RetryPolicy)

    @property
    def database(self) -> Database:
        return self.desk.database

    def claim(self, *, seconds: float = 60.0, database: Database | None = None) -> Task | None:
        return tasks.claim_task(database or self.database, self.id, seconds=seconds)

    def claimed(self, *, seconds: float = 60.0) -> Task:
        """A claim that has to succeed."""
        task = self.claim(seconds=seconds)
        assert task is not None, "there was no task to claim"
        return task

    def attached(self, **asked: Any) -> tuple[Task, Lease]:
        """A claimed task with a lease attached to it."""
        task = self.claimed()
        lease = self.desk.lease(host=task.host, **asked)
        assert tasks.attach_lease(self.database, task, lease)
        return task, lease

    def finish(self, task: Task, lease: Lease, outcome: Outcome, *, result: Any = None) -> Next:
        """Report a visit as the runner does."""
        then = self.retries.after(outcome, tries=task.tries + 1)
        visit = Visit(outcome=outcome, host=task.host, task=task.url, task_id=task.id, url=task.url)
        tasks.finish_task(lease, task, visit, result=result, then=then)
        return then

    def tried(self, outcome: Outcome, **asked: Any) -> Task:
        """One whole try of the next task under a lease of its own."""
        task, lease = self.attached(**asked)
        self.finish(task, lease, outcome)
        lease.release()
        return task

    def return_orphans(self) -> int:
        return tasks.return_orphans(self.database, self.id)

    def progress(self) -> tasks.Progress:
        return tasks.run_progress(self.database, self.id)

    def row(self, task: Task | int) -> Any:
        number = task.id if isinstance(task, Task) else task
        return self.desk.one("SELECT * FROM poolsql.tasks WHERE id = :id", id=number)

    def rows(self) -> list[Any]:
        return self.desk.all("SELECT * FROM poolsql.tasks WHERE run_id = :run ORDER BY id", run=self.id)

    def visits(self, task: Task) -> list[Any]:
        return self.desk.all("SELECT * FROM poolsql.visits WHERE task_id = :id ORDER BY id", id=task.id)

    def due_now(self) -> None:
        """Let the delays of all waiting tasks be over."""
        self.desk.execute(
            "UPDATE poolsql.tasks SET not_before = clock_timestamp() - interval '1 second' WHERE run_id = :run",
            run=self.id,
        )

    def end_claim(self, task: Task) -> None:
        """Let the time of a claim be over."""
        self.desk.execute(
            "UPDATE poolsql.tasks SET claimed_until = clock_timestamp() - interval '1 second' WHERE id = :id",
            id=task.id,
        )

    def pause_host(self, host: str, *, seconds: float) -> None:
        self.desk.execute(
            "INSERT INTO poolsql.hosts (name, paused_until) "
            "VALUES (:name, clock_timestamp() + make_interval(secs => :seconds)) "
            "ON CONFLICT (name) DO UPDATE SET paused_until = excluded.paused_until",
            name=host,
            seconds=seconds,
        )

    def stop_host(self, host: str, *, stopped: bool = True) -> None:
        self.desk.execute(
            "INSERT INTO poolsql.hosts (name, stopped_at) VALUES (:name, clock_timestamp()) ON CONFLICT (name) "
            "DO UPDATE SET stopped_at = CASE WHEN :stopped THEN clock_timestamp() END",
            name=host,
            stopped=stopped,
        )

    def now(self) -> datetime:
        moment: datetime = self.desk.one("SELECT clock_timestamp() AS now").now
        return moment


def unique_host() -> str:
    """A host that no other test names."""
    return f"{uuid4().hex[:12]}.test"


def new_run(desk: Desk, *, hosts: list[str] | None = None, count: int = 1, **policy: Any) -> Run:
    """A run with `count` tasks on each host; default: one host of its own."""
    targets = [parse_target(f"https://{host}/{number}") for host in hosts or [unique_host()] for number in range(count)]
    return Run(desk, tasks.create_run(desk.database, "test", desk.pool.id, targets), RetryPolicy(**policy))


NewDesk = Callable[..., Desk]
