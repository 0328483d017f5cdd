"""Connections that break and servers that go away: hot statements go on by themselves, within their patience."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database import engine, failures
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import DatabaseError, DatabaseUnavailableError
from tests.fixtures.conditions import until
from tests.fixtures.databases import Role
from tests.integration.database.clusters import Cluster
from tests.integration.database.conftest import Observer

Open = Callable[..., Database]

PID = Statement("pid", "SELECT pg_backend_pid() AS pid")
COUNT = Statement("count", "UPDATE public.counter SET value = value + 1 RETURNING value")


@pytest.fixture(scope="module", autouse=True)
def counter(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(text("CREATE TABLE public.counter (value int)"))
        connection.execute(text("INSERT INTO public.counter VALUES (0)"))


@pytest.fixture
def pooled(database_url: URL, opened: Open) -> Database:
    """A database whose pool holds one idle connection."""
    database = opened(database_url)
    database.run(PID, {})
    return database


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as executor:
        yield executor


def pid_of(database: Database) -> int:
    return int(database.run(PID, {})[0].pid)


def fill_pool(database: Database, count: int) -> list[int]:
    """Leave that many idle connections in the pool; their sessions' process ids."""
    held = [database.engine.raw_connection() for _ in range(count)]
    pids = [connection.driver_connection.info.backend_pid for connection in held if connection.driver_connection]
    for connection in held:
        connection.close()
    return pids


def counting(database: Database, statement: Statement) -> tuple[Callable[[], object], list[BaseException]]:
    """Work that runs a statement once, and the failures of its tries."""
    failed: list[BaseException] = []

    def work() -> object:
        try:
            return database.run_once(statement, {})
        except psycopg.Error as error:
            failed.append(error)
            raise

    return work, failed


# 57P01


def test_an_idle_connection_that_was_ended_is_replaced(pooled: Database, observer: Observer) -> None:
    before = pid_of(pooled)
    observer.end(before)
    assert pid_of(pooled) != before


def test_all_connections_that_died_together_cost_one_failed_try(pooled: Database, observer: Observer) -> None:
    observer.end(*fill_pool(pooled, 5))
    work, failed = counting(pooled, PID)
    pooled.repeat(work)
    assert len(failed) == 1


def test_without_patience_the_next_try_passes(pooled: Database, observer: Observer) -> None:
    observer.end(*fill_pool(pooled, 3))
    with pytest.raises(DatabaseUnavailableError, match="cannot be reached: terminating connection"):
        pooled.run(PID, {}, patience=0)
    assert pooled.run(PID, {}, patience=0)


def test_a_connection_that_is_ended_in_the_middle_of_its_statement_is_replaced(
    pooled: Database, other: psycopg.Connection[object], observer: Observer, threads: ThreadPoolExecutor
) -> None:
    other.execute("UPDATE public.counter SET value = 100")
    running = threads.submit(pooled.run, COUNT, {})
    (victim,) = until(observer.blocked)
    observer.end(victim)
    other.commit()
    assert running.result(30)[0].value == 101


def test_work_that_is_not_repeated_gets_a_connection_that_lives(pooled: Database, observer: Observer) -> None:
    observer.end(*fill_pool(pooled, 3))
    with pooled.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    observer.end(*fill_pool(pooled, 3))
    with pooled.transaction() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


@pytest.mark.parametrize("way", ["connect", "transaction"])
def test_work_that_is_not_repeated_says_that_its_connection_was_lost(
    pooled: Database, observer: Observer, way: str
) -> None:
    def lose_it() -> None:
        with getattr(pooled, way)() as connection:
            observer.end(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
            connection.execute(text("SELECT 1"))

    with pytest.raises(DatabaseUnavailableError, match="terminating connection"):
        lose_it()
    with getattr(pooled, way)() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1


# The check of idle connections


def test_a_connection_that_was_idle_for_long_is_asked_before_its_use(
    pooled: Database, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "IDLE_BEFORE_CHECK", 0.0)
    observer.end(*fill_pool(pooled, 3))
    assert pooled.run_once(PID, {})


def test_a_connection_that_was_used_just_now_is_not_asked(pooled: Database, observer: Observer) -> None:
    observer.end(pid_of(pooled))
    with pytest.raises(psycopg.errors.AdminShutdown):
        pooled.run_once(PID, {})
    assert pooled.run_once(PID, {})


def test_a_connection_that_answers_stays(pooled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    before = pid_of(pooled)
    monkeypatch.setattr(engine, "IDLE_BEFORE_CHECK", 0.0)
    assert pid_of(pooled) == before


# 53300, 25006


def test_it_waits_for_a_free_connection_of_the_server(
    database_url: URL, new_role: Callable[..., Role], opened: Open
) -> None:
    url = new_role("LOGIN CONNECTION LIMIT 1").at(database_url)
    first = opened(url)
    blocking = first.engine.raw_connection()
    second = opened(url)
    with pytest.raises(DatabaseUnavailableError, match="nothing left to give: too many connections for role"):
        second.run(PID, {}, patience=0)

    work, failed = counting(second, PID)

    def free_after_failures() -> object:
        if len(failed) == 2:
            blocking.close()
            first.close()
        return work()

    assert second.repeat(free_after_failures)
    assert len(failed) >= 2


def test_a_server_that_only_reads_is_left_for_one_that_writes(
    administration: Database, database_url: URL, new_role: Callable[..., Role], opened: Open
) -> None:
    role = new_role()
    set_read_only = f'ALTER ROLE "{role.name}" SET default_transaction_read_only = '
    with administration.connect() as connection:
        connection.execute(text(f"{set_read_only} on"))
    with opened(database_url).connect() as connection:
        connection.execute(text(f'GRANT SELECT, UPDATE ON public.counter TO "{role.name}"'))
    database = opened(role.at(database_url))
    fill_pool(database, 5)
    with pytest.raises(DatabaseUnavailableError, match="only reads: cannot execute UPDATE in a read-only"):
        database.run(COUNT, {}, patience=0)

    fill_pool(database, 5)
    work, failed = counting(database, COUNT)

    def promote_after_failures() -> object:
        if len(failed) == 2:
            with administration.connect() as connection:
                connection.execute(text(f"{set_read_only} off"))
        return work()

    assert database.repeat(promote_after_failures)
    # Each failure drops all idle connections, so those that were made before do not cost a try each.
    assert [type(failure) for failure in failed] == [psycopg.errors.ReadOnlySqlTransaction] * 2


def test_what_is_nobodys_fault_but_ours_surfaces_at_once(pooled: Database) -> None:
    work, failed = counting(pooled, Statement("wrong", "SELECT 1/0"))
    with pytest.raises(DatabaseError, match=r": division by zero$") as caught:
        pooled.repeat(work)
    assert not isinstance(caught.value, DatabaseUnavailableError)
    assert len(failed) == 1
    assert pid_of(pooled)


# A server that restarts


def test_statements_go_on_while_their_server_restarts(
    cluster: Cluster, opened: Open, threads: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    database = opened(cluster.url)
    stop = threading.Event()

    def keep_asking() -> int:
        asked = 0
        while not stop.is_set():
            database.run(PID, {})
            asked += 1
        return asked

    asking = [threads.submit(keep_asking) for _ in range(3)]
    fill_pool(database, 3)
    try:
        for _ in range(2):
            cluster.stop()
            cluster.start()
            database.run(PID, {})
            with database.transaction() as connection:
                connection.execute(text("SELECT 1"))
    finally:
        stop.set()
    assert all(future.result(30) > 2 for future in asking)
    assert "Traceback" not in caplog.text


def test_patience_ends(
    cluster: Cluster, opened: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "SILENCE", 0.0)
    database = opened(cluster.url)
    database.patience = 1.2
    cluster.stop()
    began = time.monotonic()
    try:
        with pytest.raises(DatabaseUnavailableError, match="No such file or directory"):
            database.run(PID, {})
    finally:
        cluster.start()
    assert 1.2 <= time.monotonic() - began < 10
    # Whoever watches learns once why nothing happens.
    (record,) = [record for record in caplog.records if record.name == "poolsql.database.failures"]
    assert "trying again for up to 1.2 s" in record.getMessage()
    assert pid_of(database)
