"""Checkouts look on where the last one of their kind found something, and lose nothing by it."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from poolsql.leasing import floors
from poolsql.leasing.checkout import CHECKOUT, Grant, checkout
from poolsql.leasing.floors import FLOOR_SECONDS, floors_of
from tests.fixtures.clocks import ManualClock
from tests.fixtures.fleets import Desk, FaultyDatabase
from tests.integration.leasing.test_plans import Plan, explain

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

NewDesk = Callable[..., Desk]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock that floors are kept by."""
    clock = ManualClock()
    monkeypatch.setattr(floors, "elapsed_clock", clock)
    return clock


@pytest.fixture
def desk(new_desk: NewDesk) -> Desk:
    """A pool of four profiles."""
    return new_desk(profiles=4)


def granted(desk: Desk, database: FaultyDatabase, **asked: str) -> Grant:
    """A checkout that has to succeed."""
    grant = checkout(database, desk.worker, desk.request(**asked))
    assert grant is not None
    return grant


def pass_over_the_first(desk: Desk, database: FaultyDatabase) -> None:
    """Lease the second profile while somebody is changing the first one."""
    with desk.opened() as other:
        other.execute("SELECT FROM poolsql.profiles WHERE id = %s FOR UPDATE", [desk.profile_ids[0]])
        assert granted(desk, database).profile.id == desk.profile_ids[1]


def test_what_comes_free_below_a_floor_is_found_after_a_second(
    desk: Desk, faulty: FaultyDatabase, clock: ManualClock
) -> None:
    pass_over_the_first(desk, faulty)
    clock.now += FLOOR_SECONDS / 2
    assert granted(desk, faulty).profile.id == desk.profile_ids[2]
    clock.now += FLOOR_SECONDS / 2
    assert granted(desk, faulty).profile.id == desk.profile_ids[0]


@pytest.mark.usefixtures("clock")
def test_what_comes_free_below_a_floor_is_found_at_once_when_there_is_nothing_above_it(
    desk: Desk, faulty: FaultyDatabase
) -> None:
    pass_over_the_first(desk, faulty)
    assert [granted(desk, faulty).profile.id for _ in range(3)] == [desk.profile_ids[n] for n in (2, 3, 0)]
    assert checkout(faulty, desk.worker, desk.request()) is None


@pytest.mark.usefixtures("clock")
def test_a_floor_is_for_those_who_ask_for_the_same(desk: Desk, faulty: FaultyDatabase) -> None:
    pass_over_the_first(desk, faulty)
    assert granted(desk, faulty, host=desk.host).profile.id == desk.profile_ids[0]


@pytest.mark.usefixtures("clock")
def test_an_empty_pool_is_looked_at_once(new_desk: NewDesk, faulty: FaultyDatabase) -> None:
    desk = new_desk(profiles=1)
    granted(desk, faulty)
    for _ in range(2):
        assert checkout(faulty, desk.worker, desk.request()) is None
    # The first had a floor, and so looked twice.
    assert faulty.ran.count(CHECKOUT) == 1 + 2 + 1


def test_no_more_floors_are_kept_than_are_worth_it(faulty: FaultyDatabase, desk: Desk) -> None:
    offered_at = desk.profile(desk.profile_ids[0]).available_at
    kept = floors_of(faulty)
    for criteria in range(floors.MOST + 1):
        kept.raise_to(criteria, offered_at)
    assert [kept.get(criteria) for criteria in (0, floors.MOST)] == [None, offered_at]


def test_a_held_snapshot_does_not_make_a_checkout_read_all_that_has_been_since(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=20)
    request = desk.request()
    with psycopg.connect(desk.database.url.set(drivername="postgresql").render_as_string(hide_password=False)) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("SELECT FROM poolsql.profiles LIMIT 1")
        for _ in range(400):
            desk.release(desk.granted())
        floor = floors_of(desk.database).get(request.criteria)
        asked = {**request.parameters(desk.worker), "floor": floor}
        everything = explain(desk.database, CHECKOUT, {**asked, "floor": None})
        above = explain(desk.database, CHECKOUT, asked)
    assert floor is not None
    assert read_to_pick(everything) > 50, "dead rows are in the way"
    assert read_to_pick(above) < 10


def read_to_pick(plan: Plan) -> int:
    """Pages that were read to find the profile."""
    (first, *_) = plan.reading("profiles")
    return int(first["Shared Hit Blocks"] + first["Shared Read Blocks"])
