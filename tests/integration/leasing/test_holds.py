"""Holds (I5): short and blameless, for faults of proxy, browser and launcher; pauses and breakers for failed starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poolsql.errors import LaunchFault
from poolsql.leasing import reports
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reaper import EXPIRE_FREE
from tests.fixtures.fleets import Desk, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


@pytest.mark.parametrize("outcome", [Outcome.PROXY_FAILED, Outcome.LAUNCH_FAILED])
def test_holds_double_up_to_ten_minutes_and_no_failure_is_counted_i5(desk: Desk, outcome: Outcome) -> None:
    waits = []
    for _ in range(7):
        attempt = desk.go(outcome)
        waits.append(attempt.wait.total_seconds())
        assert not attempt.counted
        assert desk.profile(desk.only).waits_for == "hold"
        desk.free_all()
    assert waits == [30, 60, 120, 240, 480, 600, 600]
    profile = desk.profile(desk.only)
    assert (profile.consecutive_failures, profile.state) == (0, "active")


@pytest.mark.parametrize("between", [Outcome.SUCCESS, Outcome.NOT_FOUND, Outcome.TASK_FAILED])
def test_anything_else_ends_a_row_of_holds_i5(desk: Desk, between: Outcome) -> None:
    waits = []
    for outcome in (Outcome.PROXY_FAILED, Outcome.BROWSER_CRASHED, between, Outcome.LAUNCH_FAILED):
        waits.append(desk.go(outcome).wait.total_seconds())
        desk.free_all()
    assert waits == [30, 60, 0, 30]


def test_a_holder_can_say_that_the_profile_must_not_be_held(desk: Desk) -> None:
    assert desk.go(Outcome.LAUNCH_FAILED, hold=False).wait.total_seconds() == 0
    profile = desk.profile(desk.only)
    assert (profile.waits_for, profile.consecutive_holds) == (None, 0)


# A proxy's fault holds all profiles behind it


@pytest.fixture
def behind(new_desk: Callable[..., Desk]) -> Desk:
    """Three profiles behind one proxy."""
    desk = new_desk(profiles=0)
    desk.add_profiles(3, proxy=desk.add_proxy())
    return desk


def test_a_fault_of_the_proxy_holds_the_free_profiles_behind_it_i5(behind: Desk) -> None:
    attempt = behind.go(Outcome.PROXY_FAILED)
    for profile_id in behind.profile_ids:
        profile = behind.profile(profile_id)
        assert (profile.available_at, profile.waits_for) == (attempt.available_at, "hold")
        assert profile.consecutive_failures == 0
    assert behind.grant() is None


def test_profiles_behind_another_proxy_are_left_alone(behind: Desk) -> None:
    others = [*behind.add_profiles(1, proxy=behind.add_proxy()), *behind.add_profiles(1)]
    behind.go(Outcome.PROXY_FAILED, profile_id=behind.profile_ids[0])
    assert {behind.granted().profile.id for _ in others} == set(others)


def test_a_leased_profile_behind_the_proxy_is_held_when_it_comes_back_i5(behind: Desk) -> None:
    leased, failing, _ = behind.profile_ids
    granted = behind.granted(profile_id=leased)
    attempt = behind.go(Outcome.PROXY_FAILED, profile_id=failing)
    profile = behind.profile(leased)
    assert (profile.available_at, profile.hold_until) == (None, attempt.available_at), "it only learns of it"
    behind.release(granted)
    profile = behind.profile(leased)
    assert (profile.available_at, profile.waits_for) == (attempt.available_at, "hold")
    assert behind.attempt(granted.lease_id).available_at == attempt.available_at


def test_a_leased_profile_that_comes_back_later_is_not_held_any_more(behind: Desk) -> None:
    leased, failing, _ = behind.profile_ids
    granted = behind.granted(profile_id=leased)
    behind.go(Outcome.PROXY_FAILED, profile_id=failing)
    behind.execute(
        "UPDATE poolsql.profiles SET hold_until = clock_timestamp() - interval '1 second' WHERE id = :id", id=leased
    )
    behind.release(granted)
    profile = behind.profile(leased)
    assert (profile.waits_for, profile.hold_until) == (None, None)
    behind.granted(profile_id=leased)


def test_a_longer_wait_wins_over_the_hold_of_the_proxy(behind: Desk) -> None:
    cooling, failing, leased = behind.profile_ids
    cooled = behind.go(Outcome.BLOCKED, profile_id=cooling)
    granted = behind.granted(profile_id=leased)
    behind.go(Outcome.PROXY_FAILED, profile_id=failing)
    behind.release(granted, Outcome.BLOCKED)
    for profile_id in (cooling, leased):
        assert behind.profile(profile_id).waits_for == "cooldown"
    assert behind.profile(cooling).available_at == cooled.available_at


def test_a_shorter_hold_of_the_proxy_does_not_replace_a_longer_one(behind: Desk) -> None:
    leased, failing, other = behind.profile_ids
    granted = behind.granted(profile_id=leased)
    second = behind.granted(profile_id=other)
    for _ in range(3):
        longest = behind.go(Outcome.PROXY_FAILED, profile_id=failing)
        behind.execute(
            "UPDATE poolsql.profiles SET available_at = '2000-01-01' WHERE id = :id",
            id=failing,
        )
    behind.release(second, Outcome.PROXY_FAILED)
    behind.release(granted)
    assert longest.wait.total_seconds() == 120
    assert behind.profile(leased).available_at == longest.available_at


def test_profiles_behind_one_proxy_that_end_together_are_all_held_and_none_is_lost_i5(behind: Desk) -> None:
    """The reaper ends many leases by one statement; in it, no profile may be changed twice."""
    granted = [behind.granted() for _ in behind.profile_ids]
    behind.visit(granted[0], Outcome.PROXY_FAILED)
    behind.visit(granted[1], Outcome.PROXY_FAILED)
    behind.expire(*(each.lease_id for each in granted))
    rows = behind.database.run(EXPIRE_FREE, {"dead_workers": [], "batch": 10, **LINE})
    assert [row.outcome for row in rows] == ["proxy_failed", "proxy_failed", "lease_expired"]
    for each in granted:
        profile = behind.profile(each.profile.id)
        attempt = behind.attempt(each.lease_id)
        assert profile.waits_for == "hold"
        assert profile.available_at == attempt.available_at
        assert attempt.wait.total_seconds() == pytest.approx(30, abs=0.1)
    assert behind.leases() == []


# A browser that does not start


def fail_to_start(
    desk: Desk, profile_id: int, *, fault: LaunchFault = LaunchFault.LAUNCHER, reason: str = "unknown id"
) -> str:
    """One lease whose browser does not start, given back as the fleet does it; returns the verdict."""
    granted = desk.granted(profile_id=profile_id)
    verdict = reports.start_failed(desk.database, name_of(granted), fault=fault, reason=reason)
    desk.release(
        granted,
        Outcome.LAUNCH_FAILED,
        hold=verdict == "hold",
        pause_because=reason if verdict == "pause" else None,
    )
    return verdict


def start(desk: Desk, profile_id: int) -> None:
    """One lease whose browser starts well."""
    granted = desk.granted(profile_id=profile_id)
    desk.start_browser(granted)
    reports.browser_started(desk.database, desk.worker, name_of(granted), browser={"pid": 1})
    desk.release(granted, stop_rung="term")


def test_the_first_failed_start_holds_the_profile_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    assert fail_to_start(desk, desk.profile_ids[0], fault=LaunchFault.PROFILE) == "hold"
    profile = desk.profile(desk.profile_ids[0])
    assert (profile.waits_for, profile.state, profile.consecutive_failures) == ("hold", "active", 0)


def test_a_profile_that_does_not_start_while_its_siblings_do_is_paused_with_the_reason_i5(
    new_desk: Callable[..., Desk],
) -> None:
    desk = new_desk(profiles=2)
    bad, good = desk.profile_ids
    assert fail_to_start(desk, bad, fault=LaunchFault.PROFILE) == "hold"
    start(desk, good)
    desk.free_all()
    assert fail_to_start(desk, bad, fault=LaunchFault.PROFILE, reason="profile_x is not known") == "pause"
    profile = desk.profile(bad)
    assert (profile.state, profile.state_reason, profile.state_changed_by) == (
        "paused",
        "profile_x is not known",
        "poolsql",
    )
    assert (profile.consecutive_failures, profile.waits_for) == (0, None)
    assert desk.grant(profile_id=bad) is None
    assert desk.profile(good).state == "active"


def test_a_profile_that_keeps_failing_is_paused_when_others_started_today_i5(new_desk: Callable[..., Desk]) -> None:
    """Its siblings are leased all the time, so none of them starts anew between its failures."""
    desk = new_desk(profiles=2)
    bad, good = desk.profile_ids
    start(desk, good)
    verdicts = []
    for _ in range(3):
        verdicts.append(fail_to_start(desk, bad, fault=LaunchFault.PROFILE))
        desk.free_all()
    assert verdicts == ["hold", "hold", "pause"]


@pytest.mark.parametrize("fault", [LaunchFault.LAUNCHER, LaunchFault.PROXY])
def test_only_a_fault_of_the_profile_pauses_it_i5(new_desk: Callable[..., Desk], fault: LaunchFault) -> None:
    desk = new_desk(profiles=2)
    bad, good = desk.profile_ids
    for _ in range(6):
        start(desk, good)
        assert fail_to_start(desk, bad, fault=fault) == "hold"
        desk.free_all()
    assert desk.profile(bad).state == "active"


@pytest.mark.parametrize("fault", list(LaunchFault))
def test_when_no_sibling_starts_the_breaker_opens_and_no_profile_is_touched_i5(
    new_desk: Callable[..., Desk], fault: LaunchFault
) -> None:
    desk = new_desk(profiles=3)
    verdicts = [
        fail_to_start(desk, profile_id, fault=fault, reason="vendor is down") for profile_id in desk.profile_ids
    ]
    assert verdicts == ["hold", "hold", "breaker"]
    launcher = desk.launcher_row()
    assert (launcher.breaker_reason, launcher.start_failures) == ("vendor is down", 3)
    assert desk.grant() is None
    for profile_id in desk.profile_ids:
        profile = desk.profile(profile_id)
        assert (profile.state, profile.waits_for, profile.consecutive_holds) == ("active", None, 0)
        assert profile.consecutive_failures == 0
    desk.execute("UPDATE poolsql.launchers SET breaker_open_until = NULL WHERE name = :name", name=desk.launcher)
    assert {desk.granted().profile.id for _ in desk.profile_ids} == set(desk.profile_ids), "the holds are lifted"


def test_one_bad_profile_does_not_open_the_breaker_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    for _ in range(5):
        assert fail_to_start(desk, desk.profile_ids[0]) == "hold"
        desk.free_all()
    assert desk.launcher_row().breaker_open_until is None


def test_the_only_profile_of_a_launcher_can_open_the_breaker_i5(desk: Desk) -> None:
    verdicts = []
    for _ in range(3):
        verdicts.append(fail_to_start(desk, desk.only))
        desk.free_all()
    assert verdicts == ["hold", "hold", "breaker"]


def _open_for(desk: Desk) -> float:
    return float(
        desk.one(
            "SELECT extract(epoch FROM breaker_open_until - clock_timestamp())::float8 AS seconds "
            "FROM poolsql.launchers WHERE name = :name",
            name=desk.launcher,
        ).seconds
    )


def test_a_breaker_opens_longer_each_time_up_to_ten_minutes_i5(desk: Desk) -> None:
    for _ in range(2):
        fail_to_start(desk, desk.only)
        desk.free_all()
    opened = []
    for _ in range(7):
        assert fail_to_start(desk, desk.only) == "breaker"
        opened.append(round(_open_for(desk)))
        desk.free_all()
    assert opened == [30, 60, 120, 240, 480, 600, 600]


def test_a_good_start_closes_the_breaker_and_resets_it_i5(desk: Desk) -> None:
    for _ in range(4):
        fail_to_start(desk, desk.only)
        desk.free_all()
    start(desk, desk.only)
    launcher = desk.launcher_row()
    assert (launcher.breaker_open_until, launcher.breaker_reason, launcher.breaker_openings) == (None, None, 0)
    assert (launcher.start_failures, launcher.failed_profiles) == (0, [])
    assert launcher.last_started_at is not None
    assert fail_to_start(desk, desk.only) == "hold"


def test_starts_under_way_do_not_make_an_open_breaker_grow_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=6)
    under_way = [desk.granted() for _ in desk.profile_ids]
    for granted in under_way:
        verdict = reports.start_failed(
            desk.database, name_of(granted), fault=LaunchFault.LAUNCHER, reason="vendor is down"
        )
        desk.release(granted, Outcome.LAUNCH_FAILED, hold=verdict == "hold")
    assert desk.launcher_row().breaker_openings == 1
    assert _open_for(desk) == pytest.approx(30, abs=1)


def test_an_open_breaker_leaves_other_launchers_alone(new_desk: Callable[..., Desk]) -> None:
    desk, other = new_desk(), new_desk()
    held = fail_to_start(other, other.only)
    for _ in range(3):
        desk.free_all()
        fail_to_start(desk, desk.only)
    assert desk.grant() is None
    assert held == "hold"
    assert other.profile(other.only).waits_for == "hold", "not lifted"
    other.free_all()
    other.granted()


def test_an_opening_breaker_lifts_only_the_holds_of_its_own_failures_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=1)
    proxy = desk.add_proxy()
    first, failing, crashed = (
        desk.add_profiles(1, proxy=proxy) + desk.add_profiles(1, proxy=proxy) + desk.profile_ids[:1]
    )
    fail_to_start(desk, first)
    desk.go(Outcome.PROXY_FAILED, profile_id=failing)
    held_by_proxy = desk.profile(first).hold_until
    desk.go(Outcome.BROWSER_CRASHED, profile_id=crashed)
    desk.execute("UPDATE poolsql.profiles SET available_at = '2000-01-01' WHERE id = ANY (:ids)", ids=[failing])
    (fourth,) = desk.add_profiles(1)
    desk.execute("UPDATE poolsql.profiles SET state = 'paused' WHERE id = ANY (:ids)", ids=[crashed, first])
    assert fail_to_start(desk, failing) == "hold"
    assert fail_to_start(desk, fourth) == "breaker"
    assert desk.profile(crashed).waits_for == "hold", "its hold was for a crash"
    profile = desk.profile(first)
    assert (profile.available_at, profile.waits_for) == (held_by_proxy, "hold"), "its proxy's hold goes on"


def test_judging_a_start_of_a_lease_that_is_gone_changes_nothing(desk: Desk) -> None:
    granted = desk.granted()
    desk.release(granted)
    before = desk.picture()
    assert reports.start_failed(desk.database, name_of(granted), fault=LaunchFault.PROFILE, reason="late") == "hold"
    assert desk.picture() == before
