"""The table of outcomes: complete, in the order of DESIGN.md, and consistent with I5 and I12."""

from __future__ import annotations

import pytest

from poolsql.errors import BadInputError
from poolsql.leasing.lease import checked_outcome
from poolsql.leasing.outcomes import (
    RULES,
    Blame,
    Counts,
    HostEffect,
    Outcome,
    ProfileEffect,
    Retry,
    Verdict,
    severity,
    verdict_of,
)


def test_every_outcome_has_a_rule() -> None:
    assert set(RULES) == set(Outcome)


def test_each_outcome_has_a_place_of_its_own_between_success_and_blame() -> None:
    places = [severity(outcome) for outcome in Outcome]
    assert places == sorted(set(places))
    assert severity(Outcome.SUCCESS) == 0
    blamed = [severity(outcome) for outcome in Outcome if RULES[outcome].blames is Blame.PROFILE_HOST]
    assert min(blamed) > max(set(places) - set(blamed)), "what blames the profile is never hidden by another visit"


@pytest.mark.parametrize("outcome", Outcome)
def test_only_what_blames_the_profile_counts_always_i5(outcome: Outcome) -> None:
    rule = RULES[outcome]
    assert (rule.counts is Counts.ALWAYS) == (rule.blames is Blame.PROFILE_HOST)
    assert (rule.profile_effect is ProfileEffect.COOLDOWN) == (rule.blames is Blame.PROFILE_HOST)


@pytest.mark.parametrize("outcome", Outcome)
def test_faults_of_proxy_browser_and_launcher_hold_i5(outcome: Outcome) -> None:
    rule = RULES[outcome]
    assert (rule.profile_effect is ProfileEffect.HOLD) == (rule.blames in {Blame.PROXY, Blame.BROWSER, Blame.LAUNCHER})


def test_crashes_and_losses_count_every_third_time_i5() -> None:
    every_third = {outcome for outcome in Outcome if RULES[outcome].counts is Counts.EVERY_THIRD}
    assert every_third == {Outcome.BROWSER_CRASHED, Outcome.LEASE_EXPIRED, Outcome.WORKER_LOST}


def test_tasks_wait_out_the_pause_of_their_host_i12() -> None:
    assert RULES[Outcome.RATE_LIMITED].retry is Retry.AFTER_PAUSE
    for outcome in (Outcome.BLOCKED, Outcome.CAPTCHA):
        assert RULES[outcome].retry is Retry.SAME_PROFILE
    assert RULES[Outcome.SESSION_LOST].retry is Retry.NO
    for outcome in (Outcome.BLOCKED, Outcome.CAPTCHA, Outcome.RATE_LIMITED):
        assert RULES[outcome].host_effect in {HostEffect.BLOCK_PAUSE, HostEffect.RATE_PAUSE}


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_is_known_by_its_text(outcome: Outcome) -> None:
    assert checked_outcome(outcome.value) is outcome
    assert checked_outcome(outcome) is outcome


def test_no_outcome_is_left_open() -> None:
    assert checked_outcome(None) is None


@pytest.mark.parametrize("text", ["", "bloked", "BLOCKED", "success "])
def test_an_unknown_outcome_is_refused_with_those_that_there_are(text: str) -> None:
    with pytest.raises(BadInputError, match="known are success, not_claimed"):
        checked_outcome(text)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("no price"), Verdict(Outcome.TASK_FAILED, "ValueError: no price")),
        (KeyboardInterrupt(), Verdict(Outcome.CANCELLED, "KeyboardInterrupt")),
        (GeneratorExit(), Verdict(Outcome.CANCELLED, "GeneratorExit")),
    ],
)
def test_an_exception_stands_for_an_outcome(error: BaseException, said: Verdict) -> None:
    assert verdict_of(error) == said
