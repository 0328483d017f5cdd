"""Whole lives of leases through PgBouncer in transaction mode, by several clients of few server connections."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql import BadInputError, Fleet, NoProfileAvailableError, Outcome, Visit, connect
from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.role_settings import set_role_settings
from poolsql.leasing.presence import present_keys
from poolsql.operations.workers import list_workers
from poolsql.scheduling.targets import TargetSource, check_query, read_targets
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk
from tests.fixtures.poolers import PgBouncer, pooler_before

NewFleet = Callable[..., Fleet]

CYCLES = 5
"""Leases of each client; one that cannot listen may wait a second for each."""


@pytest.fixture(scope="module")
def pooler(pgbouncer: str, database_url: URL, settings: Settings) -> Iterator[PgBouncer]:
    """Before the module's database, whose owner has the settings of poolsql's sessions."""
    own = Database(database_url, settings)
    set_role_settings(own, settings)
    own.close()
    with pooler_before(pgbouncer, database_url) as running:
        yield running


@pytest.fixture(scope="module")
def database(pooler: PgBouncer, database_url: URL, settings: Settings) -> Iterator[Database]:
    """The module's database through the pooler: desks work through it too."""
    opened = Database(pooler.at(database_url), settings)
    yield opened
    opened.close()


@pytest.fixture
def new_fleet(pooler: PgBouncer, database_url: URL, settings: Settings) -> Iterator[NewFleet]:
    """Connects fleets through the pooler; ``direct=True``: with the direct address too."""
    with ExitStack() as fleets:

        def make(*, direct: bool = False) -> Fleet:
            past = {"direct_database_url": written(database_url)} if direct else {}
            url = written(pooler.at(database_url))
            return fleets.enter_context(connect(url, machine="here", data_dir=settings.data_dir, **past))

        yield make


def written(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def test_profiles_are_lent_to_one_at_a_time(new_fleet: NewFleet, desk: Desk) -> None:
    desk.add_profiles(2)
    fleets = [new_fleet(direct=direct) for direct in (False, False, False, True, True, True)]

    def work(fleet: Fleet) -> list[tuple[int, float, float]]:
        pool, held = fleet.pool(desk.pool.name), []
        for number in range(CYCLES):
            lease = pool.checkout(wait=60, task=f"task-{number % 3}", host=desk.host)
            began = elapsed_clock()
            lease.renew()
            if number % 2:
                lease.record(Visit(outcome=Outcome.SUCCESS, host=desk.host))
            held.append((lease.profile.id, began, elapsed_clock()))
            lease.release()
        return held

    with ThreadPoolExecutor(len(fleets)) as threads:
        held = [entry for entries in threads.map(work, fleets) for entry in entries]
    assert len(held) == len(fleets) * CYCLES
    for profile in desk.profile_ids:
        times = sorted((began, ended) for which, began, ended in held if which == profile)
        assert all(ended <= begins for (_, ended), (begins, _) in pairwise(times))
    assert {row.outcome for row in desk.attempts()} == {"success"}
    assert desk.leases() == []
    assert desk.all("SELECT FROM poolsql.refused_reports") == []


@pytest.mark.parametrize("direct", [False, True])
def test_a_waiting_checkout_gets_what_another_client_gives_back(
    direct: bool, new_fleet: NewFleet, desk: Desk, threads: ThreadPoolExecutor
) -> None:
    pool = new_fleet(direct=direct).pool(desk.pool.name)
    lease = new_fleet().pool(desk.pool.name).checkout()
    waiting = threads.submit(pool.checkout, wait=60)
    until(
        lambda: desk.all(
            "SELECT FROM poolsql.waiters WHERE pool_id = :pool AND listens = :listens",
            pool=desk.pool.id,
            listens=direct,
        )
    )
    lease.release()
    # Only who listens is handed the profile by the very release; others look once a second.
    handed = waiting.result(timeout=10)
    assert handed.profile.id == desk.only
    handed.release()


def test_many_at_once(new_fleet: NewFleet, desk: Desk) -> None:
    desk.add_profiles(19)
    first, second = new_fleet().pool(desk.pool.name), new_fleet().pool(desk.pool.name)
    leases = first.checkout_many(15) + second.checkout_many(15)
    assert sorted(lease.profile.id for lease in leases) == sorted(desk.profile_ids)
    with pytest.raises(NoProfileAvailableError):
        second.checkout()
    for lease in leases:
        lease.release()


def test_leases_of_the_dead_and_leases_that_expired_are_taken_back(new_fleet: NewFleet, desk: Desk) -> None:
    fleet = new_fleet()
    # The desk's worker is no process that lives.
    lost = desk.granted()
    fleet.reap()
    assert desk.attempt(lost.lease_id).outcome == "worker_lost"
    desk.free_all()
    expired = desk.granted()
    desk.expire(expired.lease_id)
    desk.reaper().run_once()
    assert desk.attempt(expired.lease_id).outcome == "lease_expired"
    desk.free_all()
    fleet.pool(desk.pool.name).checkout().release()


def test_renewals_go_on_while_the_pooler_is_started_anew(
    new_fleet: NewFleet, new_desk: Callable[..., Desk], pooler: PgBouncer
) -> None:
    desk = new_desk(profiles=4, ttl="6s", renew="1s")
    fleets = [new_fleet(direct=direct) for direct in (False, True)]
    leases = [lease for fleet in fleets for lease in fleet.pool(desk.pool.name).checkout_many(2)]
    pooler.kill()
    pooler.start()
    for lease in leases:
        after = lease.expires_at
        until(lambda lease=lease, after=after: lease.expires_at > after)  # type: ignore[misc]
    assert len(desk.leases()) == 4
    for lease in leases:
        lease.release()
    assert {row.outcome for row in desk.attempts()} == {"success"}
    # Work that was not under way goes on as well.
    fleets[0].pool(desk.pool.name).checkout().release()


def test_presence_is_off_and_says_so_once(
    new_fleet: NewFleet, desk: Desk, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    fleet = new_fleet()
    fleet.pool(desk.pool.name).checkout().release()
    presence = fleet._runtime._presence
    assert presence is not None
    assert not presence.listens()
    until(lambda: not presence._thread.is_alive())
    fleet.pool(desk.pool.name).checkout().release()
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 1, told
    for words in ("presence is off", "connection pooler", "once a second", "POOLSQL_DIRECT_DATABASE_URL"):
        assert words in told[0]
    assert shown_present(database, fleet) is None


def test_presence_takes_the_direct_address(new_fleet: NewFleet, database: Database) -> None:
    fleet = new_fleet(direct=True)
    key = fleet.worker.lock_key
    presence = fleet._runtime._presence
    assert presence is not None
    assert presence.listens()
    assert key in present_keys(database)
    assert shown_present(database, fleet) is True
    fleet.close()
    until(lambda: key not in present_keys(database))


def test_a_query_of_targets_is_one_that_only_reads(desk: Desk, database: Database) -> None:
    source = TargetSource(query="SELECT 'https://a.test/' || n AS url FROM generate_series(1, 3) AS n")
    assert len(list(read_targets(database, source))) == 3
    before = desk.picture()
    for query in (
        "DELETE FROM poolsql.profiles",
        "SELECT 1 AS url) AS x; COMMIT; DELETE FROM poolsql.profiles; SELECT (1",
    ):
        with pytest.raises(BadInputError, match=r"syntax error|multiple commands"):
            check_query(database, query)
    assert desk.picture() == before


def test_two_pools_of_one_name_meet_in_the_database(new_fleet: NewFleet) -> None:
    name = f"pool-{uuid4().hex[:8]}"
    fleets = [new_fleet() for _ in range(4)]
    with ThreadPoolExecutor() as threads:
        ids = set(threads.map(lambda fleet: fleet.define_pool(name).id, fleets))
    assert len(ids) == 1
    with fleets[0].database.connect() as connection:
        assert connection.execute(
            text("SELECT count(*) FROM poolsql.pools WHERE name = :name"), {"name": name}
        ).scalar()


def shown_present(database: Database, fleet: Fleet) -> bool | None:
    """What `poolsql worker list` shows of the fleet's worker."""
    (line,) = [line for line in list_workers(database, machine="here") if line.id == fleet.worker.id]
    return line.present
