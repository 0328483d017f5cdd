"""Every connection is told the same, and who is not let in learns why in one line."""

from __future__ import annotations

import logging
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.database.opening import open_database
from poolsql.database.statements import Statement
from poolsql.errors import BadInputError, DatabaseError, DatabaseUnavailableError
from poolsql.settings import Settings, load_settings
from tests.fixtures.databases import Role
from tests.integration.database.clusters import PASSWORD, Cluster

REPOSITORY = Path(__file__).parents[3]

Open = Callable[..., Database]

TOLD = {
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "1min",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "default_transaction_isolation": "read committed",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "search_path": "public",
    "client_encoding": "UTF8",
    "application_name": "poolsql",
}
SHOW = Statement("show", "SELECT name, current_setting(name) AS value FROM unnest(%(names)s::text[]) AS name")
PID = Statement("pid", "SELECT pg_backend_pid() AS pid")


def shown(database: Database, names: Sequence[str] = tuple(TOLD)) -> dict[str, str]:
    return {row.name: row.value for row in database.run(SHOW, {"names": list(names)})}


def test_every_connection_is_told_the_same(database: Database) -> None:
    assert shown(database) == TOLD
    for way in (database.connect, database.transaction):
        with way() as connection:
            rows = connection.execute(
                text("SELECT name, current_setting(name) AS value FROM unnest(CAST(:names AS text[])) AS name"),
                {"names": list(TOLD)},
            ).all()
        assert {row.name: row.value for row in rows} == TOLD


@pytest.mark.parametrize("direct", [False, True])
def test_the_direct_address_is_used_where_it_is_wanted_and_told_the_same(database_url: URL, direct: bool) -> None:
    written = database_url.render_as_string(hide_password=False)
    separator = "&" if "?" in written else "?"
    settings = load_settings(
        database_url=written, direct_database_url=f"{written}{separator}application_name=straight", statement_timeout=7
    )
    with open_database(settings, direct=direct) as database:
        expected = {"statement_timeout": "7s", "application_name": "straight" if direct else "poolsql"}
        assert shown(database) == {**TOLD, **expected}


def test_a_direct_address_alone_is_refused() -> None:
    settings = load_settings(direct_database_url="postgresql://localhost/x")
    with (
        pytest.raises(BadInputError, match="POOLSQL_DIRECT_DATABASE_URL is set without POOLSQL_DATABASE_URL"),
        open_database(settings),
    ):
        pass


def test_what_the_role_prefers_does_not_change_what_poolsql_reads(
    administration: Database, database_url: URL, new_role: Callable[..., Role], opened: Open
) -> None:
    role = new_role()
    for setting in (
        "intervalstyle = iso_8601",
        "datestyle = 'German, DMY'",
        "timezone = 'Asia/Kathmandu'",
        "default_transaction_isolation = serializable",
        "client_encoding = latin1",
        "statement_timeout = 0",
    ):
        with administration.connect() as connection:
            connection.execute(text(f'ALTER ROLE "{role.name}" SET {setting}'))
    database = opened(role.at(database_url))
    assert shown(database) == TOLD
    (row,) = database.run(Statement("times", "SELECT interval '1 day 2 hours' AS span, now() AS now, 'ł' AS text"), {})
    assert (row.span.total_seconds(), row.now.utcoffset().total_seconds(), row.text) == (93600, 0, "ł")


def test_what_the_address_says_wins(database_url: URL, opened: Open) -> None:
    url = database_url.update_query_dict(
        {"application_name": "mine", "options": "-c statement_timeout=1234 -c work_mem=5MB"}
    )
    names = ["statement_timeout", "work_mem", "lock_timeout", "application_name", "IntervalStyle"]
    assert shown(opened(url), names) == {
        "statement_timeout": "1234ms",
        "work_mem": "5MB",
        "lock_timeout": "5s",
        "application_name": "mine",
        "IntervalStyle": "postgres",
    }


def test_a_statement_that_takes_too_long_is_cancelled_and_not_repeated(database_url: URL, opened: Open) -> None:
    database = opened(database_url, statement_timeout=0.05)
    tries = 0

    def sleep() -> None:
        nonlocal tries
        tries += 1
        database.run_once(Statement("sleep", "SELECT pg_sleep(60)"), {})

    with pytest.raises(DatabaseError, match="canceling statement due to statement timeout") as caught:
        database.repeat(sleep)
    assert tries == 1
    assert not isinstance(caught.value, DatabaseUnavailableError)


def test_a_transaction_is_kept_whole_or_not_at_all(database: Database) -> None:
    with database.connect() as connection:
        connection.execute(text("CREATE TABLE public.kept (id int PRIMARY KEY)"))
    with database.transaction() as connection:
        connection.execute(text("INSERT INTO public.kept VALUES (1)"))
    for_good, twice = text("INSERT INTO public.kept VALUES (2)"), text("INSERT INTO public.kept VALUES (1)")
    with pytest.raises(DatabaseError, match="duplicate key"), database.transaction() as connection:
        _ = connection.execute(for_good), connection.execute(twice)
    with database.connect() as connection:
        assert connection.execute(text("SELECT array_agg(id) FROM public.kept")).scalar() == [1]
        driver = connection.connection.driver_connection
        assert driver is not None
        assert driver.autocommit


def test_a_missing_right_names_the_remedy(database_url: URL, new_role: Callable[..., Role], opened: Open) -> None:
    database = opened(new_role().at(database_url))
    with pytest.raises(DatabaseError, match=r"permission denied .* poolsql db grant"), database.connect() as connection:
        connection.execute(text("SELECT * FROM poolsql.pools"))


# Who is not let in


def refused(database: Database) -> str:
    """The message with which a database that will never let us in says so: at once, in one line."""
    database.patience = 600
    with pytest.raises(DatabaseUnavailableError) as caught, database.connect():
        pass
    message = str(caught.value)
    assert caught.value.exit_code == 3
    assert "\n" not in message
    assert database.address in message
    assert "check user, password, database name" in message
    assert_secret_is_kept(caught.value, database)
    return message


def assert_secret_is_kept(error: BaseException, database: Database) -> None:
    """No form in which anybody may see the error or the database shows the password (I11)."""
    chain: BaseException | None = error
    while chain is not None:
        for form in (str(chain), repr(chain)):
            for secret in (PASSWORD, "geheim"):
                assert secret not in form
                assert repr(secret)[1:-1] not in form
        chain = chain.__cause__ or chain.__context__
    for thing in (database, database.engine, database.url, database.address):
        assert PASSWORD not in f"{thing} {thing!r}"
        assert "geheim" not in f"{thing} {thing!r}"


def test_the_right_password_is_let_in(cluster: Cluster, opened: Open) -> None:
    database = opened(cluster.url)
    assert len(database.run(PID, {})) == 1
    assert "boss@" in database.address
    assert PASSWORD not in f"{database!r} {database.engine!r} {database.url!r} {database.url} {database.address}"


def test_a_wrong_password_is_told_at_once(cluster: Cluster, opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert 'password authentication failed for user "boss"' in refused(opened(cluster.url.set(password="geheim")))
    assert "geheim" not in caplog.text


def test_a_hot_statement_tells_it_too(cluster: Cluster, opened: Open) -> None:
    database = opened(cluster.url.set(password="geheim"))
    database.patience = 600
    with pytest.raises(DatabaseUnavailableError, match="refused the connection: password") as caught:
        database.run(PID, {})
    assert_secret_is_kept(caught.value, database)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"password": ""}, "no password supplied"),
        ({"username": "nobody"}, 'password authentication failed for user "nobody"'),
        ({"database": "nowhere"}, 'database "nowhere" does not exist'),
    ],
)
def test_what_else_is_refused(cluster: Cluster, opened: Open, change: dict[str, Any], reason: str) -> None:
    assert reason in refused(opened(cluster.url.set(**change)))


@pytest.mark.parametrize(
    ("parameter", "value", "reason"),
    [
        ("options", "-c nonsense=1", 'unrecognized configuration parameter "nonsense"'),
        ("options", "-c work_mem=much", 'invalid value for parameter "work_mem": "much"'),
        ("sslmode", "bogus", 'invalid sslmode value: "bogus"'),
    ],
)
def test_what_is_wrong_in_the_address(cluster: Cluster, opened: Open, parameter: str, value: str, reason: str) -> None:
    assert reason in refused(opened(cluster.url.update_query_dict({parameter: value})))


def test_a_role_that_may_not_log_in_or_connect_is_refused(
    administration: Database, database_url: URL, new_role: Callable[..., Role], opened: Open
) -> None:
    assert "not permitted to log in" in refused(opened(new_role("NOLOGIN").at(database_url)))
    database = f'DATABASE "{database_url.database}"'
    with administration.connect() as connection:
        connection.execute(text(f"REVOKE CONNECT ON {database} FROM PUBLIC"))
        assert "permission denied for database" in refused(opened(new_role().at(database_url)))
        connection.execute(text(f"GRANT CONNECT ON {database} TO PUBLIC"))


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://boss:geheim@127.0.0.1:1/postgres",
        "postgresql://boss:geheim@/postgres?host=/no/such/directory",
        "postgresql://boss:geheim@127.0.0.1:1,localhost:1/postgres",
        "postgresql://boss@127.0.0.1:1/postgres?password=geheim",
    ],
)
def test_nobody_listens(address: str, opened: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    database = opened(database_address(address))
    database.patience = 0
    with pytest.raises(DatabaseUnavailableError, match=r"cannot be reached: .* check the address and that") as caught:
        database.run(PID, {})
    assert "\n" not in str(caught.value)
    assert database.address in str(caught.value)
    assert_secret_is_kept(caught.value, database)
    assert "geheim" not in caplog.text


def test_ssl_is_asked_for_and_its_lack_is_told_at_once(opened: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def say_no() -> bytes:
            client, _ = server.accept()
            with client:
                asked = client.recv(8)
                client.sendall(b"N")
            return asked

        with ThreadPoolExecutor() as threads:
            answered = threads.submit(say_no)
            port = server.getsockname()[1]
            message = refused(opened(database_address(f"postgres://u@127.0.0.1:{port}/d?sslmode=require")))
        assert "server does not support SSL, but SSL was required" in message
        assert answered.result() == struct.pack("!II", 8, 80877103)  # SSLRequest


# After a fork

FORK = """
import os, sys
from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.settings import load_settings

PID = Statement("pid", "SELECT pg_backend_pid() AS pid")
database = Database(database_address(sys.argv[1]), load_settings())
(mine,) = database.run(PID, {})
held = database.engine.raw_connection()
child = os.fork()
if child == 0:
    database.forget()
    del held
    (its,) = database.run(PID, {})
    (again,) = database.run(PID, {})
    database.close()
    os._exit(0 if its.pid != mine.pid and again.pid == its.pid else 1)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
held.close()
(still,) = database.run(PID, {})
database.close()
sys.exit(status or still.pid != mine.pid)
"""


def test_a_forked_child_has_connections_of_its_own_and_leaves_the_parents_alone(database_url: URL) -> None:
    address = database_url.render_as_string(hide_password=False)
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", FORK, address],
        env={**os.environ, "PYTHONPATH": os.fspath(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (child.returncode, child.stderr) == (0, "")


def test_settings_show_no_password() -> None:
    settings = load_settings(
        database_url=f"postgresql://u:{'geheim'}@h/d", direct_database_url="postgresql://u:geheim@h/d"
    )
    for form in (repr(settings), str(settings), repr(settings.model_dump()), settings.model_dump_json()):
        assert "geheim" not in form
    assert isinstance(settings, Settings)
