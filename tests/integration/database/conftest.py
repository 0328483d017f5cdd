"""Databases that misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.integration.database.clusters import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A server of this directory's tests alone, which wants passwords."""
    with Cluster() as running:
        yield running


@pytest.fixture
def opened(settings: Settings) -> Iterator[Callable[..., Database]]:
    """Opens a database by its address, and closes it when the test ends."""
    databases: list[Database] = []

    def connect(url: URL, **values: Any) -> Database:
        databases.append(Database(url, settings.model_copy(update=values)))
        return databases[-1]

    yield connect
    for database in databases:
        database.close()


class Observer:
    """Looks at the sessions of a database, and ends them, from a session of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def blocked(self) -> list[int]:
        """The sessions that wait for a lock of somebody else."""
        return self._pids("cardinality(pg_blocking_pids(pid)) > 0")

    def all(self) -> list[int]:
        """The sessions of poolsql other than this one."""
        return self._pids("application_name = 'poolsql'")

    def end(self, *pids: int) -> None:
        """End sessions as an administrator would, and wait until they are gone."""
        with self._database.connect() as connection:
            for pid in pids:
                connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        until(lambda: not set(pids) & set(self._pids("true")))

    def _pids(self, condition: str) -> list[int]:
        query = (
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() "
            f"AND {condition}"
        )
        with self._database.connect() as connection:
            return list(connection.execute(text(query)).scalars())


@pytest.fixture
def observer(database_url: URL, opened: Callable[..., Database]) -> Observer:
    """Looks at the sessions of the module's database."""
    return Observer(opened(database_url))


@pytest.fixture
def other(database_url: URL) -> Iterator[psycopg.Connection[Any]]:
    """Somebody else's session on the module's database, in a transaction once a statement has run."""
    text_url = database_url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(text_url, autocommit=False) as connection:
        yield connection
        connection.rollback()
