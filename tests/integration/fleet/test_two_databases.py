"""Two fleets in two databases of one server: neither sees the other's locks, workers or notifications."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.locks import Lock, try_session_lock, unlock_session
from poolsql.database.migration import upgrade
from poolsql.leasing.presence import CHANNEL, Presence, present_keys
from poolsql.leasing.worker import Worker, register
from poolsql.operations.workers import list_workers
from poolsql.settings import Settings
from tests.fixtures.conditions import until


class Tenant:
    """One of the databases, with one worker in it."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.called: SimpleQueue[UUID | None] = SimpleQueue()
        worker = Worker(machine="there", pid=1, process_started="test", version="test")
        self.worker = register(database, worker)
        self.presence = Presence(database.url, settings, self.worker, called=self.called.put)

    def start(self) -> None:
        """Be present."""
        self.presence.start()
        assert self.presence.listens()
        assert self.called.get(timeout=10) is None

    def shows_present(self) -> bool | None:
        """What `worker list` says."""
        (line,) = [line for line in list_workers(self.database, machine="here") if line.id == self.worker.id]
        return line.present

    def tell(self, request_id: UUID) -> None:
        """As a release does that hands a lease to this worker."""
        with self.database.connect() as connection:
            told = text("SELECT pg_notify(:channel, :request)")
            connection.execute(told, {"channel": f"{CHANNEL}{self.worker.lock_key}", "request": str(request_id)})


@pytest.fixture(scope="module")
def other_database(empty_database: Callable[[], URL], settings: Settings) -> Iterator[Database]:
    """A second database with our tables on the same server."""
    other = Database(empty_database(), settings)
    upgrade(other)
    yield other
    other.close()


@pytest.fixture
def tenants(database: Database, other_database: Database, settings: Settings) -> Iterator[tuple[Tenant, Tenant]]:
    """Two databases, and in each a worker whose lock has the same key: both count the same numbers."""
    ours = Tenant(database, settings)
    key = ours.worker.lock_key
    with other_database.connect() as connection:
        connection.execute(text(f"ALTER TABLE poolsql.workers ALTER COLUMN lock_key RESTART WITH {key}"))
    theirs = Tenant(other_database, settings)
    assert theirs.worker.lock_key == key
    yield ours, theirs
    for tenant in (ours, theirs):
        tenant.presence.close()


def test_the_presence_of_one_is_not_the_presence_of_the_other(tenants: tuple[Tenant, Tenant]) -> None:
    ours, theirs = tenants
    for tenant in tenants:
        tenant.start()
        assert tenant.shows_present() is True
    ours.presence.close()
    until(lambda: present_keys(ours.database) == set())
    assert present_keys(theirs.database) == {theirs.worker.lock_key}
    assert (ours.shows_present(), theirs.shows_present()) == (False, True)


def test_a_notification_reaches_nobody_of_the_same_key_elsewhere(tenants: tuple[Tenant, Tenant]) -> None:
    for tenant in tenants:
        tenant.start()
    requests = [uuid4() for _ in tenants]
    for tenant, request in zip(tenants, requests, strict=True):
        tenant.tell(request)
    for tenant, request in zip(tenants, requests, strict=True):
        assert tenant.called.get(timeout=10) == request
        assert tenant.called.empty()


def test_a_lock_that_is_taken_in_one_is_free_in_the_other(tenants: tuple[Tenant, Tenant]) -> None:
    ours, theirs = tenants
    with ours.database.connect() as here, theirs.database.connect() as there:
        for lock in Lock:
            assert try_session_lock(here, lock)
            assert try_session_lock(there, lock)
            unlock_session(here, lock)
            unlock_session(there, lock)
