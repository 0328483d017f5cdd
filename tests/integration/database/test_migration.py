"""Upgrades: one at a time, whole or not at all; tables that do not fit are refused with the remedy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import select, text
from sqlalchemy.engine import URL

from poolsql.database import migration
from poolsql.database.engine import Database
from poolsql.database.locks import Lock, try_session_lock, unlock_session, wait_for_transaction_lock
from poolsql.database.migration import upgrade
from poolsql.database.schema import check_schema, current_revision, head_revision
from poolsql.database.tables import schema_information
from poolsql.errors import DatabaseError, SchemaMismatchError
from tests.fixtures.catalogs import catalog
from tests.fixtures.conditions import until
from tests.fixtures.databases import Role
from tests.integration.database.conftest import Observer

Open = Callable[..., Database]
Empty = Callable[[], URL]

REPOSITORY = Path(__file__).parents[3]

UPGRADE = """
import sys
from poolsql.database import migration
from poolsql.database.opening import open_database
from poolsql.settings import load_settings

with open_database(load_settings(), direct=True) as database:
    print(migration.__file__, *migration.upgrade(database))
"""


@contextmanager
def upgrading(url: URL, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that upgrades the database; it has ended when the block has."""
    written = url.render_as_string(hide_password=False)
    values = {"PYTHONPATH": os.fspath(REPOSITORY), "POOLSQL_DATABASE_URL": written, **environment}
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", UPGRADE],
        env={**os.environ, **values},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def answer(process: subprocess.Popen[str]) -> list[str]:
    """Where the code of an upgrade that went well lay, and the revisions before and after."""
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return output.split()


@pytest.fixture
def empty(empty_database: Empty, opened: Open) -> Database:
    """A database without any table of ours."""
    return opened(empty_database())


def run(database: Database, *statements: str) -> None:
    with database.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))


def assert_untouched(database: Database) -> None:
    """There is nothing of ours in the database, and nobody holds its lock."""
    with database.transaction() as connection:
        wait_for_transaction_lock(connection, Lock.UPGRADE, patience=0)
        found = connection.execute(text("SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('poolsql')"))
        assert found.all() == []


def test_an_upgrade_says_from_where_to_where_and_repeats_itself_without_harm(empty: Database) -> None:
    assert upgrade(empty) == (None, head_revision())
    before = catalog(empty)
    assert upgrade(empty) == (head_revision(), head_revision())
    assert catalog(empty) == before
    check_schema(empty)


def test_of_two_upgrades_at_once_one_waits_and_finds_it_done(empty: Database, opened: Open) -> None:
    observer = Observer(opened(empty.url))
    with empty.connect() as connection:
        assert try_session_lock(connection, Lock.UPGRADE)
        first, second = upgrading(empty.url), upgrading(empty.url)
        with first as one, second as two:
            # This test's own connection and those of both processes.
            until(lambda: len(observer.all()) == 3, seconds=60)
            assert (one.poll(), two.poll()) == (None, None)
            unlock_session(connection, Lock.UPGRADE)
            revisions = sorted(answer(process)[1:] for process in (one, two))
    head = head_revision()
    assert revisions == [[head, head], ["None", head]]


def test_who_waits_too_long_for_another_upgrade_says_so(
    empty: Database, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "UPGRADE_PATIENCE", 0.05)
    other = opened(empty.url)
    with other.transaction() as connection:
        wait_for_transaction_lock(connection, Lock.UPGRADE, patience=0)
        with pytest.raises(DatabaseError, match="another process has been holding the lock UPGRADE for over"):
            upgrade(empty)


def test_the_direct_address_is_used(empty: Database) -> None:
    written = empty.url.render_as_string(hide_password=False)
    with upgrading(
        empty.url,
        POOLSQL_DATABASE_URL="postgresql://pooler.invalid/nowhere",
        POOLSQL_DIRECT_DATABASE_URL=written,
    ) as process:
        assert answer(process)[1:] == ["None", head_revision()]
    check_schema(empty)


def test_a_failed_upgrade_changes_nothing_and_gives_its_lock_back(empty: Database) -> None:
    run(empty, "CREATE SCHEMA poolsql", "CREATE TABLE poolsql.workers ()")
    with pytest.raises(DatabaseError, match='relation "workers" already exists'):
        upgrade(empty)
    run(empty, "DROP TABLE poolsql.workers")
    assert_untouched(empty)
    assert upgrade(empty) == (None, head_revision())


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_upgrade_changes_nothing_and_the_next_one_passes(
    empty: Database, opened: Open, way: signal.Signals
) -> None:
    run(empty, "CREATE SCHEMA poolsql")
    observer = Observer(opened(empty.url))
    text_url = empty.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(text_url) as other, upgrading(empty.url) as process:
        # A name that somebody else is about to take stops the migration in the middle.
        other.execute("CREATE TABLE poolsql.workers ()")
        (waiting,) = until(observer.blocked, seconds=60)
        process.send_signal(way)
        process.communicate(timeout=30)
        assert process.returncode != 0
        other.rollback()
    until(lambda: waiting not in observer.all())
    assert_untouched(empty)
    assert upgrade(empty) == (None, head_revision())


def test_the_owner_of_the_schema_need_not_be_allowed_to_make_schemas(
    empty: Database, opened: Open, new_role: Callable[..., Role]
) -> None:
    role = new_role()
    run(empty, f'CREATE SCHEMA poolsql AUTHORIZATION "{role.name}"')
    owner = opened(role.at(empty.url))
    assert upgrade(owner) == (None, head_revision())
    check_schema(owner)
    owner.close()
    run(empty, f'DROP OWNED BY "{role.name}" CASCADE')


# Tables that do not fit


def set_revision(database: Database, revision: str, compatible_from: str | None) -> None:
    run(database, f"UPDATE poolsql.alembic_version SET version_num = '{revision}'")
    run(database, "DELETE FROM poolsql.schema_information")
    if compatible_from is not None:
        run(database, f"INSERT INTO poolsql.schema_information (compatible_from) VALUES ('{compatible_from}')")


@pytest.fixture
def upgraded(empty: Database) -> Database:
    upgrade(empty)
    return empty


def test_no_tables_are_refused(empty: Database) -> None:
    with pytest.raises(SchemaMismatchError, match=r"has no poolsql tables; run: poolsql db upgrade") as caught:
        check_schema(empty)
    assert caught.value.exit_code == 3
    assert empty.address in str(caught.value)
    assert_untouched(empty)


def test_older_tables_are_refused(upgraded: Database) -> None:
    set_revision(upgraded, "0000", "0000")
    with pytest.raises(SchemaMismatchError, match=r"revision 0000, this code needs \d+; run: poolsql db upgrade"):
        check_schema(upgraded)


def test_newer_tables_that_this_code_can_work_with_are_accepted_and_left_alone(upgraded: Database) -> None:
    set_revision(upgraded, "9999", head_revision())
    check_schema(upgraded)
    assert upgrade(upgraded) == ("9999", "9999")


@pytest.mark.parametrize("compatible_from", ["9998", None])
def test_newer_tables_that_this_code_cannot_work_with_are_refused(
    upgraded: Database, compatible_from: str | None
) -> None:
    set_revision(upgraded, "9999", compatible_from)
    before = catalog(upgraded)
    for look in (check_schema, upgrade):
        with pytest.raises(SchemaMismatchError, match=r"this code knows only \d+; install a newer poolsql"):
            look(upgraded)
    assert catalog(upgraded) == before


def test_who_finds_the_work_done_does_not_wait_for_anybody(
    upgraded: Database, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "UPGRADE_PATIENCE", 0.0)
    with opened(upgraded.url).transaction() as connection:
        wait_for_transaction_lock(connection, Lock.UPGRADE, patience=0)
        assert upgrade(upgraded) == (head_revision(), head_revision())


# Writing migrations


def test_migrations_are_numbered_one_after_the_other() -> None:
    scripts = ScriptDirectory(os.fspath(REPOSITORY / "migrations")).walk_revisions()
    revisions = sorted((script.revision, script.down_revision) for script in scripts)
    numbers = [f"{number:04}" for number in range(1, len(revisions) + 1)]
    assert revisions == list(zip(numbers, [None, *numbers], strict=False))
    assert head_revision() == numbers[-1], "it is read from the files' names"


def test_a_new_migration_works_as_it_is_made(upgraded: Database, tmp_path: Path) -> None:
    """`alembic revision --autogenerate` numbers it, and what it writes runs up and down."""
    shutil.copytree(REPOSITORY / "migrations", tmp_path / "migrations")
    shutil.copy(REPOSITORY / "alembic.ini", tmp_path)
    run(upgraded, "ALTER TABLE poolsql.audit DROP COLUMN reason")
    written = upgraded.url.render_as_string(hide_password=False)

    def alembic(*arguments: str) -> None:
        subprocess.run(
            [sys.executable, "-m", "alembic", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.fspath(REPOSITORY), "POOLSQL_DATABASE_URL": written},
            check=True,
            timeout=60,
        )

    last = head_revision()
    following = f"{int(last) + 1:04}"
    alembic("revision", "--autogenerate", "-m", "Bring reasons back")
    (made,) = (tmp_path / "migrations" / "versions").glob(f"{following}_*.py")
    assert made.name == f"{following}_bring_reasons_back.py"
    assert 'sa.Column("reason"' in made.read_text().replace("'", '"')
    alembic("upgrade", "head")
    with upgraded.connect() as connection:
        compatible_from = select(schema_information.c.compatible_from)
        assert current_revision(connection) == following
        assert connection.execute(compatible_from).scalar() == following
        assert connection.execute(text("SELECT reason FROM poolsql.audit")).all() == []
    alembic("downgrade", last)
    with upgraded.connect() as connection:
        assert current_revision(connection) == last
        assert connection.execute(compatible_from).scalar() == last


# From an installed wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked wheel, in a directory with a name that is hard to write into configuration files."""
    built, place = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("späce %(here)s; ") / "site"
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", os.fspath(built)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=60)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def test_it_works_from_an_installed_wheel(empty: Database, installed: Path) -> None:
    with upgrading(empty.url, PYTHONPATH=os.fspath(installed)) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert output.startswith(os.fspath(installed / "poolsql"))
    assert output.split()[-2:] == ["None", head_revision()]
    check_schema(empty)


def test_the_wheel_carries_all_migrations_and_nothing_compiled(installed: Path) -> None:
    names = {path.relative_to(REPOSITORY / "migrations") for path in (REPOSITORY / "migrations").rglob("*.py")}
    carried = {path.relative_to(installed / "poolsql" / "migrations") for path in installed.rglob("migrations/**/*.py")}
    assert carried == names
    assert list(installed.rglob("*.pyc")) == []
