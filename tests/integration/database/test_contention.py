"""Others who are there at the same time: 40001, 40P01 and 55P03 are tried again at once, and pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.failures import LEAST_CONTENTION_TRIES
from poolsql.database.statements import Statement
from poolsql.errors import DatabaseError, DatabaseUnavailableError
from tests.fixtures.conditions import until
from tests.integration.database.conftest import Observer

Open = Callable[..., Database]

ADD = Statement("add", "UPDATE public.accounts SET value = value + 1 WHERE id = %(id)s RETURNING value")
# Takes the second account, waits for whoever holds the advisory lock, and then takes the first.
ADD_TO_BOTH = Statement(
    "add_to_both",
    """
    WITH second AS MATERIALIZED (SELECT id FROM public.accounts WHERE id = 2 FOR UPDATE),
    paused AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared(42), id FROM second),
    first AS MATERIALIZED (
        SELECT accounts.id FROM public.accounts, paused WHERE accounts.id = paused.id - 1 FOR UPDATE OF accounts
    )
    UPDATE public.accounts SET value = value + 1 FROM first WHERE accounts.id >= first.id RETURNING value
    """,
)


@pytest.fixture(autouse=True)
def accounts(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(text("DROP TABLE IF EXISTS public.accounts"))
        connection.execute(text("CREATE TABLE public.accounts (id int PRIMARY KEY, value int NOT NULL)"))
        connection.execute(text("INSERT INTO public.accounts VALUES (1, 0), (2, 0)"))


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as executor:
        yield executor


class Tries:
    """A statement's tries: how they failed, and what happens after which failure."""

    def __init__(self, database: Database, statement: Statement, **parameters: object) -> None:
        self.failures: list[str | None] = []
        self.after: dict[int, Callable[[], object]] = {}
        self._database = database
        self._statement = statement
        self._parameters = parameters

    def __call__(self) -> Any:
        try:
            return self._database.run_once(self._statement, self._parameters)
        except psycopg.Error as error:
            self.failures.append(error.sqlstate)
            self.after.get(len(self.failures), lambda: None)()
            raise


def test_the_victim_of_a_deadlock_tries_again_and_passes(
    database: Database, other: psycopg.Connection[object], observer: Observer, threads: ThreadPoolExecutor
) -> None:
    try:
        other.execute("SET deadlock_timeout = '1h'")
    except psycopg.errors.InsufficientPrivilege:
        pytest.skip("only a superuser can decide who is the victim")
    other.execute("UPDATE public.accounts SET value = 10 WHERE id = 1")
    tries = Tries(database, ADD_TO_BOTH)
    with database.connect() as gate:
        gate.execute(text("SELECT pg_advisory_lock(42)"))
        running = threads.submit(database.repeat, tries)
        until(observer.blocked)
        waiting = threads.submit(other.execute, "UPDATE public.accounts SET value = 20 WHERE id = 2")
        until(lambda: len(observer.blocked()) == 2)
        # Ours is the second to wait, so it closes the circle, and the other one never looks.
        gate.execute(text("SELECT pg_advisory_unlock(42)"))
    waiting.result(30)
    other.commit()
    assert sorted(row.value for row in running.result(30)) == [11, 21]
    assert tries.failures == ["40P01"]


def test_a_transaction_that_could_not_be_serialized_is_tried_again(
    database_url: URL,
    opened: Open,
    other: psycopg.Connection[object],
    observer: Observer,
    threads: ThreadPoolExecutor,
) -> None:
    url = database_url.update_query_dict({"options": r"-c default_transaction_isolation=repeatable\ read"})
    database = opened(url)
    other.execute("UPDATE public.accounts SET value = 10 WHERE id = 1")
    tries = Tries(database, ADD, id=1)
    running = threads.submit(database.repeat, tries)
    until(observer.blocked)
    other.commit()
    assert running.result(30)[0].value == 11
    assert tries.failures == ["40001"]


def test_a_lock_that_did_not_come_free_in_time_is_tried_again(
    database_url: URL, opened: Open, other: psycopg.Connection[object]
) -> None:
    database = opened(database_url, lock_timeout=0.03)
    other.execute("UPDATE public.accounts SET value = 10 WHERE id = 1")
    tries = Tries(database, ADD, id=1)
    tries.after[3] = other.commit
    assert database.repeat(tries)[0].value == 11
    assert tries.failures == ["55P03"] * 3


def test_who_has_no_patience_still_tries_a_few_times(
    database_url: URL, opened: Open, other: psycopg.Connection[object]
) -> None:
    database = opened(database_url, lock_timeout=0.01)
    other.execute("UPDATE public.accounts SET value = 10 WHERE id = 1")
    tries = Tries(database, ADD, id=1)
    with pytest.raises(DatabaseError, match="is too busy: canceling statement due to lock timeout") as caught:
        database.repeat(tries, patience=0)
    assert tries.failures == ["55P03"] * LEAST_CONTENTION_TRIES
    # The server is there: whoever asks for the exit code is not told otherwise.
    assert not isinstance(caught.value, DatabaseUnavailableError)
    other.rollback()
    assert database.run(ADD, {"id": 1})[0].value == 1
