"""Jobs in a real database, with the clock in the test's hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.operations.jobs import fire_by_hand
from poolsql.scheduling.jobs import define_job
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.preparing import prepare_runs
from poolsql.scheduling.schedules import parse_schedule
from tests.fixtures.fleets import Desk
from tests.integration.scraping.runs import Run

NO_TARGETS = {"query": "SELECT ''::text AS url WHERE false"}
"""A run of it is over as soon as it has been prepared."""


@dataclass
class Jobs:
    """Makes jobs, and looks at their runs."""

    database: Database
    desk: Desk
    names: list[str] = field(default_factory=list)

    def define(
        self,
        schedule: str | Mapping[str, Any] | None = None,
        *,
        created: datetime | None = None,
        zone: str = "UTC",
        name: str | None = None,
        targets: Mapping[str, Any] = NO_TARGETS,
        **values: Any,
    ) -> str:
        """A job that was created at a moment of the test's clock; returns its name."""
        name = name or f"job-{uuid4().hex[:8]}"
        keywords = {
            key: values.pop(key) for key in ("overlap", "misfire", "misfire_grace", "declared") if key in values
        }
        with self.database.transaction() as connection:
            define_job(
                connection,
                name,
                pool_id=self.desk.pool.id,
                schedule=parse_schedule(schedule, zone=zone, anchor=created),
                definition={"targets": targets, "extract": {"title": "title"}, **values},
                **keywords,
            )
            if created is not None:
                connection.execute(
                    text("UPDATE poolsql.jobs SET created_at = :at, fired_through = :at WHERE name = :name"),
                    {"at": created, "name": name},
                )
        self.names.append(name)
        return name

    def fired(self, tasks: int = 2, *, name: str | None = None, **values: Any) -> Run:
        """The run of a job that was fired by hand, with so many tasks that have seeds."""
        urls = [f"https://{self.desk.host}/{number}" for number in range(tasks)]
        targets = {"list": [{"url": url, "seed": f"s-{number}"} for number, url in enumerate(urls)]}
        run_id = fire_by_hand(self.desk.database, name or self.define(None, targets=targets, **values), who="test")
        prepare_runs(self.desk.database, own=[run_id])
        return Run(self.desk, run_id)

    def runs(self, name: str) -> list[Any]:
        """The runs of a job, in order of their instants."""
        query = (
            "SELECT runs.*, runs.instant <= runs.created_at AS in_time FROM poolsql.runs JOIN poolsql.jobs "
            "ON jobs.id = runs.job_id WHERE jobs.name = :name ORDER BY runs.instant, runs.id"
        )
        return self.all(query, name=name)

    def instants(self, name: str) -> list[datetime]:
        """The instants that have fired."""
        return [run.instant for run in self.runs(name)]

    def tasks(self, run_id: int) -> list[Any]:
        """The tasks of a run."""
        return self.all("SELECT * FROM poolsql.tasks WHERE run_id = :run ORDER BY id", run=run_id)

    def end_runs(self, name: str) -> None:
        """Let all runs of a job be over."""
        self.execute(
            "UPDATE poolsql.runs SET state = 'done', ended_at = pg_catalog.clock_timestamp() "
            "WHERE ended_at IS NULL AND job_id = (SELECT id FROM poolsql.jobs WHERE name = :name)",
            name=name,
        )

    def all(self, query: str, **parameters: Any) -> list[Any]:
        """The rows of a query."""
        with self.database.connect() as connection:
            return list(connection.execute(text(query), parameters).all())

    def execute(self, statement: str, **parameters: Any) -> None:
        """Run a statement that changes something."""
        with self.database.connect() as connection:
            connection.execute(text(statement), parameters)

    def remove_all(self) -> None:
        """Take what was made out of the way of the next test."""
        self.execute("UPDATE poolsql.jobs SET removed_at = now() WHERE name = ANY (:names)", names=self.names)


ALL: dict[str, Any] = {"misfire": Misfire.ALL, "misfire_grace": timedelta(days=2)}
