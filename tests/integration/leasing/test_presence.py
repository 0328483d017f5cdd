"""Presence: a connection whose end says that its worker is gone, and that is told of handed leases."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any
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

    def make(
        worker: Worker, *, url: URL = database_url, called: Callable[[UUID | None], None] = called.put
    ) -> Presence:
        presence = Presence(url, settings, worker, called=called)
        made.append(presence)
        presence.start()
        return presence

    yield make
    for presence in made:
        presence.close()


def backend_of(desk: Desk, key: int | None = None) -> int | None:
    """The server process that holds the worker's lock, or that of another key."""
    rows = desk.all(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = :class AND objid = :key",
        **{"class": module.PRESENCE_CLASS, "key": desk.worker.lock_key if key is None else key},
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


@pytest.mark.usefixtures("no_looks")
def test_what_is_handed_over_while_nobody_listens_is_found_at_the_next_connection(
    desk: Desk, new_presence: NewPresence, threads: ThreadPoolExecutor
) -> None:
    presence = new_presence(desk.worker, called=desk.tickets.call)
    assert presence.listens()
    leased = desk.granted()
    wait = desk.wait(wait=60)
    assert wait.try_once() is None
    called = wait.stand_in_line()
    with desk.opened() as holder:
        # First in the queue for the lock, so that the connection that is made anew has to wait with its LISTEN.
        take = "SELECT pg_advisory_xact_lock(%s, %s)"
        taken = threads.submit(holder.execute, take, (module.PRESENCE_CLASS, desk.worker.lock_key))
        desk.wait_until_blocked()
        desk.execute("SELECT pg_terminate_backend(:pid)", pid=backend_of(desk))
        taken.result(timeout=10)
        until(lambda: not presence.listens())
        desk.release(leased)
        assert [row.request_id for row in desk.leases()] == [wait._request.id]
        assert not called.done(), "nobody has told it"
    called.result(timeout=10)
    assert wait.try_once() is not None


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


def test_a_server_that_does_not_answer_keeps_nobody_waiting_for_long(
    desk: Desk, database_url: URL, new_presence: NewPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_CONNECTION_SECONDS", 0.1)
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(10)
        port = silent.getsockname()[1]
        presence = new_presence(desk.worker, url=database_url.set(host="127.0.0.1", port=port, query={}))
        first, _ = silent.accept()
        assert not presence.listens()
        assert not presence._settled.is_set(), "it has no answer yet"
        first.close()
        # It goes on trying, and is closed in the middle of it.
        second, _ = silent.accept()
        presence.close()
        assert presence._thread.is_alive(), "this test's server has not answered yet"
        second.close()
        presence._thread.join(timeout=5)
        assert not presence._thread.is_alive()
        silent.settimeout(0)
        with pytest.raises(BlockingIOError):
            silent.accept()


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


# Forks

FORKING = """
import json, os, sys
from poolsql import connect

def begin(fleet):
    runtime = fleet._runtime
    before = runtime._presence
    worker = runtime.worker
    print(json.dumps({
        "pid": os.getpid(), "key": worker.lock_key, "inherited": before is not None,
        "listens": runtime._presence.listens(),
    }), flush=True)

fleet = connect(sys.argv[1], machine="here", data_dir=sys.argv[2])
begin(fleet)
child = os.fork()
if child == 0:
    begin(fleet)
    sys.stdin.readline()
    sys.exit(0)
os.waitpid(child, 0)
print(json.dumps({"child": "ended"}), flush=True)
sys.stdin.readline()
fleet.close()
"""


class Forked:
    """A process with presence, and its forked child that has one of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.parent = self.told()
        self.child = self.told()

    def told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process has ended"
        told: dict[str, Any] = json.loads(line)
        return told

    def go_on(self) -> None:
        """Let the child end, and the second time the parent."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@contextmanager
def forked(url: URL, settings: Settings) -> Iterator[Forked]:
    # A child drops its parent's connections open, which psycopg has a warning for.
    program = [sys.executable, "-W", "ignore::ResourceWarning", "-c", FORKING]
    arguments = [url.render_as_string(hide_password=False), str(settings.data_dir)]
    with subprocess.Popen([*program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Forked(process)
        finally:
            process.kill()


def test_a_forked_child_has_a_presence_of_its_own_and_leaves_its_parents(
    desk: Desk, database_url: URL, settings: Settings
) -> None:
    with forked(database_url, settings) as both:
        parent, child = both.parent, both.child
        assert (parent["listens"], child["listens"], child["inherited"]) == (True, True, False)
        assert child["key"] != parent["key"]
        backend = backend_of(desk, parent["key"])
        assert backend is not None
        assert backend_of(desk, child["key"]) not in {None, backend}
        both.go_on()
        assert both.told() == {"child": "ended"}
        until(lambda: backend_of(desk, child["key"]) is None)
        assert backend_of(desk, parent["key"]) == backend
        both.go_on()
        assert both.process.wait(timeout=10) == 0
        until(lambda: backend_of(desk, parent["key"]) is None)


def test_a_child_that_outlives_its_parent_does_not_keep_the_parents_presence(
    desk: Desk, database_url: URL, settings: Settings
) -> None:
    with forked(database_url, settings) as both:
        both.process.kill()
        both.process.wait(timeout=10)
        until(lambda: backend_of(desk, both.parent["key"]) is None)
        assert backend_of(desk, both.child["key"]) is not None, "the child lives"
        both.go_on()
        until(lambda: backend_of(desk, both.child["key"]) is None)


def test_a_child_leaves_alone_what_has_the_number_of_a_connection_that_was_closed(
    desk: Desk, new_presence: NewPresence, tmp_path: Path
) -> None:
    presence = new_presence(desk.worker)
    assert presence.listens()
    assert presence._socket is not None
    _, known = presence._socket
    with (tmp_path / "somebody's").open("w") as file:
        before = os.fstat(file.fileno())
        presence._socket = file.fileno(), known
        presence.forget()
        assert os.path.samestat(os.fstat(file.fileno()), before)
        # The same as the connection's own number would be.
        presence._socket = file.fileno(), before
        presence.forget()
        assert os.path.samestat(os.fstat(file.fileno()), Path(os.devnull).stat())
