"""The `alembic` command, run from the repository's root as a developer runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.schema import head_revision
from poolsql.settings import Settings
from tests.fixtures.catalogs import catalog

REPOSITORY = Path(__file__).parents[2]


class Alembic:
    """The command with an environment of its own."""

    def __init__(self, **environment: str) -> None:
        self._environment = {**os.environ, **environment}

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [os.fspath(Path(sys.executable).with_name("alembic")), *arguments]
        return subprocess.run(
            command, cwd=REPOSITORY, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )

    def succeed(self, *arguments: str) -> str:
        """Run it, and return what it printed; nothing goes to standard error."""
        done = self(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def fail(self, *arguments: str) -> tuple[int, str]:
        """Run it, and return its exit code and the one line that it says."""
        done = self(*arguments)
        (line,) = (done.stdout + done.stderr).strip().splitlines()
        return done.returncode, line


@pytest.fixture(scope="module")
def empty(empty_database: Callable[[], URL], settings: Settings) -> Iterator[Database]:
    """A database on the session's server."""
    database = Database(empty_database(), settings)
    yield database
    database.close()


@pytest.fixture(scope="module")
def alembic(empty: Database) -> Alembic:
    """The command for that database."""
    return Alembic(POOLSQL_DATABASE_URL=empty.url.render_as_string(hide_password=False))


def test_up_down_and_up_again_leave_the_same_tables(alembic: Alembic, empty: Database) -> None:
    alembic.succeed("upgrade", "head")
    first = catalog(empty)
    assert first["relations"]
    assert "No new upgrade operations detected" in alembic.succeed("check")
    assert head_revision() in alembic.succeed("current")

    alembic.succeed("downgrade", "base")
    assert set(map(str, catalog(empty).values())) == {"[]"}

    alembic.succeed("upgrade", "head")
    assert catalog(empty) == first
    assert "No new upgrade operations detected" in alembic.succeed("check")


def test_check_notices_a_table_that_differs(alembic: Alembic, empty: Database) -> None:
    alembic.succeed("upgrade", "head")
    with empty.connect() as connection:
        connection.execute(text("ALTER TABLE poolsql.pools ADD COLUMN surplus int"))
    code, line = alembic.fail("check")
    with empty.connect() as connection:
        connection.execute(text("ALTER TABLE poolsql.pools DROP COLUMN surplus"))
    assert code != 0
    assert "surplus" in line


def test_tables_of_others_are_left_alone(alembic: Alembic, empty: Database) -> None:
    with empty.connect() as connection:
        connection.execute(text("CREATE TABLE public.foreign_table (id int)"))
        connection.execute(text("CREATE SCHEMA foreign_schema CREATE TABLE attempts (id int)"))
    alembic.succeed("upgrade", "head")
    assert "No new upgrade operations detected" in alembic.succeed("check")
    alembic.succeed("downgrade", "base")
    with empty.connect() as connection:
        connection.execute(text("SELECT FROM public.foreign_table, foreign_schema.attempts"))


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("mysql://geheim@localhost/x", 2, "POOLSQL_DATABASE_URL names the database kind 'mysql'"),
        ("geheim", 2, "POOLSQL_DATABASE_URL is not a database address"),
        ("postgresql://u:geheim@/nowhere?host=/no/such/place&sslmode=bogus", 3, "refused the connection: invalid ssl"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_in_one_line(address: str, code: int, said: str) -> None:
    done, line = Alembic(POOLSQL_DATABASE_URL=address).fail("upgrade", "head")
    assert done == code
    assert line.startswith("alembic: ")
    assert said in line
    assert "geheim" not in line


def test_sql_without_a_database_is_refused(alembic: Alembic) -> None:
    code, line = alembic.fail("upgrade", "head", "--sql")
    assert code != 0
    assert "leave --sql out" in line


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Open to the user that the embedded server runs as, when this one is root."""
    directory = Path(tempfile.mkdtemp(prefix="alembic-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_without_an_address_it_is_the_embedded_server(data_dir: Path) -> None:
    alembic = Alembic(POOLSQL_DATA_DIR=os.fspath(data_dir))
    alembic.succeed("upgrade", "head")
    assert (data_dir / "postgres" / "data").is_dir()
    assert head_revision() in alembic.succeed("current")
    # The last user has stopped the server.
    assert not (data_dir / "postgres" / "data" / "postmaster.pid").exists()
