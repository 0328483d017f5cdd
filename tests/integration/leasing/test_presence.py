"""Presence: a connection whose end says that its worker is gone, and that is told of handed leases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from uuid import UUID, uuid4

import pytest
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.leasing import presence as module
from poolsql.leasing.presence import CHANNEL, Presence, present_keys
from poolsql.leasing.worker import Worker
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk

NewPresence = Callable[..., Presence]


@pytest.fixture
def called() -> SimpleQueue[UUID | None]:
    """What presence told of, in order."""
    return SimpleQueue()


@pytest.fixture
def new_presence(database_url: URL, settings: Settings, called: SimpleQueue[UUID | None]) -> Iterator[NewPresence]:
    """Starts presences; they are closed at the end."""
    made: list[Presence] = []

    def make(worker: Worker, *, url: URL = database_url) -> Presence:
        presence = Presence(url, settings, worker, called=called.put)
        made.append(presence)
        presence.start()
        return presence

    yield make
    for presence in made:
        presence.close()


def backend_of(desk: Desk) -> int | None:
    """The server process that holds the worker's lock."""
    rows = desk.all(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = :class AND objid = :key",
        **{"class": module.PRESENCE_CLASS, "key": desk.worker.lock_key},
    )
    return rows[0].pid if rows else None


def test_its_lock_is_there_while_it_runs_and_gone_when_it_is_closed(
    desk: Desk, database: Database, new_presence: NewPresence, called: SimpleQueue[UUID | None]
) -> None:
    assert desk.worker.lock_key not in present_keys(database)
    presence = new_presence(desk.worker)
    assert presence.listens()
    assert desk.worker.lock_key in present_keys(database)
    assert called.get(timeout=5) is None, "something may have been handed over before it listened"
    (row,) = desk.all("SELECT present_at FROM poolsql.workers WHERE id = :id", id=desk.worker.id)
    assert row.present_at is not None
    presence.close()
    until(lambda: desk.worker.lock_key not in present_keys(database))
    assert not presence.listens()


def test_a_hand_over_is_told_of_at_once(
    desk: Desk, new_presence: NewPresence, called: SimpleQueue[UUID | None]
) -> None:
    assert new_presence(desk.worker).listens()
    assert called.get(timeout=5) is None
    leased = desk.granted()
    wait = desk.wait(wait=60)
    assert wait.try_once() is None
    wait.stand_in_line()
    desk.release(leased)
    assert called.get(timeout=5) == wait._request.id


def test_several_notifications_at_once_are_all_told(
    desk: Desk, new_presence: NewPresence, called: SimpleQueue[UUID | None]
) -> None:
    assert new_presence(desk.worker).listens()
    assert called.get(timeout=5) is None
    ids = [uuid4() for _ in range(500)]
    desk.execute(
        "SELECT pg_notify(:channel, id::text) FROM unnest(CAST(:ids AS uuid[])) AS id",
        channel=f"{CHANNEL}{desk.worker.lock_key}",
        ids=ids,
    )
    assert {called.get(timeout=5) for _ in ids} == set(ids)


def test_a_lost_connection_is_made_anew_and_says_so(
    desk: Desk, new_presence: NewPresence, called: SimpleQueue[UUID | None]
) -> None:
    assert new_presence(desk.worker).listens()
    assert called.get(timeout=5) is None
    first = backend_of(desk)
    desk.execute("SELECT pg_terminate_backend(:pid)", pid=first)
    assert called.get(timeout=10) is None, "what was handed over meanwhile must be looked for"
    second = backend_of(desk)
    assert second not in {None, first}


def test_it_waits_for_a_lock_that_its_last_connection_still_holds(
    desk: Desk, new_presence: NewPresence, called: SimpleQueue[UUID | None]
) -> None:
    with desk.opened() as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s, %s)", (module.PRESENCE_CLASS, desk.worker.lock_key))
        presence = new_presence(desk.worker)
        tries = "SELECT FROM pg_stat_activity WHERE query LIKE '%pg_try_advisory_lock%' AND pid <> pg_backend_pid()"
        until(lambda: desk.all(tries))
        assert not presence._listening
    assert called.get(timeout=10) is None
    assert presence.listens()


def test_an_idle_one_asks_nothing(desk: Desk, new_presence: NewPresence, called: SimpleQueue[UUID | None]) -> None:
    assert new_presence(desk.worker).listens()
    assert called.get(timeout=5) is None
    pid = backend_of(desk)
    query = "SELECT query, state, state_change FROM pg_stat_activity WHERE pid = :pid"
    until(lambda: desk.one(query, pid=pid).state == "idle")
    before = desk.one(query, pid=pid)
    assert "present_at" in before.query
    # A thread that came round by itself would have done so by now.
    desk.execute("SELECT pg_sleep(1.5)")
    assert desk.one(query, pid=pid) == before


def test_without_a_database_it_goes_on_trying_and_can_be_closed(
    desk: Desk, database_url: URL, new_presence: NewPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_CONNECTION_SECONDS", 0.1)
    presence = new_presence(desk.worker, url=database_url.set(database="poolsql_nowhere"))
    assert not presence.listens()
    assert presence._thread.is_alive()
    presence.close()
    assert not presence._thread.is_alive()


def test_behind_a_pooler_it_is_off_and_says_how_to_get_around_it(
    desk: Desk, new_presence: NewPresence, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "keeps_its_session", lambda _: False)
    with caplog.at_level(logging.WARNING):
        presence = new_presence(desk.worker)
        assert not presence.listens()
        presence._thread.join(timeout=5)
    assert not presence._thread.is_alive()
    assert "POOLSQL_DIRECT_DATABASE_URL" in caplog.text
    assert backend_of(desk) is None
