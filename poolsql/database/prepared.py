"""Hot statements on one connection: prepared at their first use, each run by one call of libpq.

A cursor of psycopg does the same, and much that no hot statement needs: with several processes on few cores it costs a
fifth of the checkout rate. Values and rows go through psycopg's own adapters, and waiting stays psycopg's, so that
Ctrl-C ends it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGresult

from poolsql.database.statements import Parameters, Statement

Row = Any
"""A named tuple with the columns that the statement returns."""


class PreparedStatements:
    """What one connection has prepared. Like the connection, it is of one thread at a time.

    Behind a connection pooler, where the next statement may reach another server process, nothing is prepared.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._prepares = connection.prepare_threshold is not None
        self._adapters = Transformer(connection)
        self._numbers = count()
        self._names: dict[Statement, bytes] = {}
        self._rows: dict[Statement, Callable[[Sequence[Any]], Row]] = {}

    def run(self, statement: Statement, parameters: Parameters) -> Sequence[Row]:
        """Run a statement and return its rows.

        Raises:
            psycopg.Error: The server refused it, or the connection was lost.
        """
        values = statement.in_order(parameters)
        given = self._adapters.dump_sequence(values, [PyFormat.TEXT] * len(values))
        try:
            result = self._execute(statement, given)
        except InvalidSqlStatementName:
            # After a rollback or a change of tables psycopg drops all that is prepared on its connection.
            self._names.clear()
            result = self._execute(statement, given)
        if result.status == ExecStatus.COMMAND_OK:
            return []
        self._adapters.set_pgresult(result)
        return self._adapters.load_rows(0, result.ntuples, self._rows.get(statement) or self._row(statement, result))

    def _execute(self, statement: Statement, given: Sequence[Buffer | None]) -> PGresult:
        server = self._connection.pgconn
        if self._prepares:
            server.send_query_prepared(self._names.get(statement) or self._prepare(statement), given)
        else:
            server.send_query_params(statement.numbered, given)
        return self._answer()

    def _prepare(self, statement: Statement) -> bytes:
        name = b"poolsql_%d" % next(self._numbers)
        # Of no types: the statement itself tells them, the same ones for all values.
        self._connection.pgconn.send_prepare(name, statement.numbered)
        self._answer()
        self._names[statement] = name
        return name

    def _answer(self) -> PGresult:
        result: PGresult
        (result,) = self._connection.wait(execute(self._connection.pgconn))
        if result.status not in {ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK}:
            raise error_from_result(result, encoding=self._connection.info.encoding)
        return result

    def _row(self, statement: Statement, result: PGresult) -> Callable[[Sequence[Any]], Row]:
        names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
        # A column without a name, or with an odd one, gets one.
        row: Callable[[Sequence[Any]], Row] = namedtuple("Row", names, rename=True)._make  # type: ignore[attr-defined]  # noqa: PYI024 - the server tells the names
        self._rows[statement] = row
        return row
