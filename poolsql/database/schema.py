"""Which revision the tables have, and whether this code can work with it.

Without Alembic, whose import takes as long as a whole command: only those who upgrade need it.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect, select

from poolsql.database.engine import Database
from poolsql.database.tables import SCHEMA, schema_information
from poolsql.errors import SchemaMismatchError

_alembic_version = Table("alembic_version", MetaData(schema=SCHEMA), Column("version_num", Text))


def migrations_directory() -> Path:
    """Where the migrations are: inside an installed package, or beside it in the source tree."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def head_revision() -> str:
    """The revision that this code wants: the number of the last migration, which its file's name begins with.

    Raises:
        SchemaMismatchError: This installation carries no migrations.
    """
    files = (migrations_directory() / "versions").glob("[0-9]*_*.py")
    revisions = [file.name.partition("_")[0] for file in files]
    if not revisions:
        raise SchemaMismatchError(f"there are no migrations in {migrations_directory()}; install poolsql anew")
    return max(revisions)


def current_revision(connection: Connection) -> str | None:
    """The revision that the database has; None when it has no tables of ours."""
    if not inspect(connection).has_table("alembic_version", schema=SCHEMA):
        return None
    return connection.execute(select(_alembic_version.c.version_num)).scalar()


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
        refuse_too_new(database, connection, current, head)


def refuse_too_new(database: Database, connection: Connection, current: str, head: str) -> None:
    """Refuse tables of a later revision that say that this code is too old for them.

    Raises:
        SchemaMismatchError: They do.
    """
    if current <= head:
        return
    compatible_from = connection.execute(select(schema_information.c.compatible_from)).scalar()
    if compatible_from is None or compatible_from > head:
        raise SchemaMismatchError(
            f"database {database.address} has poolsql tables of revision {current}, this code knows only {head}; "
            "install a newer poolsql"
        )
