"""Connections to one fleet's Postgres."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from poolsql.database.addresses import readable
from poolsql.database.failures import Failure, classify, retrying, translate
from poolsql.database.statements import Parameters, Statement
from poolsql.settings import Settings

# A connection that was used just now is not asked whether it lives: the question costs a quarter of the checkout
# rate, and a dead one is noticed and replaced by the statement's own retry.
IDLE_BEFORE_CHECK = 5.0

Result = TypeVar("Result")

Row = Any
"""A named tuple with the columns that the statement returns."""


class Database:
    """A pool of AUTOCOMMIT connections, with time-outs on every one, and the retries of DESIGN's error classes."""

    def __init__(self, url: URL, settings: Settings, *, pool_size: int = 5) -> None:
        self.url = url
        self.address = readable(url)
        self.patience = 15.0
        """Seconds for which a lost database is tried again before `DatabaseUnavailableError` surfaces."""
        self.engine = _engine(url, settings, pool_size)

    def run(self, statement: Statement, parameters: Parameters, *, patience: float | None = None) -> Sequence[Row]:
        """Run a hot statement that may be repeated, and return its rows.

        Raises:
            DatabaseUnavailableError: No connection for `patience` seconds (default: `self.patience`).
            DatabaseError: Anything else that Postgres refused.
        """
        return self.repeat(lambda: self.run_once(statement, parameters), patience=patience)

    def repeat(self, work: Callable[[], Result], *, patience: float | None = None) -> Result:
        """Do work that may be repeated until it passes; for work that has to know that it is a repetition.

        Raises:
            DatabaseUnavailableError: As `run`.
            DatabaseError: As `run`.
        """
        try:
            return retrying(patience=self.patience if patience is None else patience)(work)
        except (psycopg.Error, DBAPIError, PoolTimeoutError) as error:
            raise translate(error, self.address) from error

    def run_once(self, statement: Statement, parameters: Parameters) -> Sequence[Row]:
        """Run a hot statement once; the driver's own errors surface."""
        pooled = self.engine.raw_connection()
        try:
            connection = cast("psycopg.Connection[Any]", pooled.driver_connection)
            with connection.cursor(row_factory=namedtuple_row) as cursor:
                cursor.execute(statement.query, parameters)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            _drop_if_broken(pooled, error)
            raise
        finally:
            pooled.close()

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A SQLAlchemy connection in AUTOCOMMIT, for work that is not hot.

        Raises:
            DatabaseUnavailableError: No connection could be made for `self.patience` seconds, or it was lost.
            DatabaseError: Anything else that Postgres refused.
        """
        try:
            connection = retrying(patience=self.patience)(self.engine.connect)
        except (DBAPIError, PoolTimeoutError) as error:
            raise translate(error, self.address) from error
        with connection:
            try:
                yield connection
            except DBAPIError as error:
                raise translate(error, self.address) from error

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A SQLAlchemy connection inside one transaction. Never held while a browser or the network works (I7).

        Raises:
            DatabaseUnavailableError: As `connect`.
            DatabaseError: As `connect`.
        """
        with self.connect() as connection:
            transactional = connection.execution_options(isolation_level="READ COMMITTED")
            with transactional.begin():
                yield transactional

    def close(self) -> None:
        """Close all idle connections; those in use are closed when they come back."""
        self.engine.dispose()

    def forget(self) -> None:
        """After a fork: drop the parent's connections without closing them, they are still the parent's."""
        self.engine.dispose(close=False)


def _engine(url: URL, settings: Settings, pool_size: int) -> Engine:
    engine = create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_size=pool_size,
        max_overflow=50,
        pool_timeout=10,
        pool_use_lifo=True,
        connect_args={
            "connect_timeout": settings.connect_timeout,
            # Milliseconds: a server that vanished with its network must not hold a renewal for the TCP default of
            # a quarter of an hour.
            "tcp_user_timeout": 10_000,
            "application_name": "poolsql",
            "options": _session_options(url, settings),
        },
    )
    event.listen(engine, "checkin", _stamp)
    event.listen(engine, "checkout", _check_if_idle)
    return engine


def _session_options(url: URL, settings: Settings) -> str:
    # The generic plan is forced because Postgres would otherwise plan each checkout anew for its tag filter.
    wanted = {
        "statement_timeout": f"{settings.statement_timeout * 1000:.0f}",
        "lock_timeout": f"{settings.lock_timeout * 1000:.0f}",
        "idle_in_transaction_session_timeout": "60000",
        "plan_cache_mode": "force_generic_plan",
        "timezone": "UTC",
        # Not "$user": for a role named poolsql that would make our schema the default one, which Alembic then
        # compares under another name.
        "search_path": "public",
    }
    own = " ".join(f"-c {name}={value}" for name, value in wanted.items())
    given = url.query.get("options", "")
    return f"{own} {given if isinstance(given, str) else ' '.join(given)}".strip()


def _stamp(_: object, record: ConnectionPoolEntry) -> None:
    record.info["idle_since"] = time.monotonic()


def _check_if_idle(connection: Any, record: ConnectionPoolEntry, _: object) -> None:
    idle_since = record.info.get("idle_since")
    if idle_since is None or time.monotonic() - idle_since < IDLE_BEFORE_CHECK:
        return
    try:
        connection.execute("SELECT 1")
    except psycopg.Error as error:
        raise DisconnectionError from error


def _drop_if_broken(pooled: PoolProxiedConnection, error: psycopg.Error) -> None:
    if classify(error) is Failure.CONNECTION:
        pooled.invalidate(error)
