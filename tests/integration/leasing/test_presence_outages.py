"""Leases and presence of workers whose sessions the server ends, one by one or all with itself: no lease is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql import Fleet, Lease, Pool, connect
from poolsql.database.engine import Database
from poolsql.database.migration import upgrade
from poolsql.errors import DatabaseError
from poolsql.leasing.absence import GRACE_SECONDS
from poolsql.leasing.presence import PRESENCE_CLASS, present_keys
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.fixtures.databases import address_of
from tests.integration.database.clusters import Cluster

NewFleet = Callable[..., Fleet]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A server of one test alone."""
    with Cluster() as running:
        yield running


@pytest.fixture
def new_fleet(tmp_path: Path) -> Iterator[NewFleet]:
    """Connects as a process of some machine would; closed at the end."""
    fleets: list[Fleet] = []

    def make(url: URL, machine: str) -> Fleet:
        fleets.append(connect(address_of(url), machine=machine, data_dir=tmp_path))
        return fleets[-1]

    yield make
    for fleet in fleets:
        fleet.close()


def make_pool(fleet: Fleet, *, profiles: int, **policy: Any) -> Pool:
    """A pool whose profiles any machine can drive, as long as no browser was started."""
    mark = uuid4().hex[:8]
    fleet.define_launcher(f"launcher-{mark}")
    pool = fleet.define_pool(f"pool-{mark}", **policy)
    for number in range(profiles):
        pool.add_profile(f"p{number}", launcher=f"launcher-{mark}")
    return pool


def presence_listens(fleet: Fleet) -> bool:
    """Whether its worker is present, and told of handed leases."""
    fleet.worker  # noqa: B018 - registers it
    presence = fleet._runtime._presence
    return presence is not None and presence.listens()


class Reaping:
    """A fleet on another machine that looks all the time, as a daemon does, but more often."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.looks = 0
        self.expired = 0

    def _run(self) -> None:
        while not self._over.wait(0.1):
            try:
                self.expired += self._fleet.reap().expired
            except DatabaseError:
                continue
            self.looks += 1

    @contextmanager
    def going_on(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()


def have_been_renewed(leases: list[Lease], *, since: dict[int, Any]) -> bool:
    """Whether each lease ends later than it did then."""
    return all(lease.expires_at > since[lease.id] for lease in leases)


@pytest.mark.parametrize(
    ("away", "watched"),
    [
        pytest.param(0.0, 0.0, id="at once"),
        pytest.param(20.0, GRACE_SECONDS + 2, id="20 s", marks=pytest.mark.slow),
    ],
)
def test_a_database_that_crashes_and_recovers_loses_no_lease(
    cluster: Cluster, new_fleet: NewFleet, settings: Settings, away: float, watched: float
) -> None:
    database = Database(cluster.url, settings)
    upgrade(database)
    workers = [new_fleet(cluster.url, "there") for _ in range(2)]
    pool = make_pool(workers[0], profiles=4, renew=1)
    leases = [worker.pool(pool.name).checkout() for worker in workers for _ in range(2)]
    assert all(presence_listens(worker) for worker in workers)
    reaping = Reaping(new_fleet(cluster.url, "here"))
    with reaping.going_on():
        until(lambda: reaping.looks)
        cluster.stop(crashing=True)
        before = {lease.id: lease.expires_at for lease in leases}
        time.sleep(away)
        assert [lease.lost for lease in leases] == [None] * 4
        cluster.start()
        keys = {worker.worker.lock_key for worker in workers}
        until(lambda: keys <= present_keys(database))
        back = reaping.looks
        until(lambda: reaping.looks > back and have_been_renewed(leases, since=before))
        time.sleep(watched)
    assert reaping.expired == 0
    for lease in leases:
        attempt = lease.release()
        assert attempt is not None
        assert attempt.outcome == "success"
    with database.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM poolsql.refused_reports")).scalar_one() == 0
    for fleet in (*workers, reaping._fleet):
        fleet.close()
    database.close()


def test_ending_every_session_again_and_again_loses_no_lease(
    new_fleet: NewFleet, database: Database, database_url: URL
) -> None:
    fleet = new_fleet(database_url, "there")
    pool = make_pool(fleet, profiles=4, ttl=6, renew=0.3)
    leases = [pool.checkout() for _ in range(3)]
    assert presence_listens(fleet)
    reaping = Reaping(new_fleet(database_url, "here"))
    with reaping.going_on():
        for _ in range(4):
            present = until(lambda: backend_of(database, fleet))
            before = {lease.id: lease.expires_at for lease in leases}
            ended = end_all_sessions(database)
            assert present in ended
            assert len(ended) >= 3, "its presence, a pooled connection of its, and one of who looks"
            # Its next statements find nothing but ended connections.
            pool.checkout().release()
            until(lambda ended=ended: backend_of(database, fleet) not in {None, *ended})  # type: ignore[misc]
            until(lambda before=before: have_been_renewed(leases, since=before))  # type: ignore[misc]
            until(lambda: presence_listens(fleet))
    assert reaping.expired == 0
    assert [lease.lost for lease in leases] == [None] * 3
    for lease in leases:
        lease.release()
    with database.connect() as connection:
        outcomes = connection.execute(text("SELECT outcome FROM poolsql.attempts")).scalars().all()
        assert connection.execute(text("SELECT count(*) FROM poolsql.refused_reports")).scalar_one() == 0
    assert set(outcomes) == {"success"}
    assert len(outcomes) == 4 + 3


def backend_of(database: Database, fleet: Fleet) -> int | None:
    """The server process that holds the lock of this fleet's worker."""
    query = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = :class AND objid = :key"
    with database.connect() as connection:
        given = {"class": PRESENCE_CLASS, "key": fleet.worker.lock_key}
        pid: int | None = connection.execute(text(query), given).scalar_one_or_none()
        return pid


def end_all_sessions(database: Database) -> set[int]:
    """End all other sessions of the database; their process ids, once they are gone."""
    others = text("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
    with database.connect() as connection:
        pids = set(connection.execute(others).scalars())
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM unnest(:pids) AS pid"), {"pids": list(pids)})
        until(lambda: not pids & set(connection.execute(others).scalars()))
    return pids
