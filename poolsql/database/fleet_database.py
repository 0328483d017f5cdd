"""The process's database as everything above wants it: open, with tables that fit this code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from poolsql.database.engine import Database
from poolsql.database.opening import open_database
from poolsql.database.role_settings import check_sessions
from poolsql.database.schema import check_schema, current_revision, head_revision
from poolsql.settings import Settings


@contextmanager
def open_fleet_database(
    settings: Settings, *, patience: float | None = None, quiet: bool = False
) -> Iterator[Database]:
    """Open the process's database with tables that fit this code, and close it at the end.

    The embedded server's tables are brought up to date; those of a configured server have to be.

    Args:
        settings: As `open_database` wants them.
        patience: Seconds for which a lost database is tried again; default: as `Database.patience`.
        quiet: Warn of nothing that only makes it slow.

    Raises:
        BadInputError: As `open_database`.
        DatabaseUnavailableError: The database cannot be reached.
        SchemaMismatchError: Its tables do not fit; the message names the remedy.
        SessionSettingsError: A connection pooler's sessions would give wrong answers; the message names the remedy.
    """
    with open_database(settings) as database:
        if patience is not None:
            database.patience = patience
        if settings.database_url is None:
            _bring_up_to_date(database)
        else:
            check_schema(database)
            check_sessions(database, settings, quiet=quiet)
        yield database


def _bring_up_to_date(database: Database) -> None:
    with database.connect() as connection:
        if current_revision(connection) == head_revision():
            return
    from poolsql.database.migration import upgrade  # noqa: PLC0415 - brings Alembic, which takes as long as a command

    upgrade(database)
