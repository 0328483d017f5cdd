"""Settings of the server's sessions that come from the role, for connections through a pooler: written and checked.

A pooler takes no start-up options, and a SET would reach other clients of it. So the role gets them in the database.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import psycopg
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import Connection, text

from poolsql.database.engine import Database
from poolsql.database.locks import Lock, wait_for_transaction_lock
from poolsql.database.sessions import keeps_its_session, session_values
from poolsql.errors import BadInputError, SessionSettingsError
from poolsql.settings import Settings

log = logging.getLogger(__name__)

PATIENCE = 120.0
"""Seconds that a change of settings waits for another one, or for an upgrade, to end."""

NEEDED: Mapping[str, Callable[[str], bool]] = {
    "timezone": lambda value: value.lower() in {"utc", "etc/utc", "gmt", "etc/gmt", "etc/uct", "uct"},
    "datestyle": lambda value: value.startswith("ISO"),
    "intervalstyle": lambda value: value == "postgres",
    "default_transaction_isolation": lambda value: value == "read committed",
    # What it leads to, not what it says: "$user" is no harm where there is no such schema.
    "search_path": lambda value: value in {"public", ""},
}
"""Settings with which answers would be wrong, or could not be read, and the values that will do. All others of
`session_values` bound what a mishap costs, or speed checkout up."""

RECONNECT = "have it make its connections to the server anew (PgBouncer: RECONNECT in its console)"

_LOOK = text(
    """
SELECT session_user AS role, current_database() AS database,
    (
        SELECT jsonb_object_agg(lower(name), setting) FROM pg_settings
        WHERE lower(name) = ANY (CAST(:names AS text[]))
    ) || jsonb_build_object('search_path', array_to_string(current_schemas(false), ', ')) AS current,
    (
        SELECT setconfig FROM pg_db_role_setting
        WHERE setrole = CAST(quote_ident(session_user) AS regrole)
          AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) AS given
"""
)


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """What a role was given, or would be."""

    role: str
    database: str
    """Its name on the server, which a pooler may know by another one."""
    statements: Sequence[str]
    """The SQL, for whoever may run it."""


def set_role_settings(
    database: Database, settings: Settings, role: str | None = None, *, dry_run: bool = False
) -> RoleSettings:
    """Give a role the settings that poolsql's sessions need, in this database; repeating it changes nothing.

    Sessions that are open keep theirs, those of a pooler too.

    Args:
        database: Through a pooler or not.
        settings: Name the time-outs.
        role: Its name as in ``pg_roles``; default: the one that the database was opened with, as the server knows it,
            which may do so by itself.
        dry_run: Only tell the statements.

    Raises:
        BadInputError: There is no such role, or the settings of another one are not ours to change; nothing was
            changed.
        DatabaseError: The database refused; nothing was changed.
    """
    with database.transaction() as connection:
        wait_for_transaction_lock(connection, Lock.UPGRADE, patience=PATIENCE)
        row = connection.execute(text("SELECT session_user AS role, current_database() AS database")).one()
        name = str(row.role) if role is None else role
        if not connection.execute(text("SELECT FROM pg_roles WHERE rolname = :name"), {"name": name}).all():
            raise BadInputError(f"there is no role {name!r}; write its name as Postgres has it")
        driver = _driver(connection)
        alter = SQL("ALTER ROLE {role} IN DATABASE {database} SET {name} = {value}")
        statements = [
            alter.format(
                role=Identifier(name), database=Identifier(row.database), name=Identifier(key), value=Literal(value)
            ).as_string(driver)
            for key, value in session_values(settings).items()
        ]
        if not dry_run:
            _run(driver, statements, role=name, by=row.role)
    return RoleSettings(name, row.database, statements)


def check_sessions(database: Database, settings: Settings, *, quiet: bool = False) -> None:
    """Behind a pooler, see whether its sessions are as poolsql needs them; what only makes it slow is a warning.

    It sees one of the sessions that the pooler holds open; others may be older and have other settings.

    Args:
        quiet: Leave the warnings out.

    Raises:
        SessionSettingsError: They are not; the message names the remedy.
        DatabaseError: The database failed.
    """
    wanted = session_values(settings)
    with database.connect() as connection:
        if keeps_its_session(_driver(connection)):
            return  # told as it started
        row = connection.execute(_LOOK, {"names": list(wanted)}).one()
    wrong = [name for name, fits in NEEDED.items() if not fits(row.current[name])]
    off = [name for name in wanted if name not in NEEDED and row.current[name] != wanted[name]]
    if wrong:
        raise SessionSettingsError(
            f"database {database.address}: the connection pooler's sessions have settings with which answers would be "
            f"wrong: {_told(wrong, row.current, wanted)}; {_remedy(wrong, row, wanted)}"
        )
    if off and not quiet:
        log.warning(
            "database %s: the connection pooler's sessions lack settings of poolsql's, so that checkouts are slower "
            "and work that hangs is not ended in time: %s; %s",
            database.address,
            _told(off, row.current, wanted),
            _remedy(off, row, wanted),
        )


def _run(driver: psycopg.Connection[Any], statements: Sequence[str], *, role: str, by: str) -> None:
    try:
        for statement in statements:
            driver.execute(statement.encode())
    except psycopg.errors.InsufficientPrivilege as error:
        raise BadInputError(
            f"the role {by!r} may not change settings of {role!r}; use an address with that user and name no role, or "
            "let a superuser run what --dry-run prints"
        ) from error


def _told(names: Sequence[str], current: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    return ", ".join(f"{name} is {current[name]!r} instead of {wanted[name]!r}" for name in names)


def _remedy(names: Sequence[str], row: Any, wanted: Mapping[str, str]) -> str:
    given = {name.lower(): value for name, _, value in (entry.partition("=") for entry in row.given or ())}
    if all(given.get(name) == wanted[name] for name in names):
        return f"the role {row.role!r} has them by now, but the pooler's sessions are older: {RECONNECT}"
    return f"run: poolsql db settings (for the role {row.role!r} in {row.database!r}); then {RECONNECT}"


def _driver(connection: Connection) -> psycopg.Connection[Any]:
    return cast("psycopg.Connection[Any]", connection.connection.driver_connection)
