"""Upkeep: hot tables with many dead rows are vacuumed, by one daemon at a time, under a lock that is really held."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.locks import LOCK_CLASS, Lock, try_session_lock, unlock_session
from poolsql.database.statements import Statement
from poolsql.errors import DatabaseError
from poolsql.leasing.checkout import record_miss
from poolsql.leasing.stickiness import StickyKey, stick
from poolsql.scheduling import housekeeping
from poolsql.scheduling.housekeeping import Housekeeping
from poolsql.scheduling.upkeep import tidy
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk
from tests.fixtures.locks import watched
from tests.fixtures.poolers import NewPooler

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


DEAD = 50


@pytest.fixture
def dead(new_desk: Callable[..., Desk]) -> Desk:
    """A desk, and dead rows among the tickets, as the server's statistics know."""
    desk = new_desk(profiles=0)
    desk.execute("VACUUM poolsql.waiters")
    with desk.opened() as session:
        session.execute(
            "INSERT INTO poolsql.waiters (request_id, pool_id, worker_id, machine, listens, tags, without_tags, "
            "criteria, rank, arrived_at, gives_up_at) SELECT gen_random_uuid(), 0, gen_random_uuid(), 'm', false, "
            "'{}', '{}', 0, now(), now(), now() FROM generate_series(1, %s)",
            (DEAD,),
        )
        session.execute("DELETE FROM poolsql.waiters WHERE pool_id = 0")
        session.commit()
        # A session tells at its next chance, and at the latest when it ends.
        session.execute("SELECT pg_stat_force_next_flush()")
        session.commit()
    until(lambda: dead_rows(desk) >= DEAD)
    return desk


def dead_rows(desk: Desk) -> int:
    (row,) = desk.all("SELECT pg_stat_get_dead_tuples('poolsql.waiters'::regclass) AS number")
    return int(row.number)


def test_a_table_with_enough_dead_rows_is_vacuumed(dead: Desk) -> None:
    assert Housekeeping(dead.database).run_once() == [], "not for so few"
    assert "waiters" in Housekeeping(dead.database, enough_dead=DEAD).run_once()
    until(lambda: dead_rows(dead) < DEAD)
    assert "waiters" not in Housekeeping(dead.database, enough_dead=DEAD).run_once()


def test_nobody_else_vacuums_meanwhile(dead: Desk, database: Database) -> None:
    with database.connect() as other:
        assert try_session_lock(other, Lock.HOUSEKEEPING)
        assert Housekeeping(database, enough_dead=DEAD).run_once() == []
        unlock_session(other, Lock.HOUSEKEEPING)
    assert "waiters" in Housekeeping(database, enough_dead=DEAD).run_once()


def test_the_lock_is_held_during_the_whole_of_it(
    dead: Desk, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(database, Lock.HOUSEKEEPING, monkeypatch) as watch:
        done = Housekeeping(database, enough_dead=DEAD).run_once()
    changes = watch.check()
    for table in done:
        assert len([change for change in changes if change.startswith("VACUUM") and table in change]) == 2
    for forgetting in (housekeeping.FORGET, housekeeping.FORGET_HISTORY):
        assert changes.count(forgetting.query) == 2, "before and after"


def test_a_vacuum_that_fails_leaves_no_lock(dead: Desk, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: Any, _: str) -> None:
        connection.execute(text("VACUUM poolsql.nothing"))

    monkeypatch.setattr(housekeeping, "_vacuum", fails)
    with pytest.raises(DatabaseError, match="nothing"):
        Housekeeping(database, enough_dead=DEAD).run_once()
    until(lambda: _holders(database) == [])


def test_without_the_right_it_says_so_once(
    dead: Desk, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = database.run

    def as_somebody_else(statement: Any, parameters: Any) -> Any:
        rows = real(statement, parameters)
        return [row._replace(may=False) for row in rows] if statement is housekeeping.DEAD_ROWS else rows

    monkeypatch.setattr(database, "run", as_somebody_else)
    keeper = Housekeeping(database, enough_dead=DEAD)
    with caplog.at_level(logging.WARNING):
        assert keeper.run_once() == keeper.run_once() == []
    assert len(caplog.messages) == 1
    assert "poolsql db grant ROLE" in caplog.text


@pytest.fixture
def through_pooler(new_pooler: NewPooler, database_url: URL, settings: Settings) -> Iterator[Database]:
    """The module's database through a pooler."""
    database = Database(new_pooler().at(database_url), settings)
    yield database
    database.close()


def test_through_a_pooler_it_vacuums_and_leaves_no_lock(dead: Desk, through_pooler: Database) -> None:
    assert "waiters" in Housekeeping(through_pooler, enough_dead=DEAD).run_once()
    until(lambda: dead_rows(dead) < DEAD)
    assert _holders(dead.database) == []


def test_through_a_pooler_one_at_a_time_forgets(
    dead: Desk, database: Database, through_pooler: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Housekeeping(through_pooler, enough_dead=DEAD)
    with database.connect() as other:
        assert try_session_lock(other, Lock.HOUSEKEEPING)
        assert keeper.run_once() == []
        unlock_session(other, Lock.HOUSEKEEPING)
    seen: list[Any] = []
    monkeypatch.setattr(Housekeeping, "_tell", lambda *_: seen.append(_holders(database)))
    monkeypatch.setattr(housekeeping, "MAY_FORGET", Statement("may_forget", "SELECT false AS may"))
    keeper.run_once()
    assert [len(holders) for holders in seen] == [1], "the lock is held while it forgets"


def test_through_a_pooler_it_forgets(dead: Desk, through_pooler: Database) -> None:
    dead.execute("INSERT INTO poolsql.refused_reports (lease_id, kind, at) VALUES (-1, 'release', '2001-01-01')")
    Housekeeping(through_pooler).run_once()
    assert dead.all("SELECT FROM poolsql.refused_reports WHERE lease_id = -1") == []


def test_what_nobody_needs_is_forgotten_and_the_rest_is_kept(new_desk: Callable[..., Desk], database: Database) -> None:
    desk, other = new_desk(profiles=2), new_desk(profiles=0)
    held = desk.granted()
    for key in ("old", "new"):
        stick(database, desk.pool.id, StickyKey(key, required=False), held.profile.id)
    assert other.grant() is None
    for waits in (desk.wait(wait=60, profile_id=held.profile.id), other.wait(wait=60)):
        assert waits.try_once() is None
        waits.stand_in_line()
    record_miss(database, desk.worker, desk.request(task="old"), waited=0)
    record_miss(database, desk.worker, desk.request(task="new"), waited=0)
    desk.expire(gone := desk.granted().lease_id)
    desk.reaper().run_once()
    desk.execute("INSERT INTO poolsql.refused_reports (lease_id, kind) VALUES (:id, 'release')", id=gone)
    for statement in (
        "UPDATE poolsql.sticky_keys SET used_at = clock_timestamp() - interval '91 days' WHERE key = 'old'",
        "UPDATE poolsql.misses SET at = clock_timestamp() - interval '31 days' WHERE task = 'old'",
        "UPDATE poolsql.refused_reports SET at = clock_timestamp() - interval '31 days'",
        "UPDATE poolsql.workers SET ended_at = clock_timestamp() - interval '31 days'",
        "UPDATE poolsql.waiters SET gives_up_at = clock_timestamp() - interval '2 minutes' WHERE profile_id IS NULL",
    ):
        desk.execute(statement)
    Housekeeping(database).run_once()
    assert [row.key for row in desk.all("SELECT key FROM poolsql.sticky_keys")] == ["new"]
    assert [row.task for row in desk.all("SELECT task FROM poolsql.misses WHERE task IS NOT NULL")] == ["new"]
    assert desk.all("SELECT FROM poolsql.refused_reports") == []
    workers = [row.id for row in desk.all("SELECT id FROM poolsql.workers")]
    assert workers == [desk.worker.id], "it holds a lease"
    assert [row.worker_id for row in desk.all("SELECT worker_id FROM poolsql.waiters")] == [desk.worker.id]


def test_without_the_right_to_forget_history_it_says_so(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(housekeeping, "MAY_FORGET", Statement("may_forget", "SELECT false AS may"))
    with caplog.at_level(logging.WARNING):
        Housekeeping(database).run_once()
    assert "may not delete old misses" in caplog.text


def _holders(database: Database) -> list[int]:
    query = text(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = :class AND objid = :key "
        "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    with database.connect() as connection:
        return list(connection.execute(query, {"class": LOCK_CLASS, "key": Lock.HOUSEKEEPING.value}).scalars())


@pytest.fixture(autouse=True)
def _no_vacuum_of_the_servers_own(database: Database) -> Iterator[None]:
    """Autovacuum would clear the dead rows before the test does."""
    with database.connect() as connection:
        connection.execute(text("ALTER TABLE poolsql.waiters SET (autovacuum_enabled = false)"))
    yield
    with database.connect() as connection:
        connection.execute(text("ALTER TABLE poolsql.waiters RESET (autovacuum_enabled)"))


def test_stamps_of_workers_that_are_forgotten_do_not_stay(new_desk: Callable[..., Desk], database: Database) -> None:
    ended, alive = new_desk(profiles=0), new_desk(profiles=0, machine="elsewhere")
    for desk in (ended, alive):
        desk.execute(
            "INSERT INTO poolsql.loop_stamps (worker_id, loop, machine, every) VALUES (:id, 'fire', 'm', '1 second')",
            id=desk.worker.id,
        )
    ended.execute(
        "UPDATE poolsql.workers SET ended_at = clock_timestamp() - interval '31 days' WHERE id = :id",
        id=ended.worker.id,
    )
    Housekeeping(database).run_once()
    assert ended.all("SELECT FROM poolsql.workers WHERE id = :id", id=ended.worker.id) == []
    tidy(database, "nobody's")
    assert [row.worker_id for row in ended.all("SELECT worker_id FROM poolsql.loop_stamps")] == [alive.worker.id]
