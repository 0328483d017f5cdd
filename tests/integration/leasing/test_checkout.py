"""Checkout: exclusive (I1), in one statement, longest available first, and only what fits the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from poolsql import Fleet, Pool
from poolsql.clocks import elapsed_clock
from poolsql.database.prepared import Row
from poolsql.database.statements import Parameters, Statement
from poolsql.errors import (
    BadInputError,
    DatabaseError,
    DatabaseUnavailableError,
    LeaseLostError,
    NoProfileAvailableError,
)
from poolsql.fleet import borrowing
from poolsql.leasing.checkout import CHECKOUT, CLAIM, Grant, checkout, checkout_many, record_miss
from poolsql.leasing.registry import define_launcher
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk, FaultyDatabase

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_a_leased_profile_is_not_offered_i1(desk: Desk) -> None:
    desk.lease()
    assert desk.grant() is None


def test_a_lease_has_the_times_of_its_pool(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(ttl="40s", renew="10s", max_lease="5m")
    before = elapsed_clock()
    granted = desk.granted(task="sku-1", host=desk.host)
    assert granted.expires_at - granted.acquired_at == timedelta(seconds=40)
    assert granted.deadline_at - granted.acquired_at == timedelta(minutes=5)
    assert (granted.ttl, granted.renew) == (timedelta(seconds=40), timedelta(seconds=10))
    # I6: the holder gives up a tenth of the TTL before the database would, counted from before it asked.
    assert before + 36 <= granted.trusted_until <= elapsed_clock() + 36
    row = desk.lease_row(granted.lease_id)
    assert (row.task, row.host, row.worker_id, row.state) == ("sku-1", desk.host, desk.worker.id, "held")


def test_the_longest_available_profile_comes_first(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=3)
    order = [desk.granted() for _ in range(3)]
    for granted in (order[1], order[2], order[0]):
        desk.release(granted)
    again = [desk.granted().profile.id for _ in range(3)]
    assert again == [granted.profile.id for granted in (order[1], order[2], order[0])]


def test_that_order_is_asked_for_and_no_luck_of_the_plan(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=4)
    desk.execute(
        "UPDATE poolsql.profiles SET available_at = clock_timestamp() - id * interval '1 second' WHERE pool_id = :pool",
        pool=desk.pool.id,
    )
    with desk.opened() as session:
        session.execute("SET LOCAL enable_indexscan = off")
        session.execute("SET LOCAL enable_bitmapscan = off")
        rows = [session.run(CHECKOUT, desk.request().parameters(desk.worker))[0] for _ in desk.profile_ids]
    assert [row.profile_id for row in rows] == sorted(desk.profile_ids, reverse=True)


def test_a_lease_tells_all_of_its_profile(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=0)
    (profile_id,) = desk.add_profiles(1, tags=["win11", "de"], options={"headless": True}, seed="s1")
    profile = desk.granted().profile
    assert (profile.id, profile.launcher, profile.seed) == (profile_id, desk.launcher, "s1")
    assert (set(profile.tags), profile.options, profile.proxy_id) == ({"win11", "de"}, {"headless": True}, None)


def test_each_lease_has_a_token_of_its_own(desk: Desk) -> None:
    first = desk.granted()
    desk.release(first)
    second = desk.granted()
    assert second.token != first.token
    assert second.lease_id != first.lease_id


COOL_DOWN = """
    INSERT INTO poolsql.cooldowns (profile_id, host, until, in_a_row, outcome, set_at)
    VALUES (:profile, :host, clock_timestamp() + interval '1 hour', 1, 'blocked', clock_timestamp())
"""
WAIT_FOR = """
    UPDATE poolsql.profiles
    SET available_at = clock_timestamp() + interval '1 hour', waits_for = '{}'
    WHERE id = :profile
"""
WAITED = "UPDATE poolsql.profiles SET available_at = clock_timestamp() WHERE id = :profile"

# What keeps a profile from being offered: how it comes about, how it ends, and the reason that a miss tells.
OBSTACLES = {
    "its pool is paused": (
        "UPDATE poolsql.pools SET paused_at = clock_timestamp() WHERE id = :pool",
        "UPDATE poolsql.pools SET paused_at = NULL WHERE id = :pool",
        "pool_paused",
    ),
    "the host is paused": (
        "INSERT INTO poolsql.hosts (name, paused_until) VALUES (:host, clock_timestamp() + interval '1 hour')",
        "UPDATE poolsql.hosts SET paused_until = clock_timestamp() WHERE name = :host",
        "host_paused",
    ),
    "the host is stopped": (
        "INSERT INTO poolsql.hosts (name, stopped_at) VALUES (:host, clock_timestamp())",
        "UPDATE poolsql.hosts SET stopped_at = NULL WHERE name = :host",
        "host_stopped",
    ),
    "it cools down": (WAIT_FOR.format("cooldown"), WAITED, "cooling"),
    "it is held": (WAIT_FOR.format("hold"), WAITED, "held"),
    "it rests": (WAIT_FOR.format("rest"), WAITED, "resting"),
    "it cools down on the host": (
        COOL_DOWN,
        "UPDATE poolsql.cooldowns SET until = clock_timestamp() WHERE profile_id = :profile",
        "cooling",
    ),
    "it is on another machine": (
        "UPDATE poolsql.profiles SET machine = 'there' WHERE id = :profile",
        "UPDATE poolsql.profiles SET machine = 'here' WHERE id = :profile",
        "other_machine",
    ),
    "its launcher is for other machines": (
        "UPDATE poolsql.launchers SET machines = '{there,elsewhere}' WHERE name = :launcher",
        "UPDATE poolsql.launchers SET machines = '{there,here}' WHERE name = :launcher",
        "other_machine",
    ),
    "its launcher's breaker is open": (
        "UPDATE poolsql.launchers SET breaker_open_until = now() + interval '1 hour' WHERE name = :launcher",
        "UPDATE poolsql.launchers SET breaker_open_until = clock_timestamp() WHERE name = :launcher",
        "breaker",
    ),
    **{
        f"it is {state}": (
            f"UPDATE poolsql.profiles SET state = '{state}' WHERE id = :profile",
            "UPDATE poolsql.profiles SET state = 'active' WHERE id = :profile",
            state,
        )
        for state in ("new", "paused", "retired")
    },
}


@pytest.mark.parametrize(("obstacle", "end", "reason"), OBSTACLES.values(), ids=OBSTACLES.keys())
def test_a_profile_is_passed_over_while(desk: Desk, obstacle: str, end: str, reason: str) -> None:
    facts = {"pool": desk.pool.id, "profile": desk.only, "host": desk.host, "launcher": desk.launcher}

    def change(statement: str) -> None:
        desk.execute(statement, **{name: value for name, value in facts.items() if f":{name}" in statement})

    change(obstacle)
    assert desk.grant(host=desk.host) is None
    miss = record_miss(desk.database, desk.worker, desk.request(host=desk.host), waited=0)
    assert miss.counts == {reason: 1}
    assert (miss.next_free_at is not None) == ("1 hour" in obstacle)
    change(end)
    desk.granted(host=desk.host)


def test_what_concerns_one_host_leaves_the_others_alone(desk: Desk) -> None:
    desk.execute(
        "INSERT INTO poolsql.hosts (name, stopped_at) VALUES (:host, clock_timestamp())",
        host=desk.host,
    )
    desk.execute(COOL_DOWN, profile=desk.only, host=desk.host)
    elsewhere = desk.granted(host=f"other.{desk.host}")
    assert elsewhere.profile.id == desk.only
    desk.release(elsewhere)
    assert desk.granted().profile.id == desk.only


def test_all_tags_that_are_asked_for_must_be_there(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk()
    (tagged,) = desk.add_profiles(1, tags=["win11", "de"])
    assert desk.grant(tags=("win11", "fr")) is None
    assert desk.granted(tags=("de", "win11")).profile.id == tagged
    miss = record_miss(desk.database, desk.worker, desk.request(tags=("de",)), waited=0)
    assert miss.counts == {"leased": 1, "no_match": 1}


def test_a_named_profile_is_the_only_one_offered(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=3)
    wanted = desk.profile_ids[2]
    assert desk.granted(profile_id=wanted).profile.id == wanted
    assert desk.grant(profile_id=wanted) is None


def test_a_named_profile_of_another_pool_is_not_offered(new_desk: Callable[..., Desk]) -> None:
    desk, other = new_desk(), new_desk()
    assert desk.grant(profile_id=other.only) is None


def test_a_profile_goes_to_its_own_machine_only(new_desk: Callable[..., Desk]) -> None:
    here = new_desk()
    there = new_desk(machine="there", pool=here.pool, profiles=0)
    granted = there.granted()
    there.start_browser(granted, machine="there")
    there.release(granted, stop_rung="term")
    assert here.grant() is None
    there.granted()


def test_a_pool_without_its_launcher_on_this_machine_says_so(desk: Desk) -> None:
    define_launcher(desk.database, desk.launcher, kind="local", pins_machine=True, options={}, machines=[])
    assert desk.grant() is None


def test_the_unique_index_is_the_last_guard_i1(desk: Desk) -> None:
    granted = desk.granted()
    # As if everything else in checkout were wrong.
    desk.execute("UPDATE poolsql.profiles SET available_at = '2000-01-01' WHERE id = :id", id=desk.only)
    with pytest.raises(DatabaseError, match="leases_profile_id_key"):
        desk.grant()
    assert [row.id for row in desk.leases()] == [granted.lease_id]


# The same request gets the same lease, whatever was lost on the way


@pytest.mark.parametrize("profiles", [1, 2], ids=["the last profile", "another one is free"])
def test_a_repeated_request_gets_the_same_lease(new_desk: Callable[..., Desk], profiles: int) -> None:
    desk = new_desk(profiles=profiles)
    request = desk.request()
    first = checkout(desk.database, desk.worker, request)
    again = checkout(desk.database, desk.worker, request)
    assert first is not None
    assert again is not None
    assert (again.lease_id, again.token, again.profile) == (first.lease_id, first.token, first.profile)
    assert len(desk.leases()) == 1


def test_a_repeated_request_of_another_worker_gets_nothing_of_it(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk()
    request = desk.request(id=uuid4())
    assert checkout(desk.database, desk.worker, request) is not None
    other = new_desk(pool=desk.pool, profiles=0)
    assert checkout(desk.database, other.worker, request) is None


def test_a_lost_answer_does_not_lose_the_lease_i6(desk: Desk, faulty: FaultyDatabase) -> None:
    faulty.lose_answer_of(CHECKOUT)
    granted = checkout(faulty, desk.worker, desk.request())
    assert granted is not None
    assert [row.id for row in desk.leases()] == [granted.lease_id]
    # How old it is by now only the database knows: what found it has renewed it.
    (row,) = desk.leases()
    assert granted.expires_at == row.expires_at > row.acquired_at + row.ttl
    assert elapsed_clock() < granted.trusted_until < granted.trusted_at_most_until


def test_a_repeated_request_waits_for_the_first_one_that_is_still_running_i6(
    new_desk: Callable[..., Desk], faulty: FaultyDatabase, threads: ThreadPoolExecutor
) -> None:
    desk = new_desk(profiles=2)
    with desk.opened() as first_connection:
        first_rows: list[Row] = []

        def still_running(parameters: Parameters) -> Sequence[Row]:
            first_rows.extend(first_connection.run(CHECKOUT, parameters))
            raise psycopg.OperationalError("the connection is gone, the statement is not")

        faulty.instead_of_next(CHECKOUT, still_running)
        repeated: Future[object] = threads.submit(checkout, faulty, desk.worker, desk.request())
        desk.wait_until_blocked()
        first_connection.commit()
        granted = repeated.result(timeout=10)
    assert granted is not None
    assert [row.id for row in desk.leases()] == [first_rows[0].lease_id] == [getattr(granted, "lease_id", None)]
    assert faulty.ran == [CHECKOUT, CHECKOUT, CLAIM]
    assert desk.granted() is not None, "the other profile is still free"


def test_a_database_that_stays_away_is_told_of(desk: Desk, faulty: FaultyDatabase) -> None:
    faulty.down = True
    faulty.patience = 0.0
    with pytest.raises(DatabaseUnavailableError, match="cannot be reached"):
        checkout(faulty, desk.worker, desk.request())
    assert desk.leases() == []


def test_a_released_lease_is_refused_when_checked(desk: Desk) -> None:
    lease = desk.lease()
    lease.release()
    with pytest.raises(LeaseLostError, match="released"):
        lease.check()


# Several at once


def test_several_are_leased_in_one_round_trip_longest_available_first(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=4)
    leased = checkout_many(desk.database, desk.worker, desk.request(task="batch"), 3)
    assert [grant.profile.id for grant in leased] == desk.profile_ids[:3]
    assert [row.id for row in desk.leases()] == [grant.lease_id for grant in leased]
    assert len({grant.token for grant in leased}) == 3
    rest = checkout_many(desk.database, desk.worker, desk.request(), 3)
    assert [grant.profile.id for grant in rest] == desk.profile_ids[3:]
    assert checkout_many(desk.database, desk.worker, desk.request(), 3) == []


@pytest.mark.parametrize("profiles", [4, 3, 2], ids=["some are left", "none is left", "fewer than asked"])
def test_a_lost_answer_loses_none_of_several(
    new_desk: Callable[..., Desk], faulty: FaultyDatabase, profiles: int
) -> None:
    desk = new_desk(profiles=profiles)
    faulty.lose_answer_of(CHECKOUT)
    leased = checkout_many(faulty, desk.worker, desk.request(), 3)
    assert [grant.profile.id for grant in leased] == desk.profile_ids[:3]
    assert [row.id for row in desk.leases()] == [grant.lease_id for grant in leased]


def test_several_through_the_public_door(fleet: Fleet) -> None:
    pool = fleet.define_pool("several")
    fleet.define_launcher("several")
    for number in range(3):
        pool.add_profile(f"several-{number}", launcher="several")
    first, second = pool.checkout_many(2)
    (third,) = pool.checkout_many(2, wait=1)
    with pytest.raises(NoProfileAvailableError, match="3 leased"):
        pool.checkout_many(1)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(pool.checkout_many, 2, wait=30)
        until(lambda: fleet.database.run(WAITING, {}))
        first.release()
        (fourth,) = waiting.result(timeout=10)
    assert fourth.profile.id == first.profile.id
    for lease in (second, third, fourth):
        lease.release()


WAITING = Statement("waiting", "SELECT 1 FROM poolsql.waiters")


@pytest.fixture
def pool_whose_others_fail(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> Pool:
    """A pool in which a checkout of several waits for its first one, and fails at the others."""
    pool = fleet.define_pool("first-of-several")
    fleet.define_launcher("first-of-several")
    pool.add_profile("first-of-several", launcher="first-of-several", exist_ok=True)
    answers: list[Exception | None] = [None, failure]

    def first_nothing_then_the_failure(*_: Any) -> list[Grant]:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return []

    monkeypatch.setattr(borrowing, "checkout_many", first_nothing_then_the_failure)
    return pool


@pytest.mark.parametrize("failure", [DatabaseUnavailableError("the server went away, says the test")])
def test_a_database_that_goes_away_leaves_the_first_of_several(pool_whose_others_fail: Pool) -> None:
    (first,) = pool_whose_others_fail.checkout_many(3)
    first.check()
    first.release()


@pytest.mark.parametrize("failure", [RuntimeError("a mistake of ours, says the test")])
def test_a_mistake_among_several_keeps_none_of_them(pool_whose_others_fail: Pool) -> None:
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        pool_whose_others_fail.checkout_many(3)
    counts = pool_whose_others_fail.status().counts
    assert counts == {"available": 1}


@pytest.mark.parametrize("number", [0, -1, 1001, 1.5, True, "2", None])
def test_a_number_that_cannot_be_right_is_refused(fleet: Fleet, number: Any) -> None:
    pool = fleet.define_pool("several")
    with pytest.raises(BadInputError, match=r"^number: "):
        pool.checkout_many(number)
