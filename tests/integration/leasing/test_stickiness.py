"""Sticky keys: the same profile again, preferred or required."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from poolsql import Fleet
from poolsql.errors import BadInputError, ProfileRetiredError
from poolsql.leasing.checkout import Grant
from poolsql.leasing.line import HIGHEST_PRIORITY, LOWEST_PRIORITY
from poolsql.leasing.stickiness import STICK, StickyKey, stick
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk, Opened

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

NewDesk = Callable[..., Desk]
KINDS = ["prefer", "require"]


def got(desk: Desk, **asked: Any) -> Grant:
    """A checkout by key that has to succeed."""
    granted = desk.wait(**asked).try_once()
    assert granted is not None
    return granted


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_gets_the_profile_that_served_it_last(new_desk: NewDesk, kind: str) -> None:
    desk = new_desk(profiles=3)
    first = got(desk, **{kind: "sku-1"})
    desk.release(first)
    # It came back last, so that it is the last in turn.
    assert got(desk).profile.id != first.profile.id
    again = got(desk, **{kind: "sku-1"})
    assert again.profile.id == first.profile.id
    assert got(desk, **{kind: "sku-2"}).profile.id not in {first.profile.id, again.profile.id}


def test_keys_belong_to_their_pool(new_desk: NewDesk) -> None:
    desk, other = new_desk(), new_desk()
    assert got(desk, require="sku-1").profile.id == desk.only
    assert got(other, require="sku-1").profile.id == other.only


def test_a_preferred_profile_that_is_taken_is_replaced_for_good(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    first = got(desk, prefer="sku-1")
    second = got(desk, prefer="sku-1")
    assert second.profile.id != first.profile.id
    desk.release(first)
    desk.release(second)
    assert got(desk, prefer="sku-1").profile.id == second.profile.id


def test_a_required_profile_that_is_taken_is_waited_for(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    first = got(desk, require="sku-1")
    wait = desk.wait(require="sku-1", wait=60)
    assert wait.try_once() is None
    called = wait.stand_in_line()
    desk.release(first)
    called.result(timeout=10)
    again = wait.try_once()
    assert again is not None
    assert again.profile.id == first.profile.id


def test_a_required_profile_that_is_retired_is_named_and_leaves_nothing(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    first = got(desk, require="sku-1")
    desk.release(first)
    desk.execute(
        "UPDATE poolsql.profiles SET state = 'retired', state_reason = 'worn out' WHERE id = :id", id=first.profile.id
    )
    before = desk.picture()
    with pytest.raises(ProfileRetiredError, match=rf"profile {first.profile.key} .*'sku-1'.*\(worn out\); restore it"):
        desk.wait(require="sku-1", wait=60).try_once()
    assert desk.picture() == before
    assert desk.all("SELECT FROM poolsql.waiters WHERE pool_id = :pool", pool=desk.pool.id) == []
    # Who only prefers it gets another one.
    assert got(desk, prefer="sku-1").profile.id != first.profile.id


def test_a_required_profile_that_has_left_the_pool_is_replaced(new_desk: NewDesk) -> None:
    desk, elsewhere = new_desk(profiles=2), new_desk(profiles=0)
    first = got(desk, require="sku-1")
    desk.release(first)
    desk.execute("UPDATE poolsql.profiles SET pool_id = :to WHERE id = :id", to=elsewhere.pool.id, id=first.profile.id)
    assert got(desk, require="sku-1").profile.id != first.profile.id


def test_of_two_that_require_a_new_key_at_once_one_waits_for_the_others_profile(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    slower = desk.wait(require="sku-1", wait=60)
    assert slower._sticky is not None
    first = got(desk)
    # The faster one writes its choice down between the slower one's look and its lease.
    original = slower._stuck

    def chosen_meanwhile(grant: Grant | None) -> Grant | None:
        stick(desk.database, desk.pool.id, StickyKey("sku-1", required=True), first.profile.id)
        return original(grant)

    slower._stuck = chosen_meanwhile  # type: ignore[method-assign]
    assert slower.try_once() is None
    assert [row.profile_id for row in desk.leases()] == [first.profile.id], "what it had is given back"
    called = slower.stand_in_line()
    desk.release(first)
    called.result(timeout=10)
    granted = slower.try_once()
    assert granted is not None
    assert granted.profile.id == first.profile.id


@pytest.mark.parametrize("end", [Opened.commit, Opened.roll_back], ids=["it passes", "it fails"])
def test_of_two_sessions_that_require_a_new_key_the_second_takes_the_firsts_choice(
    new_desk: NewDesk, threads: ThreadPoolExecutor, end: Callable[[Opened], None]
) -> None:
    desk = new_desk(profiles=2)
    asked = {"pool_id": desk.pool.id, "key": "sku-1", "required": True}
    one, other = desk.profile_ids
    with desk.opened() as first:
        (row,) = first.run(STICK, {**asked, "profile_id": one})
        assert row.profile_id == one
        second = threads.submit(stick, desk.database, desk.pool.id, StickyKey("sku-1", required=True), other)
        desk.wait_until_blocked()
        end(first)
        kept = one if end is Opened.commit else other
        assert second.result(timeout=10) == kept
    assert got(desk, require="sku-1").profile.id == kept


@pytest.mark.parametrize("kind", KINDS)
def test_many_sessions_that_ask_with_one_new_key_at_once_share_its_profile_or_agree_on_the_last(
    new_desk: NewDesk, threads: ThreadPoolExecutor, kind: str
) -> None:
    desk = new_desk(profiles=6)
    ready = threading.Barrier(6)

    def ask(_: int) -> Grant | None:
        ready.wait(timeout=10)
        keys: dict[str, Any] = {kind: "sku-1"}
        return desk.wait(**keys).try_once()

    granted = [grant for grant in threads.map(ask, range(6)) if grant is not None]
    (kept,) = desk.all("SELECT profile_id FROM poolsql.sticky_keys WHERE pool_id = :pool", pool=desk.pool.id)
    profiles = [grant.profile.id for grant in granted]
    assert len(profiles) == len(set(profiles)), "one lease a profile"
    if kind == "require":
        assert profiles == [kept.profile_id], "only that one will do"
    else:
        assert len(profiles) == 6
        assert kept.profile_id in profiles
    # What was given back is free again.
    assert sorted(row.profile_id for row in desk.leases()) == sorted(profiles)


@pytest.fixture
def shop(fleet: Fleet) -> Any:
    pool = fleet.define_pool("sticky")
    fleet.define_launcher("sticky")
    pool.add_profile("sticky", launcher="sticky", exist_ok=True)
    return pool


@pytest.mark.parametrize(
    "asked",
    [
        {"prefer": ""},
        {"prefer": " "},
        {"require": "x" * 501},
        {"require": "nul\x00"},
        {"prefer": "a", "require": "b"},
        {"prefer": "a", "profile_id": 1},
        {"require": 7},
        {"priority": HIGHEST_PRIORITY + 1},
        {"priority": LOWEST_PRIORITY - 1},
        {"priority": 1.5},
        {"priority": True},
        {"priority": "1"},
        {"without_tags": "de"},
        {"without_tags": [""]},
        {"wait": -1},
    ],
    ids=str,
)
def test_what_cannot_be_right_is_refused_and_changes_nothing(shop: Any, fleet: Fleet, asked: dict[str, Any]) -> None:
    with pytest.raises(BadInputError):
        shop.checkout(**asked)
    assert shop.status().counts == {"available": 1}


def test_all_of_it_through_the_public_door(shop: Any, fleet: Fleet) -> None:
    with shop.lease(require="sku-1", priority=5, without_tags=["fr"]) as lease:
        assert lease.profile.key == "sticky"
    with shop.lease(prefer="sku-1", wait=5) as lease:
        pass
    until(lambda: shop.status().counts == {"available": 1})
