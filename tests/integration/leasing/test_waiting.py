"""Waiting for a profile, and what is told when none came free."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from typing import Any

import pytest

from poolsql.errors import BadInputError
from poolsql.leasing.checkout import record_miss
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.status import pool_status
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_a_wait_ends_as_soon_as_a_profile_is_released(desk: Desk, threads: ThreadPoolExecutor) -> None:
    leased = desk.granted()
    wait = desk.wait(wait=30)
    assert wait.try_once() is None
    called = wait.stand_in_line()
    desk.release(leased)
    called.result(timeout=5)
    granted = wait.try_once()
    assert granted is not None
    assert granted.profile.id == desk.only
    assert desk.all("SELECT FROM poolsql.misses WHERE pool_id = :pool", pool=desk.pool.id) == [], "no miss"


def test_without_waiting_there_is_one_try(desk: Desk) -> None:
    desk.granted()
    wait = desk.wait()
    assert wait.try_once() is None
    assert wait.left == 0


def test_a_miss_is_told_and_recorded_with_reasons_and_the_next_moment(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=5)
    desk.granted(profile_id=desk.profile_ids[0])
    soon = desk.go(Outcome.PROXY_FAILED, profile_id=desk.profile_ids[1])
    desk.go(Outcome.BLOCKED, profile_id=desk.profile_ids[2])
    desk.go(Outcome.BLOCKED, profile_id=desk.profile_ids[3])
    desk.execute("UPDATE poolsql.profiles SET state = 'paused' WHERE id = :id", id=desk.profile_ids[4])
    wait = desk.wait(task="sku-1", host=desk.host)
    assert wait.try_once() is None
    error = wait.give_up()
    assert error.counts == {"leased": 1, "held": 1, "cooling": 2, "paused": 1}
    assert error.next_free_at == soon.available_at
    when = soon.available_at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert str(error) == (
        f"pool {desk.pool.name!r}: no profile available for {desk.host} "
        f"(2 cooling, 1 held, 1 leased, 1 paused); next one expected at {when}"
    )
    miss = desk.one("SELECT * FROM poolsql.misses WHERE pool_id = :pool", pool=desk.pool.id)
    assert (miss.counts, miss.next_free_at) == (error.counts, error.next_free_at)
    assert (miss.task, miss.host, miss.tags, miss.worker_id) == ("sku-1", desk.host, [], desk.worker.id)
    assert timedelta(0) <= miss.waited < timedelta(seconds=5)


def test_a_miss_after_waiting_says_for_how_long(desk: Desk) -> None:
    desk.granted()
    wait = desk.wait(wait="0.01s")
    until(lambda: wait.left == 0)
    assert re.search(r"no profile available after [\d.]+s \(1 leased\)$", str(wait.give_up()))


def test_a_miss_of_an_empty_pool_says_so(new_desk: Callable[..., Desk]) -> None:
    error = new_desk(profiles=0).wait().give_up()
    assert str(error).endswith("no profile available (the pool is empty)")
    assert (error.counts, error.next_free_at) == ({}, None)


def test_nothing_is_expected_when_all_profiles_are_leased_or_none_matches(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    desk.granted()
    assert desk.wait(tags=("de",)).give_up().next_free_at is None
    desk.granted()
    error = desk.wait().give_up()
    assert (error.counts, error.next_free_at) == ({"leased": 2}, None)


def test_a_paused_host_says_when_it_goes_on(desk: Desk) -> None:
    desk.go(Outcome.CAPTCHA, host=desk.host)
    desk.execute("DELETE FROM poolsql.cooldowns WHERE profile_id = :id", id=desk.only)
    error = desk.wait(host=desk.host).give_up()
    assert error.counts == {"host_paused": 1}
    assert error.next_free_at == desk.host_row().paused_until


def test_profiles_that_could_not_serve_a_paused_host_promise_nothing(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    desk.execute("UPDATE poolsql.profiles SET state = 'retired' WHERE id = :id", id=desk.profile_ids[0])
    desk.execute(
        "INSERT INTO poolsql.hosts (name, paused_until) VALUES (:host, clock_timestamp() + interval '1 hour')",
        host=desk.host,
    )
    assert desk.wait(host=desk.host).give_up().counts == {"host_paused": 1, "retired": 1}
    nobody = desk.wait(host=desk.host, tags=("de",)).give_up()
    assert (nobody.counts, nobody.next_free_at) == ({"no_match": 1, "retired": 1}, None)


def test_the_later_of_two_reasons_tells_the_next_moment(desk: Desk) -> None:
    desk.go(Outcome.CAPTCHA, host=desk.host)
    later = max(desk.cooldown(desk.only).until, desk.host_row().paused_until)
    assert desk.wait(host=desk.host).give_up().next_free_at == later


def test_a_miss_of_a_paused_pool_says_so(desk: Desk) -> None:
    desk.execute("UPDATE poolsql.pools SET paused_at = clock_timestamp() WHERE id = :id", id=desk.pool.id)
    error = desk.wait().give_up()
    assert "(1 pool paused)" in str(error)
    assert error.next_free_at is None


@pytest.mark.parametrize("wait", [-1, -0.001, "-1s", float("nan"), float("inf"), "soon", "", True, timedelta(days=-1)])
def test_a_wait_that_cannot_be_right_is_refused_and_changes_nothing(desk: Desk, wait: Any) -> None:
    before = desk.picture()
    with pytest.raises(BadInputError, match=r"^wait: "):
        desk.wait(wait=wait)
    assert desk.picture() == before


# Status


def test_the_status_of_a_pool_counts_each_profile_once(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=8, rest="1h")
    free, leased, reclaiming, held, cooling, resting, new, retired = desk.profile_ids
    desk.granted(profile_id=leased)
    desk.start_browser(gone := desk.granted(profile_id=reclaiming), machine="here")
    desk.expire(gone.lease_id)
    desk.reaper(machine="elsewhere").run_once()
    soonest = desk.go(Outcome.PROXY_FAILED, profile_id=held)
    desk.go(Outcome.BLOCKED, profile_id=cooling)
    desk.go(Outcome.SUCCESS, profile_id=resting)
    for profile_id, state in ((new, "new"), (retired, "retired")):
        desk.execute("UPDATE poolsql.profiles SET state = :state WHERE id = :id", state=state, id=profile_id)
    status = pool_status(desk.database, desk.pool.id)
    reasons = ("available", "leased", "reclaiming", "held", "cooling", "resting", "new", "retired")
    assert status.counts == dict.fromkeys(reasons, 1)
    assert (status.available, status.next_free_at) == (1, soonest.available_at)
    assert desk.granted().profile.id == free
    assert pool_status(desk.database, desk.pool.id).available == 0


def test_status_and_miss_tell_the_same(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=3)
    desk.granted()
    desk.go(Outcome.BLOCKED)
    desk.execute("UPDATE poolsql.launchers SET breaker_open_until = now() + interval '1 hour'")
    status = pool_status(desk.database, desk.pool.id)
    miss = record_miss(desk.database, desk.worker, desk.request(), waited=0)
    assert miss.counts == status.counts == {"leased": 1, "breaker": 2}
    assert miss.next_free_at == status.next_free_at is not None


def test_a_paused_pool_has_nothing_to_offer_and_says_so(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=3)
    desk.granted()
    desk.go(Outcome.BLOCKED)
    desk.execute("UPDATE poolsql.pools SET paused_at = clock_timestamp() WHERE id = :id", id=desk.pool.id)
    status = pool_status(desk.database, desk.pool.id)
    miss = record_miss(desk.database, desk.worker, desk.request(), waited=0)
    assert miss.counts == status.counts == {"leased": 1, "cooling": 1, "pool_paused": 1}
    assert (status.available, status.next_free_at, miss.next_free_at) == (0, None, None)
