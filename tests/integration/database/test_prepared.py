"""Hot statements: prepared once for each connection, and again whenever the server has forgotten them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from poolsql.database.engine import Database
from poolsql.database.prepared import PreparedStatements
from poolsql.database.statements import Statement

ANSWER = Statement("answer", "SELECT %(number)s::bigint AS number, %(words)s::text[] AS words, %(id)s::uuid AS id")
VALUES = {"number": 1, "words": ["a", None, 'b"'], "id": UUID(int=7)}


@pytest.fixture
def connection(database: Database) -> Iterator[psycopg.Connection[Any]]:
    """One that nobody else uses."""
    address = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def prepared(connection: psycopg.Connection[Any]) -> list[str]:
    """What the server keeps for this session, by name."""
    rows = connection.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'poolsql%' ORDER BY name")
    return [name for (name,) in rows]


def test_a_statement_is_prepared_at_its_first_use_and_answers_by_name(connection: psycopg.Connection[Any]) -> None:
    statements = PreparedStatements(connection)
    for _ in range(3):
        (row,) = statements.run(ANSWER, VALUES)
        assert (row.number, row.words, row.id) == (1, ["a", None, 'b"'], UUID(int=7))
    assert len(prepared(connection)) == 1


@pytest.mark.parametrize("number", [None, -1, 2**15, 2**31, 2**63 - 1])
def test_values_of_any_size_use_one_preparation(connection: psycopg.Connection[Any], number: int | None) -> None:
    statements = PreparedStatements(connection)
    statements.run(ANSWER, VALUES)
    (row,) = statements.run(ANSWER, {**VALUES, "number": number})
    assert row.number == number
    assert len(prepared(connection)) == 1


@pytest.mark.parametrize("forgets", ["DISCARD ALL", "BEGIN; ROLLBACK", "DROP TABLE IF EXISTS nothing"])
def test_what_the_server_has_forgotten_is_prepared_again(connection: psycopg.Connection[Any], forgets: str) -> None:
    connection.prepare_threshold = 1
    statements = PreparedStatements(connection)
    other = Statement("other", "SELECT %(thing)s::jsonb AS thing")
    for _ in range(2):
        assert statements.run(ANSWER, VALUES)
        (row,) = statements.run(other, {"thing": Jsonb({"a": 1})})
        assert row.thing == {"a": 1}
        for _ in range(3):
            connection.execute("SELECT 1")  # psycopg drops everything only if it has prepared something itself
        for part in forgets.split("; "):
            connection.execute(part.encode())
        assert prepared(connection) == []


def test_nothing_is_prepared_where_the_next_statement_may_reach_another_session(
    connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "prepare_threshold", None)
    statements = PreparedStatements(connection)
    for _ in range(3):
        (row,) = statements.run(ANSWER, VALUES)
        assert row.number == 1
    assert prepared(connection) == []


def test_a_refused_statement_is_the_drivers_own_error(connection: psycopg.Connection[Any]) -> None:
    statements = PreparedStatements(connection)
    with pytest.raises(psycopg.errors.NumericValueOutOfRange) as refused:
        statements.run(ANSWER, {**VALUES, "number": 2**63})
    assert "9223372036854775808" in str(refused.value)
    with pytest.raises(psycopg.errors.SyntaxError):
        statements.run(Statement("wrong", "SELEC 1"), {})
    assert statements.run(ANSWER, VALUES)


def test_a_statement_without_columns_has_no_rows(connection: psycopg.Connection[Any]) -> None:
    assert PreparedStatements(connection).run(Statement("nothing", "SET application_name = 'poolsql'"), {}) == []
