"""Who comes first starts the server, who leaves last stops it, and the dead do not count."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from sqlalchemy import create_engine, make_url, text

from poolsql.database.embedded import open_embedded_server, stop_embedded_server
from poolsql.database.embedded.locks import exclusive
from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError, DatabaseUnavailableError

Running = Callable[[Path], list[int]]
WaitUntil = Callable[[Callable[[], object]], None]


def test_a_new_server_has_our_database_and_durable_settings(place: Path, running: Running) -> None:
    directory = place / "new" / "deep"
    with open_embedded_server(directory) as server, psycopg.connect(server.url) as session:
        assert server.data_directory == directory / "data"
        asked = "fsync", "synchronous_commit", "full_page_writes", "server_encoding", "TimeZone", "listen_addresses"
        row = session.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in asked)).fetchone()
        assert row == ("on", "on", "on", "UTF8", "UTC", "")
        row = session.execute("SELECT current_user, current_database(), lower('ÄÖ'), 'B' < 'a'").fetchone()
        assert row == ("poolsql", "poolsql", "äö", True)
        assert directory.stat().st_mode & 0o067 == 0
        assert server.data_directory.stat().st_mode & 0o077 == 0
    assert not running(place)


def test_data_survives_the_last_user_and_close_can_be_repeated(directory: Path, running: Running) -> None:
    server = open_embedded_server(directory)
    with psycopg.connect(server.url) as session:
        session.execute("CREATE TABLE kept AS SELECT 7 AS number")
    server.close()
    server.close()
    assert not running(directory)
    with open_embedded_server(directory) as again, psycopg.connect(again.url) as session:
        assert again.url == server.url
        server.close()
        assert session.execute("SELECT number FROM kept").fetchone() == (7,)


def test_sqlalchemy_takes_the_address(directory: Path) -> None:
    with open_embedded_server(directory) as server:
        engine = create_engine(make_url(server.url).set(drivername="postgresql+psycopg"))
        with engine.connect() as connection:
            assert connection.execute(text("SELECT current_user")).scalar() == "poolsql"
        engine.dispose()


def test_only_the_last_user_stops_it(
    directory: Path, start_client: Any, client_user: int | None, running: Running
) -> None:
    first, second = (start_client(directory, user=client_user) for _ in range(2))
    assert first.read() == second.read() != ""
    assert len(running(directory)) == 1
    first.finish()
    assert len(running(directory)) == 1
    second.finish()
    assert not running(directory)


def test_a_killed_user_is_not_counted(directory: Path, start_client: Any, running: Running) -> None:
    starter = start_client(directory)
    url = starter.read()
    with open_embedded_server(directory):
        starter.kill()
        psycopg.connect(url).close()
    assert not running(directory)


def test_a_server_whose_only_user_was_killed_is_joined_and_then_stopped(
    directory: Path, start_client: Any, running: Running
) -> None:
    starter = start_client(directory)
    starter.read()
    before = running(directory)
    starter.kill()
    assert running(directory) == before
    with open_embedded_server(directory) as server:
        assert running(directory) == before
        psycopg.connect(server.url).close()
    assert not running(directory)


def test_a_process_that_ends_without_closing_leaves_nothing_running(
    directory: Path, start_client: Any, running: Running
) -> None:
    client = start_client(directory, "leave")
    assert client.read().startswith("postgresql://")
    client.finish()
    assert not running(directory)


def test_a_forked_child_is_no_user(directory: Path, start_client: Any, running: Running) -> None:
    client = start_client(directory, "fork")
    url = client.read()
    client.go_on()
    child = int(client.read())
    psycopg.connect(url).close()
    client.go_on()
    assert client.read() == "closed"
    assert not running(directory)
    open_embedded_server(directory).close()
    assert psutil.pid_exists(child)
    client.finish()


def test_a_forked_child_of_a_killed_user_holds_nothing(directory: Path, start_client: Any, running: Running) -> None:
    client = start_client(directory, "fork")
    client.read()
    client.go_on()
    child = psutil.Process(int(client.read()))
    try:
        client.kill()
        open_embedded_server(directory).close()
        assert child.is_running()
        assert not running(directory)
    finally:
        child.kill()


def test_many_that_open_and_close_at_once_always_get_a_living_server(
    place: Path, start_client: Any, client_user: int | None, running: Running
) -> None:
    clients = [start_client(place / "server", "6", client_user) for _ in range(4)]
    assert [client.read() for client in clients] == ["done"] * 4
    assert [client.process.wait(30) for client in clients] == [0] * 4
    assert not running(place)


def test_a_killed_server_is_recovered_at_the_next_open(
    directory: Path, start_client: Any, running: Running, client_user: int | None
) -> None:
    user = start_client(directory, user=client_user)
    url = user.read()
    with psycopg.connect(url) as session:
        session.execute("CREATE TABLE kept AS SELECT 7 AS number")
    [killed] = running(directory)
    psutil.Process(killed).kill()
    second = start_client(directory, user=client_user)
    assert second.read() == url
    with psycopg.connect(url) as session:
        assert session.execute("SELECT number FROM kept").fetchone() == (7,)
    assert running(directory) not in ([], [killed])
    user.finish()
    psycopg.connect(url).close()
    second.finish()
    assert not running(directory)


def test_a_server_whose_last_user_was_killed_can_be_stopped(
    directory: Path, start_client: Any, running: Running
) -> None:
    client = start_client(directory)
    client.read()
    assert not stop_embedded_server(directory)
    assert running(directory)
    client.kill()
    assert stop_embedded_server(directory)
    assert not running(directory)


def test_stopping_where_no_server_ever_was_changes_nothing(place: Path) -> None:
    assert stop_embedded_server(place / "server")
    assert not list(place.iterdir())


def test_waiting_for_others_ends_at_the_time_out(directory: Path) -> None:
    with open_embedded_server(directory):
        with (
            exclusive(directory / "start.lock", Deadline(1)),
            pytest.raises(DatabaseUnavailableError, match=r"start\.lock"),
        ):
            open_embedded_server(directory, timeout=0.05)
        open_embedded_server(directory).close()


def test_a_server_that_hangs_is_reported_and_left_alone(directory: Path, running: Running) -> None:
    with open_embedded_server(directory):
        [pid] = running(directory)
        process = psutil.Process(pid)
        process.suspend()
        try:
            with pytest.raises(DatabaseUnavailableError, match=f"process {pid}.*does not answer"):
                open_embedded_server(directory, timeout=0.1)
        finally:
            process.resume()
    assert not running(directory)


def test_the_server_sees_nothing_of_our_environment(
    directory: Path, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLSQL_SECRET", "hush")
    monkeypatch.setenv("PGDATA", "/nowhere")
    with open_embedded_server(directory):
        environment = psutil.Process(running(directory)[0]).environ()
    assert not {"POOLSQL_SECRET", "PGDATA", "HOME"} & set(environment)


def test_as_root_the_server_runs_as_somebody_else(directory: Path, running: Running) -> None:
    if os.geteuid() != 0:
        pytest.skip("for root")
    with open_embedded_server(directory) as server:
        owner = server.data_directory.stat().st_uid
        assert psutil.Process(running(directory)[0]).uids().real == owner != 0
        assert psutil.Process(running(directory)[0]).gids().real != 0
    os.chown(server.data_directory, 0, 0)
    with pytest.raises(BadInputError, match="belongs to root"):
        open_embedded_server(directory)
