"""Retirement: by failures in a row, failure rate, uses and age; by hand; and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from poolsql.errors import BadInputError, UnknownNameError
from poolsql.leasing import registry
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.retirement import change_state, retire_due
from tests.fixtures.fleets import Desk

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def run(desk: Desk, outcomes: Iterable[Outcome]) -> list[str | None]:
    """Whole leases one after the other; why each retired the profile."""
    reasons = []
    for outcome in outcomes:
        reasons.append(desk.go(outcome).retired_because)
        desk.free_all()
    return reasons


def pattern(letters: str) -> list[Outcome]:
    """``B`` blamed, ``s`` success."""
    return [Outcome.BLOCKED if letter == "B" else Outcome.SUCCESS for letter in letters]


# By rule, in the statement that ends the lease (I4)


def test_five_blamed_attempts_in_a_row_retire_i5(desk: Desk) -> None:
    assert run(desk, pattern("BBBsBBBBB")) == [None] * 8 + ["5 blamed attempts in a row"]
    profile = desk.profile(desk.only)
    assert (profile.state, profile.state_reason, profile.state_changed_by) == (
        "retired",
        "5 blamed attempts in a row",
        "poolsql",
    )
    assert desk.grant() is None


def test_outcomes_that_blame_somebody_else_never_retire_i5(desk: Desk) -> None:
    outcomes = [Outcome.RATE_LIMITED, Outcome.PROXY_FAILED, Outcome.LAUNCH_FAILED, Outcome.SITE_ERROR]
    assert run(desk, outcomes * 6) == [None] * 24
    assert desk.profile(desk.only).state == "active"


def test_crashes_retire_through_every_third_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(retire_after=2)
    assert run(desk, [Outcome.BROWSER_CRASHED] * 6) == [None] * 5 + ["2 blamed attempts in a row"]


@pytest.mark.parametrize(
    ("letters", "retired_at"),
    [
        pytest.param("BBBs" * 4 + "BBs" + "B", 20, id="15 of 20 by a blamed one"),
        pytest.param("BBs" * 6 + "ss", 20, id="12 of 20, completed by a success"),
        pytest.param("BBs" * 5 + "Bssss", None, id="11 of 20"),
        pytest.param("BBBs" * 4 + "BBs", None, id="14 of 19"),
        pytest.param("s" * 8 + "BBBs" * 4, 24, id="12 of the last 20"),
    ],
)
def test_a_failure_rate_of_60_percent_of_the_last_20_retires_i5(
    desk: Desk, letters: str, retired_at: int | None
) -> None:
    reason = "too many of its last 20 attempts were blamed on it"
    reasons = []
    for outcome in pattern(letters):
        if desk.profile(desk.only).state == "retired":
            break
        reasons += run(desk, [outcome])
    blamed = letters[:20].count("B")
    assert blamed != 12 or retired_at
    if retired_at is None:
        assert reasons == [None] * len(letters)
    else:
        assert reasons == [None] * (len(reasons) - 1) + [reason]
        assert len(reasons) <= retired_at


def test_the_share_is_compared_without_rounding_errors(new_desk: Callable[..., Desk]) -> None:
    """0.56 * 25 is 14.000000000000002 in binary; fourteen of twenty-five are 56 percent all the same."""
    desk = new_desk(retire_rate=0.56, retire_window=25, retire_after=None)
    reasons = run(desk, pattern("s" * 11 + "B" * 14))
    assert reasons == [None] * 24 + ["too many of its last 25 attempts were blamed on it"]


def test_rules_can_be_switched_off(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(retire_after=None, retire_rate=None)
    assert run(desk, pattern("B" * 25)) == [None] * 25


def test_a_used_up_profile_retires_at_its_last_release(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(max_uses=3)
    assert run(desk, pattern("sss")) == [None, None, "used 3 times"]


def test_an_old_profile_retires_when_it_comes_back(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(max_age="30d")
    granted = desk.granted()
    desk.execute(
        "UPDATE poolsql.profiles SET judged_from = judged_from - interval '31 days' WHERE id = :id", id=desk.only
    )
    assert desk.release(granted).retired_because == "reached its maximum age"


def test_a_lease_that_expires_can_retire_its_profile_too(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(max_uses=1)
    assert desk.lose(browser=False).retired_because == "used 1 times"
    assert desk.profile(desk.only).state == "retired"


def test_a_paused_profile_that_fails_on_is_retired(desk: Desk) -> None:
    run(desk, pattern("BBBB"))
    granted = desk.granted()
    change_state(desk.database, desk.only, "pause", who="eva", reason="look at it")
    assert desk.release(granted, Outcome.BLOCKED).retired_because == "5 blamed attempts in a row"
    assert desk.profile(desk.only).state == "retired"


def test_a_reason_that_postgres_refuses_is_kept_all_the_same(desk: Desk) -> None:
    change_state(desk.database, desk.only, "pause", who="eva\udcff", reason="look\0at it")
    row = desk.one("SELECT state_changed_by, state_reason FROM poolsql.profiles WHERE id = :id", id=desk.only)
    assert tuple(row) == ("eva\ufffd", "look\ufffdat it")


def test_what_a_person_retired_keeps_its_reason(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(max_uses=1)
    granted = desk.granted()
    change_state(desk.database, desk.only, "retire", who="eva", reason="sold")
    assert desk.release(granted).retired_because is None
    profile = desk.profile(desk.only)
    assert (profile.state, profile.state_reason, profile.state_changed_by) == ("retired", "sold", "eva")


# By rule, of free profiles


def test_free_profiles_that_meet_a_rule_by_now_are_retired(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=5)
    failed, used, old, leased, fine = desk.profile_ids
    for profile_id in (failed, failed, used, used, used, fine):
        desk.go(Outcome.BLOCKED if profile_id == failed else Outcome.SUCCESS, profile_id=profile_id)
        desk.free_all()
    desk.execute(
        "UPDATE poolsql.profiles SET judged_from = judged_from - interval '31 days' WHERE id = ANY (:ids)",
        ids=[old, leased],
    )
    granted = desk.granted(profile_id=leased)
    policy = PoolPolicy.from_values(retire_after=2, max_uses=3, max_age="30d")
    registry.define_pool(desk.database, desk.pool.name, policy)
    retired = {each.profile_id: each.reason for each in retire_due(desk.database, batch=1)}
    assert retired == {failed: "2 blamed attempts in a row", used: "used 3 times", old: "reached its maximum age"}
    for profile_id, reason in retired.items():
        profile = desk.profile(profile_id)
        assert (profile.state, profile.state_reason) == ("retired", reason)
    assert retire_due(desk.database) == []
    assert desk.release(granted).retired_because == "reached its maximum age"


@pytest.mark.parametrize("state", ["new", "paused", "retired"])
def test_only_active_profiles_are_retired_by_rule(new_desk: Callable[..., Desk], state: str) -> None:
    desk = new_desk(max_age="1d")
    desk.execute(
        "UPDATE poolsql.profiles SET state = :state, judged_from = '2000-01-01' WHERE id = :id",
        state=state,
        id=desk.only,
    )
    assert retire_due(desk.database) == []
    assert desk.profile(desk.only).state == state


# By hand


@pytest.mark.parametrize(
    ("state", "action", "becomes"),
    [
        ("new", "activate", "active"),
        ("new", "pause", "paused"),
        ("active", "pause", "paused"),
        ("paused", "resume", "active"),
        ("new", "retire", "retired"),
        ("active", "retire", "retired"),
        ("paused", "retire", "retired"),
        ("retired", "restore", "active"),
    ],
)
def test_a_person_changes_a_profile_and_is_written_down(desk: Desk, state: str, action: str, becomes: str) -> None:
    desk.execute("UPDATE poolsql.profiles SET state = :state WHERE id = :id", state=state, id=desk.only)
    change_state(desk.database, desk.only, action, who="eva", reason="because")
    profile = desk.profile(desk.only)
    assert (profile.state, profile.state_reason, profile.state_changed_by) == (becomes, "because", "eva")
    (audited,) = desk.all("SELECT * FROM poolsql.audit WHERE subject = :key", key=profile.key)
    assert (audited.who, audited.action, audited.reason) == ("eva", f"profile {action}", "because")
    assert (desk.grant() is not None) == (becomes == "active")


@pytest.mark.parametrize(
    ("state", "action"),
    [
        ("active", "activate"),
        ("paused", "activate"),
        ("paused", "pause"),
        ("retired", "pause"),
        ("active", "resume"),
        ("retired", "resume"),
        ("retired", "retire"),
        ("active", "restore"),
        ("paused", "restore"),
    ],
)
def test_what_does_not_fit_the_state_is_refused_and_changes_nothing(desk: Desk, state: str, action: str) -> None:
    desk.execute("UPDATE poolsql.profiles SET state = :state WHERE id = :id", state=state, id=desk.only)
    before = desk.picture()
    with pytest.raises(BadInputError, match=f"is {state}; only"):
        change_state(desk.database, desk.only, action, who="eva")
    assert desk.picture() == before
    assert desk.all("SELECT * FROM poolsql.audit WHERE subject = :key", key=desk.profile(desk.only).key) == []


def test_an_unknown_action_is_refused(desk: Desk) -> None:
    with pytest.raises(BadInputError, match="there is no action 'explode'; known are activate, pause"):
        change_state(desk.database, desk.only, "explode", who="eva")


def test_an_unknown_profile_is_refused(desk: Desk) -> None:
    with pytest.raises(UnknownNameError, match="there is no profile"):
        change_state(desk.database, 2**62, "pause", who="eva")


@pytest.mark.parametrize("action", ["pause", "retire"])
def test_a_leased_profile_keeps_its_lease_and_is_not_offered_afterwards(desk: Desk, action: str) -> None:
    lease = desk.lease()
    change_state(desk.database, desk.only, action, who="eva")
    lease.renew()
    lease.release()
    assert desk.profile(desk.only).available_at is not None
    assert desk.grant() is None


def test_a_restored_profile_starts_afresh(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(max_uses=5, max_age="30d")
    run(desk, pattern("BBBB"))
    desk.execute(
        "UPDATE poolsql.profiles SET judged_from = judged_from - interval '31 days' WHERE id = :id", id=desk.only
    )
    run(desk, [Outcome.SESSION_LOST])
    assert desk.profile(desk.only).state == "retired"
    change_state(desk.database, desk.only, "restore", who="eva")
    profile = desk.profile(desk.only)
    assert (profile.consecutive_failures, profile.consecutive_crashes, profile.consecutive_losses) == (0, 0, 0)
    assert (profile.consecutive_holds, profile.uses, profile.needs_person_since) == (0, 0, None)
    assert run(desk, pattern("BBBBs")) == [None] * 4 + ["used 5 times"], "each rule counts from the restore on"
    assert len(desk.attempts()) == 10, "history stays"


def test_a_failure_rate_counts_from_the_restore_on(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(retire_after=None, retire_window=10)
    assert run(desk, pattern("s" * 4 + "B" * 6))[-1] is not None
    change_state(desk.database, desk.only, "restore", who="eva")
    assert run(desk, pattern("B" * 9)) == [None] * 9
    assert run(desk, pattern("B")) == ["too many of its last 10 attempts were blamed on it"]
