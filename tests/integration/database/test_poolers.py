"""Through PgBouncer in transaction mode: nothing is left in a session that others use, and settings are checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.fleet_database import open_fleet_database
from poolsql.database.migration import upgrade
from poolsql.database.poolers import Connector
from poolsql.database.rights import grant_runtime_rights
from poolsql.database.role_settings import check_sessions, set_role_settings
from poolsql.database.schema import check_schema, head_revision
from poolsql.database.sessions import keeps_its_session
from poolsql.database.statements import Statement
from poolsql.errors import BadInputError, DatabaseUnavailableError, SessionSettingsError
from poolsql.settings import Settings, load_settings
from tests.fixtures.databases import Role
from tests.fixtures.poolers import NewPooler, PgBouncer, pooler_before
from tests.integration.database.test_connections import TOLD, shown

Open = Callable[..., Database]
NewRole = Callable[..., Role]

PID = Statement("pid", "SELECT pg_backend_pid() AS pid")
ADD = Statement("add", "SELECT %(one)s::int + 1 AS two")
POOL_SIZE = 3
"""Server connections of a pooler of these tests."""


@pytest.fixture
def role(new_role: NewRole) -> Role:
    """A role that nothing was set for yet."""
    return new_role()


@pytest.fixture
def pooler(new_pooler: NewPooler, role: Role) -> PgBouncer:
    """It refuses start-up options."""
    return new_pooler(role)


@pytest.fixture
def pooled(pooler: PgBouncer, role: Role, database_url: URL, opened: Open) -> Database:
    """The module's database, opened as that role through it."""
    return opened(pooler.at(role.at(database_url)))


def alter(administration: Database, role: Role, url: URL, *settings: str) -> None:
    """What an administrator sets for a role in the database."""
    with administration.connect() as connection:
        for setting in settings:
            connection.execute(text(f'ALTER ROLE "{role.name}" IN DATABASE "{url.database}" SET {setting}'))


def plain(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


class EverySession:
    """Somebody else's clients of the same pooler, each on another one of its server connections."""

    def __init__(self, stack: ExitStack, url: URL) -> None:
        self._clients = [stack.enter_context(psycopg.connect(plain(url))) for _ in range(POOL_SIZE)]

    def facts(self) -> dict[int, Any]:
        """All that each session keeps: settings, locks, channels, prepared statements."""
        query = """
            SELECT pg_backend_pid(),
                (SELECT jsonb_object_agg(name, setting) FROM pg_settings WHERE name <> 'application_name'),
                (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
                (SELECT count(*) FROM pg_listening_channels()),
                (SELECT count(*) FROM pg_prepared_statements)
        """
        # Each transaction holds on to its session until all have been asked.
        told = [client.execute(query).fetchone() for client in self._clients]
        for client in self._clients:
            client.rollback()
        facts = {row[0]: row[1:] for row in told if row is not None}
        assert len(facts) == POOL_SIZE
        return facts


@pytest.fixture
def every_session(pooler: PgBouncer, role: Role, database_url: URL) -> Iterator[EverySession]:
    with ExitStack() as stack:
        yield EverySession(stack, pooler.at(role.at(database_url)))


# Connecting


def test_statements_run_on_whichever_session_is_free(pooled: Database) -> None:
    with ThreadPoolExecutor(8) as threads:
        assert [rows[0].two for rows in threads.map(lambda _: pooled.run(ADD, {"one": 1}), range(200))] == [2] * 200
    many = pooled.repeat(lambda: pooled.run_many_once(ADD, [{"one": number} for number in range(50)]))
    assert [row.two for row in many] == list(range(1, 51))
    with pooled.transaction() as connection:
        pids = {connection.execute(text("SELECT pg_backend_pid()")).scalar_one() for _ in range(20)}
    assert len(pids) == 1


def test_nothing_of_ours_stays_in_a_session(
    pooled: Database, every_session: EverySession, administration: Database, settings: Settings
) -> None:
    before = every_session.facts()
    for _, locks, channels, prepared in before.values():
        assert (locks, channels, prepared) == (0, 0, 0)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: pooled.run(ADD, {"one": 1}), range(200)))
    pooled.run_many_once(ADD, [{"one": number} for number in range(50)])
    with pooled.transaction() as connection:
        for _ in range(20):
            connection.execute(text("SELECT :one + 1"), {"one": 1})
    check_sessions(pooled, settings)
    set_role_settings(pooled, settings)
    assert every_session.facts() == before


def test_a_server_that_answers_at_a_poolers_address_is_told_all(database_url: URL, settings: Settings) -> None:
    connector = Connector(database_url, settings)
    connector._options_refused = True
    with connector.connect(plain(database_url)) as connection:
        assert not connection.autocommit
        rows = connection.execute(
            "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [list(TOLD)]
        ).fetchall()
        assert dict(rows) == TOLD
        assert connection.prepare_threshold is not None


def test_options_of_the_address_that_a_pooler_refuses_are_not_left_out(
    pooler: PgBouncer, role: Role, database_url: URL, opened: Open
) -> None:
    url = pooler.at(role.at(database_url)).update_query_dict({"options": "-c work_mem=5MB"})
    database = opened(url)
    database.patience = 600
    with pytest.raises(DatabaseUnavailableError, match=r"refused .*unsupported startup parameter: options; check .*"):
        database.run(PID, {})


def test_start_up_options_are_offered_once(pooled: Database, pooler: PgBouncer) -> None:
    def refusals() -> int:
        return (pooler.directory / "log").read_text().count("unsupported startup parameter")

    pooled.run(PID, {})
    before = refusals()
    held = [pooled.engine.raw_connection() for _ in range(5)]
    for connection in held:
        connection.close()
    assert refusals() == before > 0


# Settings


def test_a_role_gets_its_settings_through_the_pooler_itself(
    pooled: Database, pooler: PgBouncer, role: Role, database_url: URL, opened: Open, settings: Settings
) -> None:
    pooled.run(PID, {})  # by a session that stays open
    given = set_role_settings(pooled, settings)
    assert (given.role, given.database) == (role.name, database_url.database)
    assert set_role_settings(pooled, settings) == given
    pooler.make_connections_anew()
    anew = opened(pooler.at(role.at(database_url)))
    assert shown(anew) == TOLD
    check_sessions(anew, settings)


def test_the_time_outs_are_those_of_the_process(pooled: Database, settings: Settings) -> None:
    given = set_role_settings(pooled, settings.model_copy(update={"statement_timeout": 7.5}), dry_run=True)
    assert any(line.endswith("SET \"statement_timeout\" = '7500'") for line in given.statements)


def test_a_dry_run_changes_nothing_and_tells_what_an_administrator_can_run(
    pooled: Database, pooler: PgBouncer, role: Role, database_url: URL, opened: Open, administration: Database
) -> None:
    names = "SELECT count(*) AS count FROM pg_db_role_setting WHERE setrole = CAST(:role AS regrole)"
    given = set_role_settings(pooled, load_settings(), dry_run=True)
    with administration.connect() as connection:
        assert connection.execute(text(names), {"role": role.name}).scalar() == 0
        for statement in given.statements:
            connection.exec_driver_sql(statement)
    check_sessions(opened(pooler.at(role.at(database_url))), load_settings())


def test_only_who_may_changes_the_settings_of_another_role(
    pooled: Database, administration: Database, database: Database, new_role: NewRole, settings: Settings, role: Role
) -> None:
    other = new_role()
    with pytest.raises(BadInputError, match=f"{role.name}' may not change settings of '{other.name}'.*--dry-run"):
        set_role_settings(pooled, settings, other.name)
    with pytest.raises(BadInputError, match="there is no role 'nobody at all'"):
        set_role_settings(database, settings, "nobody at all")
    assert set_role_settings(database, settings, other.name).role == other.name


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("timezone = 'Asia/Kathmandu'", "timezone is 'Asia/Kathmandu' instead of 'UTC'"),
        ("datestyle = 'German, DMY'", "datestyle is 'German, DMY' instead of 'ISO'"),
        ("intervalstyle = iso_8601", "intervalstyle is 'iso_8601' instead of 'postgres'"),
        ("default_transaction_isolation = serializable", "isolation is 'serializable' instead of 'read committed'"),
        ("search_path = poolsql, public", "search_path is 'poolsql, public' instead of 'public'"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"ignore_startup_parameters": "options"}], ids=["refuses", "ignores"])
def test_settings_that_would_make_answers_wrong_are_refused(
    setting: str,
    told: str,
    options: dict[str, str],
    new_pooler: NewPooler,
    role: Role,
    database_url: URL,
    database: Database,
    administration: Database,
    opened: Open,
) -> None:
    grant_runtime_rights(database, role.name)
    alter(administration, role, database_url, setting)
    pooler = new_pooler(role, **options)
    url = pooler.at(role.at(database_url))
    process = load_settings(database_url=plain(url))
    with pytest.raises(SessionSettingsError) as caught, open_fleet_database(process):
        pass
    message = str(caught.value)
    assert told in message
    assert message.count(" instead of ") == 1, "the others are as they have to be"
    assert f"run: poolsql db settings (for the role '{role.name}' in '{database_url.database}'); then " in message
    assert caught.value.exit_code == 3

    # The remedy: first half of it, then all.
    through = opened(url)
    set_role_settings(through, process)
    with pytest.raises(
        SessionSettingsError, match=r"has them by now, but the pooler's sessions are older: .*RECONNECT"
    ):
        check_sessions(through, process)
    pooler.make_connections_anew()
    with open_fleet_database(process):
        pass


@pytest.mark.parametrize("options", [{}, {"ignore_startup_parameters": "options"}], ids=["refuses", "ignores"])
def test_settings_that_only_make_it_slow_are_a_warning(
    options: dict[str, str],
    new_pooler: NewPooler,
    role: Role,
    database_url: URL,
    opened: Open,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    through = opened(new_pooler(role, **options).at(role.at(database_url)))
    check_sessions(through, settings, quiet=True)
    assert caplog.records == []
    check_sessions(through, settings)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for told in ("plan_cache_mode is 'auto'", "statement_timeout is '0' instead of '30000'", "poolsql db settings"):
        assert told in record.getMessage()


def test_without_a_pooler_the_addresss_own_options_are_nobodys_business(
    database_url: URL, opened: Open, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    own = opened(database_url.update_query_dict({"options": "-c timezone=Asia/Kathmandu -c jit=on"}))
    check_sessions(own, settings)
    assert caplog.records == []


# Tables


def test_the_tables_are_made_through_the_pooler_too(
    pgbouncer: str, empty_database: Callable[[], URL], opened: Open, server_url: URL
) -> None:
    url = empty_database()
    with pooler_before(pgbouncer, server_url) as pooler:
        several = [opened(pooler.at(url)) for _ in range(3)]
        with ThreadPoolExecutor() as threads:
            told = list(threads.map(upgrade, several))
        head = head_revision()
        assert sorted(told, key=str) == [(head, head), (head, head), (None, head)]
        check_schema(several[0])
        for database in several:
            database.close()


def test_the_pooler_is_noticed_and_the_direct_address_leads_past_it(
    pooler: PgBouncer, role: Role, database_url: URL, settings: Settings
) -> None:
    database = Database(pooler.at(role.at(database_url)), settings, direct_url=database_url)
    with database.direct() as direct, direct.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        assert keeps_its_session(driver)
    with database.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        assert not keeps_its_session(driver)
        assert driver.prepare_threshold is None
    database.close()
