"""What a role needs that runs a fleet without owning its tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, LiteralString, cast

import psycopg
from psycopg.sql import SQL, Identifier
from sqlalchemy import Connection, text

from poolsql.database.engine import Database
from poolsql.database.migration import one_at_a_time
from poolsql.database.schema import check_schema
from poolsql.errors import BadInputError

FIXED = frozenset({"alembic_version", "outcomes", "schema_information"})
"""Tables that only a migration writes."""
APPEND_ONLY = frozenset({"attempts", "audit", "visits"})
"""Tables of history that nothing forgets yet."""

_MAINTAIN_SINCE = 170000


@dataclass(frozen=True, slots=True)
class Granted:
    """What was granted."""

    tables: int
    """How many tables and views the role can use now."""
    upkeep: bool
    """Whether it may vacuum the hot tables: the server has to be PostgreSQL 17 or newer, else only the owner may."""


def grant_runtime_rights(database: Database, role: str) -> Granted:
    """Let a role run a fleet: everything that needs no ownership, on today's tables and on those of later revisions.

    Repeating it changes nothing; what the role could do besides stays.

    Args:
        database: Opened as the tables' owner or a superuser.
        role: Its name as in ``pg_roles``: exact, not quoted.

    Raises:
        BadInputError: There is no such role, or the database was opened as somebody who cannot grant; nothing was
            changed.
        SchemaMismatchError: There are no tables yet, or they do not fit this code.
        DatabaseError: The database refused; nothing was changed.
    """
    check_schema(database)
    with one_at_a_time(database) as connection:
        _require_role(connection, role)
        owner = _require_owner(database, connection)
        tables = connection.execute(
            text(
                "SELECT relname AS name, relkind IN ('v', 'm') AS view, reloptions IS NOT NULL AS hot "
                "FROM pg_class WHERE relnamespace = 'poolsql'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') "
                "ORDER BY relname"
            )
        ).all()
        version = connection.execute(text("SELECT current_setting('server_version_num')::int")).scalar_one()
        grants = _Grants(connection, role)
        grants.run("GRANT USAGE ON SCHEMA poolsql TO {role}")
        grants.run("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA poolsql TO {role}")
        for table in tables:
            grants.run(_table_grant(table.name, view=table.view), table=table.name)
            if table.hot and not table.view and version >= _MAINTAIN_SINCE:
                grants.run("GRANT MAINTAIN ON TABLE poolsql.{table} TO {role}", table=table.name)
        later = "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA poolsql GRANT "
        grants.run(later + "SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}", owner=owner)
        grants.run(later + "USAGE, SELECT ON SEQUENCES TO {role}", owner=owner)
    return Granted(tables=len(tables), upkeep=version >= _MAINTAIN_SINCE)


def _table_grant(name: str, *, view: bool) -> LiteralString:
    if view or name in FIXED:
        return "GRANT SELECT ON TABLE poolsql.{table} TO {role}"
    if name in APPEND_ONLY:
        return "GRANT SELECT, INSERT ON TABLE poolsql.{table} TO {role}"
    return "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE poolsql.{table} TO {role}"


def _require_role(connection: Connection, role: str) -> None:
    known: list[str] = list(
        connection.execute(text("SELECT rolname FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY rolname")).scalars()
    )
    if role in known:
        return
    alike = next((name for name in known if name.lower() == role.lower()), None)
    raise BadInputError(
        f"there is no role {role!r}; "
        + (f"did you mean {alike!r}?" if alike else "create it first, such as: CREATE ROLE … LOGIN PASSWORD …")
    )


def _require_owner(database: Database, connection: Connection) -> str:
    # Postgres only warns when somebody grants what is not his to grant, so it is asked first.
    row = connection.execute(
        text(
            "SELECT pg_get_userbyid(relowner) AS owner, pg_has_role(relowner, 'USAGE') AS may "
            "FROM pg_class WHERE oid = 'poolsql.alembic_version'::regclass"
        )
    ).one()
    if not row.may:
        raise BadInputError(
            f"database {database.address}: only the tables' owner {row.owner!r} or a superuser can grant rights to "
            "them; use an address with that user"
        )
    return str(row.owner)


class _Grants:
    """Runs GRANT statements, whose names have to be part of the text."""

    def __init__(self, connection: Connection, role: str) -> None:
        self._driver = cast("psycopg.Connection[Any]", connection.connection.driver_connection)
        self._role = Identifier(role)

    def run(self, statement: LiteralString, **names: str) -> None:
        quoted = {key: Identifier(name) for key, name in names.items()}
        self._driver.execute(SQL(statement).format(role=self._role, **quoted))
