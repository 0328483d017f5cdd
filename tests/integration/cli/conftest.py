"""Servers and databases that only these tests need."""

from __future__ import annotations

import getpass
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.settings import Settings
from tests.integration.cli.calls import Calls
from tests.integration.cli.programs import Program, address
from tests.integration.database.clusters import Cluster


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
def program(tmp_path: Path) -> Program:
    """The program, without a database."""
    return Program(tmp_path)


@pytest.fixture
def on_database(program: Program, database_url: URL) -> Program:
    """The program on the module's database."""
    program.settings["POOLSQL_DATABASE_URL"] = address(database_url)
    return program


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A place that the server's user can reach, also when the tests run as root; nothing is there yet."""
    place = Path(tempfile.gettempdir()) / f"poolsql-{uuid4().hex[:10]}"
    yield place
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
