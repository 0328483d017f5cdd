"""Connections to one fleet's Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import URL, Engine
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection
from tenacity import Retrying

from poolsql.clocks import elapsed_clock
from poolsql.database.addresses import readable
from poolsql.database.failures import Failure, classify, retrying, translate
from poolsql.database.poolers import Connector
from poolsql.database.prepared import PreparedStatements, Row
from poolsql.database.statements import Parameters, Statement
from poolsql.errors import DatabaseUnavailableError
from poolsql.settings import Settings

IDLE_BEFORE_CHECK = 5.0
"""Seconds. A connection that was used just now is not asked whether it lives: the question costs a quarter of the
checkout rate, and a dead one is noticed and replaced by the statement's own retry."""

Result = TypeVar("Result")

FAILURES = (psycopg.Error, DBAPIError, PoolTimeoutError)
"""What the driver and SQLAlchemy raise."""


class Database:
    """A pool of AUTOCOMMIT connections, with time-outs on every one; what fails is tried again by its `Failure`."""

    def __init__(self, url: URL, settings: Settings, *, direct_url: URL | None = None, pool_size: int = 10) -> None:
        self.url = url
        self.direct_url = direct_url or url
        """The address of the server itself, for what a session must keep: locks and LISTEN."""
        self.address = readable(url)
        self.patience = 15.0
        """Seconds for which a lost database is tried again before `DatabaseUnavailableError` surfaces."""
        self.engine = _engine(url, pool_size)
        self._settings = settings
        self._failed_at = float("-inf")
        self._closed = False
        self._hurried = False
        event.listen(self.engine, "do_connect", Connector(url, settings).do_connect)
        event.listen(self.engine, "checkin", self._stamp)
        event.listen(self.engine, "checkout", self._check)

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
        began = elapsed_clock()
        try:
            return work()
        except FAILURES as failure:
            failed: BaseException = failure
        # Only now: a sixth of a checkout's time would go into the preparation for trying again.
        spent = elapsed_clock() - began
        with self._translated():
            return self._retrying(self.patience if patience is None else patience, spent)(_failed_once(work, failed))

    def run_once(self, statement: Statement, parameters: Parameters) -> Sequence[Row]:
        """Run a hot statement once; the driver's own errors surface."""
        return self._on_connection(lambda pooled: _prepared(pooled).run(statement, parameters))

    def run_many_once(self, statement: Statement, many: Sequence[Parameters]) -> list[Row]:
        """Run a hot statement for each of the parameters, in one round trip and one transaction; all rows, in order.

        The driver's own errors surface; then nothing was done.
        """

        def execute(pooled: PoolProxiedConnection) -> list[Row]:
            cursor = psycopg.RawCursor(_driver(pooled), row_factory=namedtuple_row)
            cursor.executemany(statement.numbered, map(statement.in_order, many), returning=True)
            return [row for result in cursor.results() for row in result.fetchall()]

        return self._on_connection(execute)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A SQLAlchemy connection in AUTOCOMMIT, for work that is not hot. It answered just now.

        Raises:
            DatabaseUnavailableError: No connection could be made for `self.patience` seconds, or it was lost.
            DatabaseError: Anything else that Postgres refused.
        """
        with self._translated(), self._retrying(self.patience)(self._answering) as connection:
            try:
                yield connection
            except (psycopg.Error, DBAPIError) as error:
                if self._distrusts(error):
                    connection.invalidate(error)
                raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A SQLAlchemy connection inside one transaction. Never held while a browser or the network works (I7).

        Raises:
            DatabaseUnavailableError: As `connect`.
            DatabaseError: As `connect`.
        """
        with self.connect() as connection, transaction_on(connection):
            yield connection

    @contextmanager
    def direct(self) -> Iterator[Database]:
        """The same database by its direct address, for what a session must keep; itself where there is no other."""
        if self.direct_url == self.url:
            yield self
            return
        opened = Database(self.direct_url, self._settings, pool_size=1)
        try:
            yield opened
        finally:
            opened.close()

    def hurry(self) -> None:
        """Lose all patience, also of work that is being tried again just now: this process has to end."""
        self._hurried = True

    def close(self) -> None:
        """Close all idle connections; those in use are closed when they come back, and no new one is made."""
        self._closed = True
        self.engine.dispose()

    def forget(self) -> None:
        """After a fork: drop the parent's connections without closing them, they are still the parent's."""
        self.engine.dispose(close=False)

    def __repr__(self) -> str:
        return f"<Database {self.address}>"

    def _on_connection(self, work: Callable[[PoolProxiedConnection], Result]) -> Result:
        self._refuse_if_closed()
        pooled = self.engine.raw_connection()
        try:
            return work(pooled)
        except BaseException as error:
            # Cut off by Ctrl-C, the connection is in the middle of something that nobody will read.
            if not isinstance(error, psycopg.Error) or self._distrusts(error):
                pooled.invalidate(error)
            raise
        finally:
            pooled.close()

    def _retrying(self, patience: float, spent: float = 0.0) -> Retrying:
        return retrying(self.address, patience=patience, spent=spent, hurried=lambda: self._hurried)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise translate(error, self.address) from error

    def _answering(self) -> Connection:
        """A connection that is not dead: the work on it, unlike a hot statement, is not repeated."""
        self._refuse_if_closed()
        connection = self.engine.connect()
        try:
            if "idle_since" in connection.info:
                _driver(connection.connection).execute("SELECT 1")
        except BaseException as error:
            connection.invalidate(error)
            connection.close()
            self._failed_at = elapsed_clock()
            raise
        return connection

    def _distrusts(self, error: BaseException) -> bool:
        """Whether a failure tells that its connection is of no use; then those that are idle now are not either."""
        lost = classify(error) is Failure.CONNECTION
        if lost:
            self._failed_at = elapsed_clock()
        return lost

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise DatabaseUnavailableError(f"database {self.address}: this connection was closed; connect anew")

    def _stamp(self, connection: psycopg.Connection[Any] | None, record: ConnectionPoolEntry) -> None:
        if connection is None:
            return  # invalidated
        if self._closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            record.invalidate()
        record.info["idle_since"] = elapsed_clock()

    def _check(self, connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        idle_since = record.info.get("idle_since")
        if idle_since is None:
            return  # made just now
        if idle_since <= self._failed_at:
            raise DisconnectionError("another connection was lost since this one was used")
        if elapsed_clock() - idle_since < IDLE_BEFORE_CHECK:
            return
        try:
            connection.execute("SELECT 1")
        except psycopg.Error as error:
            self._failed_at = elapsed_clock()
            raise DisconnectionError from error


@contextmanager
def transaction_on(connection: Connection) -> Iterator[None]:
    """One transaction on a connection of `Database.connect`, which is in AUTOCOMMIT again afterwards."""
    connection.rollback()  # nothing is open on the server; SQLAlchemy believes so once a statement has run
    connection.execution_options(isolation_level="READ COMMITTED")
    with connection.begin():
        yield
    connection.execution_options(isolation_level="AUTOCOMMIT")


def _engine(url: URL, pool_size: int) -> Engine:
    return create_engine(
        url,
        isolation_level="AUTOCOMMIT",
        pool_size=pool_size,
        # One beyond the size of the pool is closed when it comes back, and making it costs as much as a dozen
        # statements: many threads are served sooner by a few connections, each of which is busy for one statement.
        max_overflow=10,
        pool_timeout=10,
        pool_use_lifo=True,
        # In AUTOCOMMIT nothing is open when a connection comes back; one of which that is not true is not kept.
        pool_reset_on_return=None,
        # What a statement is given may be secret, and errors are logged.
        hide_parameters=True,
    )


def _driver(pooled: PoolProxiedConnection) -> psycopg.Connection[Any]:
    return cast("psycopg.Connection[Any]", pooled.driver_connection)


def _prepared(pooled: PoolProxiedConnection) -> PreparedStatements:
    """What the connection has prepared; kept as long as it is."""
    statements = pooled.info.get("prepared")
    if statements is None:
        statements = pooled.info["prepared"] = PreparedStatements(_driver(pooled))
    return cast("PreparedStatements", statements)


def _failed_once(work: Callable[[], Result], failed: BaseException) -> Callable[[], Result]:
    """Work whose first try has failed already, for who counts the tries."""
    failures = [failed]

    def again() -> Result:
        if failures:
            raise failures.pop()
        return work()

    return again
