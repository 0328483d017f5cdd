"""What every connection is told before its first statement, whatever the server, role or database says."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import scalar_row
from sqlalchemy.engine import URL

from poolsql.settings import Settings

_BLANK = "\\ "


def connection_arguments(url: URL, settings: Settings) -> dict[str, Any]:
    """What libpq is given besides the address; a parameter of the address itself wins."""
    ours: dict[str, Any] = {
        "connect_timeout": settings.connect_timeout,
        "application_name": "poolsql",
        "client_encoding": "utf8",
        # A server that vanished with its network or its power must not hold a renewal for the TCP defaults of a
        # quarter of an hour (a request that is not acknowledged, in milliseconds) or two hours (an answer that does
        # not come).
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
    }
    wanted = {key: value for key, value in ours.items() if key not in url.query}
    return {**wanted, "options": _session_options(url, settings)}


def session_values(settings: Settings) -> dict[str, str]:
    """What each of the server's settings has to be in a session of ours, as ``SET`` takes it."""
    return {
        "statement_timeout": _milliseconds(settings.statement_timeout),
        "lock_timeout": _milliseconds(settings.lock_timeout),
        "idle_in_transaction_session_timeout": "60000",
        # Postgres would otherwise plan each checkout anew for its tag filter, or compile a plan that runs for 1 ms.
        "plan_cache_mode": "force_generic_plan",
        "jit": "off",
        # Checkout relies on seeing the newest version of a row that it waited for or skipped.
        "default_transaction_isolation": "read committed",
        # The forms of times and intervals that psycopg can read.
        "timezone": "UTC",
        "datestyle": "ISO",
        "intervalstyle": "postgres",
        # Not "$user": for a role named poolsql that would make our schema the default one, which Alembic then
        # compares under another name.
        "search_path": "public",
    }


def keeps_its_session(connection: psycopg.Connection[Any]) -> bool:
    """Whether one server process serves all of a connection: false behind a pooler, where locks would be anybody's.

    A pooler tells its clients a process id of its own making.
    """
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute("SELECT pg_backend_pid()").fetchone() == connection.info.backend_pid


def _session_options(url: URL, settings: Settings) -> str:
    own = " ".join(f"-c {name}={value.replace(' ', _BLANK)}" for name, value in session_values(settings).items())
    # Postgres takes the last value of each: the address's own options win.
    given = url.query.get("options", "")
    return f"{own} {given if isinstance(given, str) else ' '.join(given)}".strip()


def _milliseconds(seconds: float) -> str:
    # 0 would mean: never.
    return str(max(1, round(seconds * 1000)))
