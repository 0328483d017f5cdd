"""A fleet.toml in a folder of its own, and the module's database to apply it to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from poolsql.configuration.applying import apply_plan
from poolsql.configuration.changes import Plan
from poolsql.configuration.planning import plan
from poolsql.configuration.problems import FleetFileError
from poolsql.configuration.reading import read_fleet_file
from poolsql.database.engine import Database
from poolsql.settings import Settings

TABLES = ("pools", "launchers", "proxies", "profiles", "profile_tags", "hosts", "jobs", "runs", "audit")


@dataclass(frozen=True)
class Declared:
    """A fleet.toml and its database."""

    database: Database
    settings: Settings
    path: Path

    def plan(self, file: str, *, prune: bool = False) -> Plan:
        """What a file would change."""
        self.path.write_text(file)
        return plan(self.database, self.settings, read_fleet_file(self.path, self.settings), prune=prune)

    def apply(self, file: str, *, prune: bool = False, reason: str | None = None) -> list[str]:
        """Apply a file; what was changed, line by line."""
        planned = self.plan(file, prune=prune)
        done = apply_plan(self.database, self.settings, planned, who="ann@here", reason=reason)
        assert done.lines() == planned.lines()
        return done.lines()

    def problems(self, file: str, *, prune: bool = False) -> list[str]:
        """What is wrong with a file, each with its line; nothing is changed."""
        before = self.picture()
        with pytest.raises(FleetFileError) as caught:
            self.plan(file, prune=prune)
        assert self.picture() == before
        return [f"{problem.line}: {problem}" for problem in caught.value.problems]

    def all(self, query: str, **parameters: Any) -> list[Any]:
        """The rows of a query."""
        with self.database.connect() as connection:
            return list(connection.execute(text(query), parameters).all())

    def one(self, query: str, **parameters: Any) -> Any:
        """The one row of a query."""
        (row,) = self.all(query, **parameters)
        return row

    def execute(self, statement: str, **parameters: Any) -> None:
        """Run a statement that changes something."""
        with self.database.connect() as connection:
            connection.execute(text(statement), parameters)

    def picture(self, tables: Sequence[str] = TABLES) -> list[Any]:
        """All rows with the transactions that wrote them, so that a row which was written again shows."""
        return [self.all(f"SELECT xmin, row.* FROM poolsql.{table} AS row ORDER BY row") for table in tables]


@pytest.fixture
def declared(database: Database, settings: Settings, tmp_path: Path) -> Declared:
    """A fleet.toml, and the module's database without anything in it."""
    with database.connect() as connection:
        connection.execute(text(f"TRUNCATE {', '.join(f'poolsql.{table}' for table in TABLES)} CASCADE"))
    return Declared(database, settings, tmp_path / "fleet.toml")
