"""Advisory locks: one holder, given back whatever happens, never believed in when it was lost."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database import locks
from poolsql.database.engine import Database
from poolsql.database.locks import Lock, try_session_lock, unlock_session, wait_for_transaction_lock
from poolsql.errors import DatabaseError, DatabaseUnavailableError
from tests.integration.database.conftest import Observer

Open = Callable[..., Database]

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def is_free(database: Database) -> bool:
    with database.connect() as connection:
        free = try_session_lock(connection, Lock.UPGRADE)
        if free:
            unlock_session(connection, Lock.UPGRADE)
        return free


def test_only_one_transaction_holds_it_until_its_end(database: Database) -> None:
    with database.transaction() as connection:
        assert is_free(database)
        wait_for_transaction_lock(connection, Lock.UPGRADE, patience=0)
        assert not is_free(database)
        connection.execute(text("SELECT 1"))
        assert not is_free(database)
    assert is_free(database)


def test_it_is_given_back_when_the_transaction_fails(database: Database) -> None:
    def fail() -> None:
        with database.transaction() as connection:
            wait_for_transaction_lock(connection, Lock.UPGRADE, patience=0)
            connection.execute(text("SELECT 1/0"))

    with pytest.raises(DatabaseError, match="division by zero"):
        fail()
    assert is_free(database)


def test_who_comes_second_gives_up_when_his_patience_ends(database: Database) -> None:
    with database.transaction() as first:
        wait_for_transaction_lock(first, Lock.UPGRADE, patience=0)
        with (
            pytest.raises(DatabaseError, match=r"holding the lock UPGRADE for over 0.05 s; wait for it"),
            database.transaction() as second,
        ):
            wait_for_transaction_lock(second, Lock.UPGRADE, patience=0.05)


def test_who_comes_second_gets_it_when_it_comes_free(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOOK_EVERY", 0.01)

    def take() -> bool:
        with database.transaction() as connection:
            wait_for_transaction_lock(connection, Lock.UPGRADE, patience=30)
            return True

    with ThreadPoolExecutor() as threads:
        with database.transaction() as first:
            wait_for_transaction_lock(first, Lock.UPGRADE, patience=0)
            second = threads.submit(take)
            assert not is_free(database)
        assert second.result(30)


def test_a_lock_of_a_session_that_was_lost_is_not_given_back_in_silence(database: Database) -> None:
    with database.connect() as connection:
        assert try_session_lock(connection, Lock.UPGRADE)
        connection.execute(text("SELECT pg_advisory_unlock_all()"))
        with pytest.raises(DatabaseError, match="was not held by its connection; is a connection pooler in between"):
            unlock_session(connection, Lock.UPGRADE)


def test_a_connection_that_is_lost_says_so_and_takes_its_lock_along(
    database_url: URL, opened: Open, observer: Observer
) -> None:
    database = opened(database_url)

    def lose_the_connection() -> None:
        with database.transaction() as connection:
            wait_for_transaction_lock(connection, Lock.UPGRADE, patience=0)
            observer.end(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
            connection.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnavailableError, match="terminating connection"):
        lose_the_connection()
    assert is_free(database)
