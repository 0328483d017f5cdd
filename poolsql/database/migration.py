"""Bringing the tables to this code's revision, and refusing to work on tables that do not fit."""

from __future__ import annotations

import time
from contextlib import nullcontext
from pathlib import Path

from alembic import command, context
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect, select, text

from poolsql.database.engine import Database
from poolsql.database.locks import Lock, try_session_lock, unlock_session
from poolsql.database.opening import open_database
from poolsql.database.tables import SCHEMA, metadata, schema_information
from poolsql.errors import BadInputError, DatabaseError, SchemaMismatchError
from poolsql.settings import load_settings

UPGRADE_PATIENCE = 120.0
"""Seconds that an upgrade waits for another upgrade to end."""

_alembic_version = Table("alembic_version", MetaData(schema=SCHEMA), Column("version_num", Text))


def migrations_directory() -> Path:
    """Where the migrations are: inside an installed package, or beside it in the source tree."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def head_revision() -> str:
    """The revision that this code wants."""
    head = ScriptDirectory(str(migrations_directory())).get_current_head()
    assert head is not None, "the package carries at least one migration"  # noqa: S101 - a broken package
    return head


def current_revision(connection: Connection) -> str | None:
    """The revision that the database has; None when it has no tables of ours."""
    if not inspect(connection).has_table("alembic_version", schema=SCHEMA):
        return None
    return connection.execute(select(_alembic_version.c.version_num)).scalar()


def upgrade(database: Database) -> tuple[str | None, str]:
    """Bring the tables to this code's revision, one process at a time; returns the revision before and after.

    Raises:
        DatabaseError: Another upgrade did not end in `UPGRADE_PATIENCE` seconds, or the upgrade failed.
        SchemaMismatchError: The tables are newer than this code.
    """
    head = head_revision()
    with database.connect() as connection:
        deadline = time.monotonic() + UPGRADE_PATIENCE
        while not try_session_lock(connection, Lock.UPGRADE):
            if time.monotonic() > deadline:
                raise DatabaseError(
                    f"database {database.address}: another upgrade has been running for {UPGRADE_PATIENCE:.0f} s; "
                    "wait for it or end it, then try again"
                )
            time.sleep(0.2)
        try:
            before = current_revision(connection)
            if before is not None and before > head:
                raise SchemaMismatchError(_newer(database, before, head))
            if before != head:
                command.upgrade(alembic_config(database), "head")
            return before, head
        finally:
            unlock_session(connection, Lock.UPGRADE)


def check_schema(database: Database) -> None:
    """Refuse tables that this code cannot work with: older ones, and newer ones that say so.

    Revisions are numbered, so their names compare in order.

    Raises:
        SchemaMismatchError: The remedy is in the message.
    """
    head = head_revision()
    with database.connect() as connection:
        current = current_revision(connection)
        if current is None:
            raise SchemaMismatchError(f"database {database.address} has no poolsql tables; run: poolsql db upgrade")
        if current < head:
            raise SchemaMismatchError(
                f"database {database.address} has poolsql tables of revision {current}, this code needs {head}; "
                "run: poolsql db upgrade"
            )
        if current > head:
            compatible_from = connection.execute(select(schema_information.c.compatible_from)).scalar_one()
            if compatible_from > head:
                raise SchemaMismatchError(_newer(database, current, head))


def _newer(database: Database, current: str, head: str) -> str:
    return (
        f"database {database.address} has poolsql tables of revision {current}, this code knows only {head}; "
        "install a newer poolsql"
    )


def alembic_config(database: Database) -> Config:
    """Alembic's configuration for one open database, without a file."""
    config = Config()
    config.set_main_option("script_location", str(migrations_directory()).replace("%", "%%"))
    config.attributes["database"] = database
    return config


def run_environment() -> None:
    """What ``migrations/env.py`` does: run the migrations on the given database, or on the process's own."""
    given: Database | None = context.config.attributes.get("database")
    with nullcontext(given) if given is not None else open_database(load_settings(), direct=True) as database:
        if context.is_offline_mode():
            raise BadInputError("offline mode is not supported; give alembic a database to work on")
        with database.transaction() as connection:
            # A migration may take longer than any statement of the program should.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
            context.configure(
                connection=connection,
                target_metadata=metadata,
                version_table_schema=SCHEMA,
                include_schemas=True,
                include_name=_ours,
                compare_server_default=True,
            )
            with context.begin_transaction():
                context.run_migrations()


def _ours(name: str | None, kind: str, _: object) -> bool:
    return name == SCHEMA if kind == "schema" else True
