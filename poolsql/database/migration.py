"""Bringing the tables to this code's revision."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from alembic import command, context
from alembic.config import Config
from alembic.operations.ops import MigrationScript
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect, text

from poolsql.database.engine import Database
from poolsql.database.locks import Lock, wait_for_transaction_lock
from poolsql.database.opening import open_database
from poolsql.database.schema import current_revision, head_revision, migrations_directory, refuse_too_new
from poolsql.database.tables import SCHEMA, metadata
from poolsql.errors import PoolsqlError
from poolsql.settings import load_settings

UPGRADE_PATIENCE = 120.0
"""Seconds that an upgrade waits for another upgrade to end."""


def upgrade(database: Database) -> tuple[str | None, str]:
    """Bring the tables to this code's revision, one process at a time; returns the revision before and after.

    All migrations run in one transaction: one that fails or is interrupted leaves the tables as they were.

    Raises:
        DatabaseError: Another upgrade did not end in `UPGRADE_PATIENCE` seconds, or the upgrade failed.
        SchemaMismatchError: The tables are newer than this code can work with.
    """
    head = head_revision()
    with database.connect() as connection:
        if current_revision(connection) == head:
            return head, head
    with one_at_a_time(database) as connection:
        before = current_revision(connection)
        if before is not None and before >= head:
            refuse_too_new(database, connection, before, head)
            return before, before
        command.upgrade(_config(connection), "head")
        return before, head


@contextmanager
def one_at_a_time(database: Database) -> Iterator[Connection]:
    """A transaction in which one process at a time changes the schema or the rights to it.

    Raises:
        DatabaseError: Another process has been doing so for `UPGRADE_PATIENCE` seconds.
    """
    with database.transaction() as connection:
        wait_for_transaction_lock(connection, Lock.UPGRADE, patience=UPGRADE_PATIENCE)
        yield connection


def run_environment() -> None:
    """What ``migrations/env.py`` does: run the migrations on the given connection, or on the process's own database.

    Raises:
        SystemExit: Called by the ``alembic`` command, and the database cannot be used; says why on standard error.
    """
    given: Connection | None = context.config.attributes.get("connection")
    if given is not None:
        _run_migrations(given)
        return
    if context.is_offline_mode():
        raise CommandError("SQL without a database is not supported; leave --sql out")
    try:
        with open_database(load_settings(), direct=True) as database, one_at_a_time(database) as connection:
            _run_migrations(connection)
    except PoolsqlError as error:
        sys.stderr.write(f"alembic: {error}\n")
        raise SystemExit(error.exit_code) from error


def _run_migrations(connection: Connection) -> None:
    # A migration may take longer than any statement of the program should.
    connection.execute(text("SET LOCAL statement_timeout = 0"))
    # What every session of ours has, except through a pooler whose role was not given it.
    connection.execute(text("SET LOCAL search_path = public"))
    # Not IF NOT EXISTS: that wants the right to create schemas even where somebody made this one for us.
    if not inspect(connection).has_schema(SCHEMA):
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    context.configure(
        connection=connection,
        target_metadata=metadata,
        version_table_schema=SCHEMA,
        include_schemas=True,
        include_name=_ours,
        compare_server_default=True,
        process_revision_directives=_number,
    )
    with context.begin_transaction():
        context.run_migrations()


def _number(_: MigrationContext, __: object, made: list[MigrationScript]) -> None:
    """Name a new migration by the number after the last one's, so that names compare in order."""
    last = ScriptDirectory.from_config(context.config).get_current_head()
    for script in made:
        script.rev_id = f"{int(last or 0) + 1:04}"


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _ours(name: str | None, kind: str, _: object) -> bool:
    return name == SCHEMA if kind == "schema" else True
