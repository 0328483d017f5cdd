"""Daemons as a user runs them: a fleet.toml, its database, and processes of ``python scheduler.py daemon``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.configuration.applying import apply_plan
from poolsql.configuration.planning import plan
from poolsql.configuration.reading import read_fleet_file
from poolsql.database.engine import Database
from poolsql.operations.jobs import fire_by_hand
from poolsql.settings import load_settings
from tests.fixtures.browsers import OFFLINE
from tests.fixtures.conditions import until
from tests.fixtures.databases import address_of
from tests.fixtures.programs import Home, Program, program_home

MACHINE = "here"

PATIENT = {"lost_cooldown": "0s", "failure_cooldown": "1s", "retire_after": "off", "retire_rate": "off"}
"""A policy under which a profile that lost its worker, however often, is offered again soon."""

STARTS_WITHIN = 60.0
"""Seconds that a daemon may take until it works, on a machine that is busy with other tests."""


def pool_of(profiles: int, *, name: str = "desk", **policy: str) -> str:
    """The part of a fleet.toml that makes a pool with browsers of this machine that look no name up."""
    settings = "\n".join(f'{key} = "{value}"' for key, value in policy.items())
    ids = ", ".join(f'"{name}-{number}"' for number in range(profiles))
    return f"""
[pools.{name}]
{settings}
[launchers.{name}]
resolver_rules = "{OFFLINE}"
[[profiles]]
pool = "{name}"
launcher = "{name}"
ids = [{ids}]
"""


def job(name: str, targets: Sequence[str], *, pool: str = "desk", **values: str) -> str:
    """The part of a fleet.toml that makes a job; `values` as TOML writes them."""
    given = values if "handler" in values else {"extract": '{ title = "title", heading = "h1" }', **values}
    lines = "\n".join(f"{key} = {value}" for key, value in given.items())
    listed = ",\n".join(f'    "{target}"' for target in targets)
    return f"""
[jobs.{name}]
pool = "{pool}"
targets = {{ list = [
{listed}
] }}
{lines}
"""


def hosts(*names: str) -> str:
    """The part of a fleet.toml that declares hosts."""
    return "\n".join(f'[hosts."{name}"]' for name in names)


@dataclass
class Daemons:
    """One fleet, and the daemons that work on it."""

    url: URL
    database: Database
    home: Home
    directory: Path

    # Doing

    def write(self, *parts: str) -> Path:
        """Write a fleet.toml."""
        path = self.directory / "fleet.toml"
        path.write_text("\n".join(parts), encoding="utf-8")
        return path

    def apply(self, *parts: str) -> None:
        """Write a fleet.toml and apply it, as `poolsql apply` does but without a process."""
        path = self.write(*parts)
        settings = load_settings(machine=MACHINE, data_dir=self.home.data)
        apply_plan(self.database, settings, plan(self.database, settings, read_fleet_file(path, settings)), who="test")

    def start(self, *arguments: str, working: bool = True, **environment: str) -> Program:
        """Start a daemon, and wait until it works."""
        program = self.run("daemon", *arguments, **environment)
        if working:
            program.line_with(": up to", seconds=STARTS_WITHIN)
        return program

    def run(self, *arguments: str, **environment: str) -> Program:
        """Start any command on this fleet."""
        given = {"POOLSQL_DATABASE_URL": address_of(self.url), "POOLSQL_MACHINE": MACHINE, **environment}
        return self.home.start(*arguments, **given)

    def code_of(self, *arguments: str) -> int:
        """Run any command on this fleet; its exit code."""
        return self.run(*arguments).wait(seconds=60)

    def fire(self, name: str) -> int:
        """Fire a job by hand; the run's id."""
        return fire_by_hand(self.database, name, who="test")

    def end(self, *programs: Program, seconds: float = 60.0) -> None:
        """Tell daemons to stop, and see that they end well."""
        for program in programs:
            program.terminate()
        for program in programs:
            assert program.wait(seconds=seconds) == 0, program.output
            assert "Traceback" not in program.output, program.output

    # Looking

    def all(self, query: str, **parameters: Any) -> list[Any]:
        """The rows of a query."""
        with self.database.connect() as connection:
            return list(connection.execute(text(query), parameters).all())

    def one(self, query: str, **parameters: Any) -> Any:
        """The one row of a query."""
        (row,) = self.all(query, **parameters)
        return row

    def tasks(self) -> list[Any]:
        """All tasks."""
        return self.all("SELECT * FROM poolsql.tasks ORDER BY id")

    def visits(self) -> list[Any]:
        """All visits, with the worker that made them."""
        return self.all(
            "SELECT visits.*, coalesce(attempts.worker_id, leases.worker_id) AS worker_id FROM poolsql.visits "
            "LEFT JOIN poolsql.attempts ON attempts.lease_id = visits.lease_id "
            "LEFT JOIN poolsql.leases ON leases.id = visits.lease_id ORDER BY visits.id"
        )

    def leases(self) -> list[Any]:
        """All live leases."""
        return self.all("SELECT * FROM poolsql.leases ORDER BY id")

    def attempts(self) -> list[Any]:
        """All ended leases."""
        return self.all("SELECT * FROM poolsql.attempts ORDER BY ended_at")

    def count(self, state: str) -> int:
        """Tasks in a state."""
        return int(self.one("SELECT count(*) FROM poolsql.tasks WHERE state = :state", state=state).count)

    def open_runs(self) -> int:
        """Runs that have not ended."""
        return int(self.one("SELECT count(*) FROM poolsql.runs WHERE ended_at IS NULL").count)

    def workers(self) -> list[Any]:
        """All workers."""
        return self.all("SELECT * FROM poolsql.workers ORDER BY started_at")

    def wait_for(self, state: str, count: int, *, seconds: float = 60.0) -> None:
        """Wait until so many tasks are in a state."""
        until(lambda: self.count(state) >= count, seconds=seconds)

    def wait_until_over(self, *, runs: int = 1, seconds: float = 120.0) -> None:
        """Wait until so many runs have ended and none is open."""
        ended = "SELECT count(*) FROM poolsql.runs WHERE ended_at IS NOT NULL"
        until(lambda: self.one(ended).count >= runs and not self.open_runs(), seconds=seconds)

    # Promises

    def check_results(self, count: int) -> None:
        """Each of so many tasks is done, with the result of its page and exactly one visit that succeeded."""
        tasks = self.tasks()
        assert [task.state for task in tasks] == ["done"] * count
        for task in tasks:
            number = task.url.rpartition("/")[2].partition("?")[0]
            assert task.result == {"title": f"Page {number}", "heading": f"Number {number}"}
        succeeded = self.all(
            "SELECT task_id, count(*) FROM poolsql.visits WHERE outcome = 'success' GROUP BY task_id ORDER BY task_id"
        )
        assert [tuple(row) for row in succeeded] == [(task.id, 1) for task in tasks]

    def check_nothing_held(self) -> None:
        """No lease, no browser, no driver, no lock, and every profile is back."""
        assert self.leases() == []
        assert self.home.browsers() == []
        assert self.home.drivers() == []
        assert self.all("SELECT * FROM poolsql.profiles WHERE available_at IS NULL") == []
        locks = self.all("SELECT classid, objid, pid FROM pg_locks WHERE locktype = 'advisory'")
        assert locks == []

    def check_signed_off(self) -> None:
        """Every worker has said that it ended."""
        assert all(worker.ended_at is not None for worker in self.workers())


@contextmanager
def daemons_on(database: Database, directory: Path) -> Iterator[Daemons]:
    """Daemons of one test on a database that is emptied before; at the end no process of them may be left."""
    kept = {"alembic_version", "outcomes"}
    with database.connect() as connection:
        names = connection.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'poolsql'")).scalars()
        tables = ", ".join(f"poolsql.{name}" for name in names if name not in kept)
        connection.execute(text(f"TRUNCATE {tables} CASCADE"))
    with program_home() as home:
        yield Daemons(database.url, database, home, directory)
