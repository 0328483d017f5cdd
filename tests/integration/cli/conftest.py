"""Servers and databases that only these tests need."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.settings import Settings
from tests.fixtures.fleets import Desk
from tests.integration.cli.calls import Calls
from tests.integration.database.clusters import Cluster
from tests.integration.scheduling.jobs import Jobs


@pytest.fixture
def cluster_url() -> Iterator[URL]:
    """Address of a server of this test's own that wants passwords."""
    with Cluster() as running:
        yield running.url


@pytest.fixture
def opened(settings: Settings) -> Iterator[Callable[[URL], Database]]:
    """Opens a database by its address, and closes it when the test ends."""
    with ExitStack() as stack:

        def connect(url: URL) -> Database:
            database = Database(url, settings)
            stack.callback(database.close)
            return database

        yield connect


@pytest.fixture
def calls(
    database_url: URL, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Calls:
    """The program on the module's database, in an empty directory, on the machine "here"."""
    monkeypatch.setenv("POOLSQL_DATABASE_URL", database_url.render_as_string(hide_password=False))
    monkeypatch.setenv("POOLSQL_MACHINE", "here")
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    monkeypatch.chdir(tmp_path)
    return Calls(capsys)


@pytest.fixture
def jobs(desk: Desk) -> Iterator[Jobs]:
    """Makes jobs of the desk's pool; they are gone when the test is over."""
    made = Jobs(desk.database, desk)
    yield made
    made.remove_all()
