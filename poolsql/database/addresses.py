"""Database addresses as people have them, and as SQLAlchemy and psycopg want them."""

from __future__ import annotations

import re
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy.engine import URL

from poolsql.errors import BadInputError

_SCHEMES = {"postgres", "postgresql", "postgresql+psycopg"}
_EXAMPLE = "postgresql://user@host/database"
_ESCAPES = "in a password %40 for @, %3A for :, %2F for /, %23 for #, %25 for %"


def database_address(text: str, *, name: str = "POOLSQL_DATABASE_URL") -> URL:
    """Read a Postgres address: ``postgres://`` or ``postgresql://``, as psql and every libpq program reads it.

    Args:
        text: The address; ``?sslmode=…``, ``?host=/socket/directory``, several hosts and the like are passed on.
        name: Where it was written; the error message names it. The address itself may hold a password and is
            never repeated in a message.

    Raises:
        BadInputError: It is no address, of another database, or names no database.
    """
    scheme, separator, rest = text.strip().partition("://")
    if not separator or not re.fullmatch(r"[\w+.-]+", scheme) or "\x00" in rest:
        raise BadInputError(f"{name} is not a database address; write {_EXAMPLE}")
    if scheme.lower() not in _SCHEMES:
        raise BadInputError(f"{name} names the database kind {scheme!r}; poolsql needs Postgres: {_EXAMPLE}")
    authority, _, path = rest.partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        # libpq would take the rest of the password for the host or the database, and messages name these.
        raise BadInputError(f"{name} has an @ too many; write {_EXAMPLE}, and {_ESCAPES}")
    parts = _parts(rest, name)
    if not parts.get("dbname"):
        raise BadInputError(f"{name} names no database; write {_EXAMPLE}")
    host, port = parts.pop("host", ""), parts.pop("port", "")
    if not all(_is_port(number) for number in port.split(",")):
        raise BadInputError(f"{name}: the port is no number from 1 to 65535; write {_EXAMPLE}, and {_ESCAPES}")
    one_host = bool(host) and not re.search(r"[/,@]", host)
    query = {} if one_host else {key: value for key, value in {"host": host, "port": port}.items() if value}
    return URL.create(
        "postgresql+psycopg",
        username=parts.pop("user", None),
        password=parts.pop("password", None),
        host=host if one_host else None,
        port=int(port) if one_host and port else None,
        database=parts.pop("dbname"),
        query={**query, **parts},
    )


def readable(url: URL) -> str:
    """The address for messages, good for psql: where the server is and who asks, nothing that could be a secret."""
    user = f"{quote(url.username, safe='')}@" if url.username else ""
    database = quote(url.database or "", safe="")
    if url.host:
        host = f"[{url.host}]" if ":" in url.host else quote(url.host)
        return f"postgresql://{user}{host}{f':{url.port}' if url.port else ''}/{database}"
    where = "&".join(f"{key}={quote(str(url.query[key]), safe='/,')}" for key in ("host", "port") if key in url.query)
    return f"postgresql://{user}/{database}{f'?{where}' if where else ''}"


def address_and_password(url: URL) -> tuple[str, str | None]:
    """The address for another program's command line, and apart from it the password, which has no place there."""
    return url._replace(drivername="postgresql", password=None).render_as_string(), url.password


def libpq_parameters(url: URL) -> str:
    """The whole address, password included, as libpq and psycopg read it without misunderstanding.

    As a URL SQLAlchemy writes it for itself: libpq refuses the spaces of its passwords, and takes the plus signs of
    its paths for such.
    """
    given = url.translate_connect_args(database="dbname", username="user")
    return make_conninfo(**given, **{key: str(value) for key, value in url.query.items()})


def _parts(rest: str, name: str) -> dict[str, str]:
    try:
        parts = conninfo_to_dict(f"postgresql://{rest}")
    except (psycopg.Error, UnicodeError) as error:
        # What libpq says may repeat a piece of the password; the name of a parameter does not.
        unknown = re.match(r'invalid URI query parameter: "(\w+)"', str(error))
        if unknown:
            raise BadInputError(f"{name}: Postgres knows no connection parameter {unknown[1]!r}; remove it") from None
        raise BadInputError(
            f"{name} is not a database address; write {_EXAMPLE}, and in a password %25 for %"
        ) from None
    return {key: str(value) for key, value in parts.items() if value not in {None, ""}}


def _is_port(text: str) -> bool:
    return not text or (text.isascii() and text.isdecimal() and len(text) <= 5 and 0 < int(text) < 65536)
