"""Every outcome's blame and effects (I5), as DESIGN.md's table has them: profile, profile on a host, host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from poolsql.leasing.outcomes import RULES, Outcome, severity
from tests.fixtures.fleets import Desk

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
COOLDOWN = 15 * MINUTE
HOLD = 30.0


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What the first of its kind does, with the pool's defaults and nothing told by the site."""

    blames: str
    counts: bool = False
    held: float | None = None
    """Hold of the whole profile."""
    cools: float | None = None
    """Cooldown on the host; of the whole profile when no host is named."""
    jitters: bool = False
    """Whether the cooldown is up to a quarter longer."""
    pauses: float | None = None
    """Pause of the host."""


# Written out once more, independent of RULES: this is the table of the design.
EFFECTS = {
    Outcome.SUCCESS: Effect(blames="nobody"),
    Outcome.NOT_CLAIMED: Effect(blames="nobody"),
    Outcome.NOT_FOUND: Effect(blames="nobody"),
    Outcome.ROBOTS_DISALLOWED: Effect(blames="nobody"),
    Outcome.CANCELLED: Effect(blames="nobody"),
    Outcome.TASK_FAILED: Effect(blames="task"),
    Outcome.TASK_TIMEOUT: Effect(blames="task"),
    Outcome.DEADLINE_EXCEEDED: Effect(blames="task"),
    Outcome.SITE_ERROR: Effect(blames="host", pauses=5),
    Outcome.RATE_LIMITED: Effect(blames="host", cools=60, pauses=60),
    Outcome.BLOCKED: Effect(blames="profile_host", counts=True, cools=COOLDOWN, jitters=True, pauses=15 * MINUTE),
    Outcome.CAPTCHA: Effect(blames="profile_host", counts=True, cools=COOLDOWN, jitters=True, pauses=15 * MINUTE),
    Outcome.SESSION_LOST: Effect(blames="profile_host", counts=True, cools=COOLDOWN, jitters=True),
    Outcome.PROXY_FAILED: Effect(blames="proxy", held=HOLD),
    Outcome.BROWSER_CRASHED: Effect(blames="browser", held=HOLD),
    Outcome.LAUNCH_FAILED: Effect(blames="launcher", held=HOLD),
    # With a browser that had started they cool the profile down: see below.
    Outcome.WORKER_LOST: Effect(blames="worker"),
    Outcome.LEASE_EXPIRED: Effect(blames="worker"),
}


def test_the_table_is_complete() -> None:
    assert set(EFFECTS) == set(Outcome)


def test_the_table_in_the_database_equals_the_rules(desk: Desk) -> None:
    rows = desk.all("SELECT * FROM poolsql.outcomes")
    assert {
        (row.outcome, row.blames, row.profile_effect, row.host_effect, row.counts, row.retry, row.severity)
        for row in rows
    } == {
        (outcome, rule.blames, rule.profile_effect, rule.host_effect, rule.counts, rule.retry, severity(outcome))
        for outcome, rule in RULES.items()
    }


def about(expected: float, *, jitters: bool = False) -> Any:
    """A duration set by the database clock; a jitter makes it up to a quarter longer and never shorter."""
    if not jitters:
        return pytest.approx(expected, abs=1)
    return pytest.approx(expected * 1.125, abs=expected * 0.125 + 0.001)


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_on_a_host_i5(desk: Desk, outcome: Outcome) -> None:
    effect = EFFECTS[outcome]
    attempt = desk.go(outcome, host=desk.host)
    profile = desk.profile(desk.only)
    assert (attempt.outcome, attempt.blames, attempt.counted) == (outcome, effect.blames, effect.counts)
    assert [visit.blames for visit in desk.visits(attempt.lease_id)] == [effect.blames]
    assert (profile.consecutive_failures, profile.uses) == (int(effect.counts), int(outcome is not Outcome.NOT_CLAIMED))
    # The whole profile is only ever held; what concerns a host leaves all other hosts alone.
    assert attempt.wait.total_seconds() == (effect.held or 0)
    assert profile.available_at == attempt.available_at
    assert profile.waits_for == ("hold" if effect.held else None)
    cooldowns = desk.all("SELECT * FROM poolsql.cooldowns WHERE profile_id = :id", id=desk.only)
    assert [row.outcome for row in cooldowns] == ([outcome] if effect.cools else [])
    if effect.cools:
        assert desk.cooldown(desk.only).wait.total_seconds() == about(effect.cools, jitters=effect.jitters)
        assert desk.grant(host=desk.host) is None
    hosts = desk.all("SELECT pause_reason FROM poolsql.hosts WHERE name = :name", name=desk.host)
    assert [row.pause_reason for row in hosts] == ([outcome] if effect.pauses else [])
    if effect.pauses:
        assert desk.host_row().pause.total_seconds() == about(effect.pauses)
    assert (desk.grant(host=f"other.{desk.host}") is not None) == (effect.held is None)


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_without_a_host_i5(desk: Desk, outcome: Outcome) -> None:
    effect = EFFECTS[outcome]
    attempt = desk.go(outcome)
    wait = effect.held or effect.cools or 0
    assert attempt.counted == effect.counts
    assert attempt.wait.total_seconds() == about(wait, jitters=effect.jitters)
    assert desk.profile(desk.only).waits_for == (
        "hold" if effect.held else "cooldown" if effect.cools is not None else None
    )
    assert desk.all("SELECT * FROM poolsql.cooldowns WHERE profile_id = :id", id=desk.only) == []
    assert (desk.grant() is None) == (wait > 0)


@pytest.mark.parametrize("end", ["lease_expired", "worker_lost", "deadline_exceeded"])
@pytest.mark.parametrize("browser", [True, False], ids=["with a browser", "without"])
def test_a_lost_lease_cools_its_profile_down_if_its_browser_had_started_i5(desk: Desk, end: str, browser: bool) -> None:
    granted = desk.granted(host=desk.host)
    if browser:
        desk.start_browser(granted)
    if end == "deadline_exceeded":
        desk.execute(
            "UPDATE poolsql.leases SET deadline_at = clock_timestamp(), expires_at = clock_timestamp() WHERE id = :id",
            id=granted.lease_id,
        )
    if end == "lease_expired":
        desk.expire(granted.lease_id)
    desk.reaper(dead_workers=lambda: [desk.worker.id] if end == "worker_lost" else []).run_once()
    attempt = desk.attempt(granted.lease_id)
    cools = browser and end != "deadline_exceeded"
    assert (attempt.outcome, attempt.counted, attempt.browser_started) == (end, False, browser)
    assert attempt.wait.total_seconds() == (30 * MINUTE if cools else 0)
    profile = desk.profile(desk.only)
    assert (profile.waits_for, profile.consecutive_failures) == ("cooldown" if cools else None, 0)
    assert [visit.outcome for visit in desk.visits(granted.lease_id)] == [end]


def test_a_pool_may_do_without_lost_cooldown(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(lost_cooldown=0)
    assert desk.lose().wait.total_seconds() == 0
    assert desk.profile(desk.only).waits_for is None


def test_a_pool_may_let_profiles_rest_after_a_success(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(rest="20s")
    assert desk.go(Outcome.SUCCESS).wait.total_seconds() == 20
    assert desk.profile(desk.only).waits_for == "rest"
    desk.free_all()
    assert desk.go(Outcome.NOT_FOUND).wait.total_seconds() == 0


# Growth, caps, reset


@pytest.mark.parametrize("named", [True, False], ids=["on a host", "of the whole profile"])
def test_failure_cooldowns_double_up_to_their_cap_and_a_success_resets_them_i5(
    new_desk: Callable[..., Desk], named: bool
) -> None:
    desk = new_desk(retire_after=None, retire_rate=None)
    host = desk.host if named else None

    def fail() -> float:
        attempt = desk.go(Outcome.BLOCKED, host=host)
        waited = desk.cooldown(desk.only).wait if named else attempt.wait
        desk.free_all()
        return float(waited.total_seconds())

    for doubled in range(7):
        expected = COOLDOWN * 2**doubled
        assert expected <= fail() <= min(DAY, expected * 1.25) + 0.001
    assert [fail(), fail()] == [about(DAY), about(DAY)]
    desk.go(Outcome.SUCCESS, host=host)
    assert COOLDOWN <= fail() <= COOLDOWN * 1.25 + 0.001


def test_a_jitter_spreads_cooldowns_and_never_shortens_them_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=25)
    waits = [desk.go(Outcome.BLOCKED).wait.total_seconds() for _ in desk.profile_ids]
    assert min(waits) >= COOLDOWN
    assert max(waits) <= COOLDOWN * 1.25
    assert len(set(waits)) == len(waits)
    assert max(waits) - min(waits) > COOLDOWN * 0.05


def test_failures_grow_on_each_host_by_itself(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(retire_after=None)
    other = f"other.{desk.host}"
    for _ in range(3):
        desk.go(Outcome.SESSION_LOST, host=desk.host)
        desk.free_all()
    desk.go(Outcome.SESSION_LOST, host=other)
    assert desk.cooldown(desk.only).in_a_row == 3
    assert desk.cooldown(desk.only, other).in_a_row == 1
    assert desk.cooldown(desk.only, other).wait.total_seconds() == about(COOLDOWN, jitters=True)


@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.SUCCESS}))
def test_only_a_success_ends_a_row_of_failures_i5(new_desk: Callable[..., Desk], outcome: Outcome) -> None:
    desk = new_desk()
    desk.go(Outcome.BLOCKED)
    desk.free_all()
    desk.go(outcome)
    assert desk.profile(desk.only).consecutive_failures == 1 + EFFECTS[outcome].counts


@pytest.mark.parametrize(
    ("outcome", "first", "cap"),
    [
        (Outcome.BLOCKED, 15 * MINUTE, DAY),
        (Outcome.CAPTCHA, 15 * MINUTE, DAY),
        (Outcome.RATE_LIMITED, MINUTE, DAY),
        (Outcome.SITE_ERROR, 5.0, 10 * MINUTE),
    ],
)
def test_pauses_of_a_host_double_up_to_their_cap_and_a_success_resets_them_i5(
    new_desk: Callable[..., Desk], outcome: Outcome, first: float, cap: float
) -> None:
    desk = new_desk(retire_after=None, retire_rate=None)

    def fail() -> float:
        desk.go(outcome, host=desk.host)
        pause = desk.host_row().pause
        desk.free_all()
        return float(pause.total_seconds())

    doubled = 0
    while first * 2**doubled < cap:
        assert fail() == about(first * 2**doubled)
        doubled += 1
    assert fail() == about(cap)
    assert fail() == about(cap)
    desk.go(Outcome.SUCCESS, host=desk.host)
    assert fail() == about(first)


def test_each_kind_of_pause_grows_by_itself(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(retire_after=None)
    for outcome in (Outcome.BLOCKED, Outcome.CAPTCHA, Outcome.RATE_LIMITED, Outcome.SITE_ERROR, Outcome.SITE_ERROR):
        desk.go(outcome, host=desk.host)
        pause = desk.host_row().pause
        desk.free_all()
    host = desk.host_row()
    assert (host.blocks_in_a_row, host.limits_in_a_row, host.errors_in_a_row) == (2, 1, 2)
    assert pause.total_seconds() == about(10)


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.RATE_LIMITED, Outcome.SITE_ERROR])
def test_pages_in_flight_do_not_make_a_pause_grow_i5(new_desk: Callable[..., Desk], outcome: Outcome) -> None:
    desk = new_desk(profiles=3)
    first, *in_flight = [desk.granted(host=desk.host) for _ in desk.profile_ids]
    desk.release(first, outcome)
    before = desk.host_row()
    for granted in in_flight:
        desk.release(granted, outcome)
    after = desk.host_row()
    assert (after.blocks_in_a_row, after.limits_in_a_row, after.errors_in_a_row) == (
        before.blocks_in_a_row,
        before.limits_in_a_row,
        before.errors_in_a_row,
    )
    assert 0 <= (after.paused_until - before.paused_until).total_seconds() < 2


def test_news_of_another_kind_during_a_pause_counts_i5(new_desk: Callable[..., Desk]) -> None:
    """A captcha in flight while a short back-off is on is the first captcha; the next one is the second."""
    desk = new_desk(profiles=2)
    first, second = desk.granted(host=desk.host), desk.granted(host=desk.host)
    desk.release(first, Outcome.SITE_ERROR)
    desk.release(second, Outcome.CAPTCHA)
    assert (desk.host_row().pause.total_seconds(), desk.host_row().pause_reason) == (about(15 * MINUTE), "captcha")
    desk.free_all()
    desk.go(Outcome.CAPTCHA, host=desk.host)
    assert desk.host_row().pause.total_seconds() == about(30 * MINUTE)


@pytest.mark.parametrize("late", [Outcome.SUCCESS, Outcome.SITE_ERROR, Outcome.RATE_LIMITED, Outcome.NOT_FOUND])
def test_pages_in_flight_do_not_lift_a_pause_i5(new_desk: Callable[..., Desk], late: Outcome) -> None:
    desk = new_desk(profiles=2)
    first, in_flight = desk.granted(host=desk.host), desk.granted(host=desk.host)
    desk.release(first, Outcome.CAPTCHA)
    before = desk.host_row()
    desk.release(in_flight, late, retry_after=1.0 if late is Outcome.RATE_LIMITED else None)
    after = desk.host_row()
    assert (after.paused_until, after.pause_reason, after.blocks_in_a_row) == (before.paused_until, "captcha", 1)


def test_several_visits_of_one_lease_are_one_failure_of_its_profile_on_the_host_i5(desk: Desk) -> None:
    granted = desk.granted(host=desk.host)
    for number in range(3):
        desk.visit(granted, Outcome.BLOCKED, number=number)
    desk.release(granted, Outcome.BLOCKED)
    cooldown = desk.cooldown(desk.only)
    assert cooldown.in_a_row == 1
    assert cooldown.wait.total_seconds() == about(COOLDOWN, jitters=True)
    assert desk.profile(desk.only).consecutive_failures == 1
    assert desk.host_row().blocks_in_a_row == 1


def test_a_success_does_not_lift_a_cooldown_that_is_on(desk: Desk) -> None:
    granted = desk.granted(host=desk.host)
    desk.visit(granted, Outcome.BLOCKED)
    before = desk.cooldown(desk.only)
    desk.visit(granted, Outcome.SUCCESS, number=1)
    desk.release(granted)
    assert desk.cooldown(desk.only) == before


@pytest.mark.parametrize("told", [1.0, 45.0, 2 * HOUR, 3 * DAY])
def test_a_retry_after_is_obeyed_in_full_whatever_the_cap_i5(desk: Desk, told: float) -> None:
    attempt = desk.go(Outcome.RATE_LIMITED, host=desk.host, retry_after=told)
    assert desk.host_row().pause.total_seconds() == about(told)
    cooldown = desk.cooldown(desk.only)
    assert cooldown.until == desk.host_row().paused_until, "the profile waits as long as its host"
    assert cooldown.in_a_row == 0, "no failure"
    assert not attempt.counted
    assert desk.visits(attempt.lease_id)[0].retry_after == told


def test_a_retry_after_counts_in_a_row_all_the_same(desk: Desk) -> None:
    desk.go(Outcome.RATE_LIMITED, host=desk.host, retry_after=5.0)
    desk.free_all()
    desk.go(Outcome.RATE_LIMITED, host=desk.host)
    assert desk.host_row().pause.total_seconds() == about(2 * MINUTE)


def test_a_cooldown_is_never_shortened_by_milder_news(desk: Desk) -> None:
    granted = desk.granted(host=desk.host)
    desk.visit(granted, Outcome.BLOCKED)
    before = desk.cooldown(desk.only)
    desk.visit(granted, Outcome.RATE_LIMITED, number=1, retry_after=1.0)
    desk.release(granted)
    assert desk.cooldown(desk.only).until >= before.until


# Three in a row


def test_every_third_crash_in_a_row_counts_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(retire_after=None)
    counted = []
    for _ in range(7):
        counted.append(desk.go(Outcome.BROWSER_CRASHED).counted)
        desk.free_all()
    assert counted == [False, False, True, False, False, True, False]
    assert desk.profile(desk.only).consecutive_failures == 2


@pytest.mark.parametrize("between", [Outcome.SUCCESS, Outcome.TASK_FAILED, Outcome.PROXY_FAILED])
def test_anything_else_ends_a_row_of_crashes_i5(desk: Desk, between: Outcome) -> None:
    outcomes = [Outcome.BROWSER_CRASHED, Outcome.BROWSER_CRASHED, between, Outcome.BROWSER_CRASHED]
    for outcome in outcomes:
        assert not desk.go(outcome).counted
        desk.free_all()
    assert desk.profile(desk.only).consecutive_crashes == 1


def test_every_third_loss_in_a_row_counts_i5(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk()
    counted = []
    for _ in range(6):
        counted.append(desk.lose().counted)
        desk.free_all()
    assert counted == [False, False, True, False, False, True]
    assert desk.profile(desk.only).consecutive_failures == 2


def test_a_third_loss_cools_down_as_a_loss_does(desk: Desk) -> None:
    for _ in range(2):
        desk.lose()
        desk.free_all()
    assert desk.lose().wait.total_seconds() == 30 * MINUTE


def test_losses_without_a_browser_do_not_count_i5(desk: Desk) -> None:
    assert [desk.lose(browser=False).counted for _ in range(4)] == [False] * 4
    assert desk.profile(desk.only).consecutive_failures == 0


# Needs a person


def test_a_lost_session_needs_a_person_until_it_works_again(desk: Desk) -> None:
    desk.go(Outcome.SESSION_LOST, host=desk.host)
    since = desk.profile(desk.only).needs_person_since
    assert since is not None
    desk.free_all()
    desk.go(Outcome.SESSION_LOST, host=desk.host)
    assert desk.profile(desk.only).needs_person_since == since, "since the first time"
    desk.free_all()
    desk.go(Outcome.NOT_FOUND)
    assert desk.profile(desk.only).needs_person_since == since
    desk.go(Outcome.SUCCESS)
    assert desk.profile(desk.only).needs_person_since is None


def test_a_profile_remembers_how_it_ended_last(desk: Desk) -> None:
    first = desk.go(Outcome.SUCCESS)
    profile = desk.profile(desk.only)
    assert (profile.last_outcome, profile.last_released_at) == ("success", first.ended_at)
    assert profile.last_success_at == first.ended_at
    second = desk.go(Outcome.TASK_FAILED)
    profile = desk.profile(desk.only)
    assert (profile.last_outcome, profile.last_released_at) == ("task_failed", second.ended_at)
    assert profile.last_success_at == first.ended_at


def test_the_worst_visit_wins_over_the_end_that_the_reaper_saw(desk: Desk) -> None:
    granted = desk.granted(host=desk.host)
    desk.start_browser(granted)
    desk.visit(granted, Outcome.BLOCKED)
    desk.reap(granted.lease_id)
    attempt = desk.attempt(granted.lease_id)
    assert (attempt.outcome, attempt.counted, attempt.host) == ("blocked", True, desk.host)
    assert [visit.outcome for visit in desk.visits(granted.lease_id)] == ["blocked", "lease_expired"]
