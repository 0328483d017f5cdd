"""``poolsql attempt``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poolsql.leasing.outcomes import Outcome
from tests.fixtures.fleets import Desk
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_attempts_are_listed_the_newest_first_and_can_be_narrowed(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    first, second = desk.profile_ids
    old = desk.go(Outcome.SUCCESS, profile_id=first).lease_id
    new = desk.go(Outcome.BLOCKED, profile_id=second, host=desk.host).lease_id

    def ids(*options: object) -> list[int]:
        return [row["lease_id"] for row in calls("attempt", "list", "--pool", desk.pool.name, "--json", *options).json]

    assert ids() == [new, old]
    assert ids("--limit", 1) == ids("--outcome", "blocked") == ids("--host", desk.host) == [new]
    assert ids("--profile", first) == ids("--profile", desk.profile(first).key) == [old]
    heading, row, _ = calls("attempt", "list", "--pool", desk.pool.name).table
    told = dict(zip(heading, row, strict=True))
    assert (told["LEASE"], told["OUTCOME"], told["BLAMES"]) == (str(new), "blocked", "profile_host")
    assert calls("attempt", "list", "--pool", desk.pool.name, "--outcome", "captcha").line == "no attempts"


def test_an_attempt_is_shown_with_its_visits(calls: Calls, desk: Desk) -> None:
    granted = desk.granted()
    desk.visit(granted, Outcome.NOT_FOUND, host=desk.host, url="http://a.test/\x1b[2J", status=404, seconds=1.5)
    desk.release(granted)
    shown = calls("attempt", "show", granted.lease_id)
    assert shown.code == 0
    assert "http://a.test/ [2J" in shown.out
    assert "\x1b" not in shown.out
    told = calls("attempt", "show", granted.lease_id, "--json").json
    assert (told["attempt"]["lease_id"], told["attempt"]["ended_by"]) == (granted.lease_id, "holder")
    (visit,) = told["visits"]
    assert (visit["outcome"], visit["status"], visit["host"]) == ("not_found", 404, desk.host)
    assert visit["took"] == pytest.approx(1.5, abs=0.5)


def test_what_does_not_exist(calls: Calls, desk: Desk) -> None:
    assert calls("attempt", "show", 2**40).refusal.startswith(f"there is no attempt {2**40}; see: poolsql attempt list")
    assert "there is no pool" in calls("attempt", "list", "--pool", "x").refusal
    assert "there is no profile" in calls("attempt", "list", "--profile", "no such key").refusal
    assert "Invalid value for '--outcome'" in calls("attempt", "list", "--outcome", "bad").refusal
