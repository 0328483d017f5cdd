"""Database addresses as people have them, and as SQLAlchemy and psycopg want them."""

from __future__ import annotations

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from poolsql.errors import BadInputError

_SCHEMES = {"postgres", "postgresql", "postgresql+psycopg"}


def database_address(text: str, *, name: str = "POOLSQL_DATABASE_URL") -> URL:
    """Read a Postgres address: ``postgres://`` or ``postgresql://`` with everything libpq understands as a query.

    Args:
        text: The address; ``?sslmode=…``, ``?host=/socket/directory`` and the like are passed on to libpq.
        name: Where it was written; the error message names it. The address itself may hold a password and is
            never repeated in a message.

    Raises:
        BadInputError: It is no address, of another database, or names no database.
    """
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError):
        raise BadInputError(f"{name} is not a database address; write postgresql://user@host/database") from None
    if url.drivername not in _SCHEMES:
        raise BadInputError(
            f"{name} names the database kind {url.drivername!r}; poolsql needs Postgres: postgresql://user@host/database"
        )
    if not url.database:
        raise BadInputError(f"{name} names no database; write postgresql://user@host/database")
    return url.set(drivername="postgresql+psycopg")


def readable(url: URL) -> str:
    """The address for messages: without password, without driver."""
    return url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)
