"""Reaper, holders and operators at the same moment: a row lock decides who was first, and the other looks again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from poolsql.database.statements import Statement
from poolsql.database.tables import leases
from poolsql.errors import LeaseLostError
from poolsql.leasing import retirement
from poolsql.leasing.checkout import CHECKOUT, Grant
from poolsql.leasing.fencing import OPERATORS_WORD, end_unproven, revoke
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reaper import CLAIM_RECLAIM, EXPIRE_FREE, EXPIRE_STARTED, FINISH_RECLAIM
from poolsql.leasing.reports import PLAIN_SUCCESS, RECORD_VISIT, RELEASE, LeaseName, Visit, release_parameters, renew
from tests.fixtures.fleets import Desk, Opened, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

NewDesk = Callable[..., Desk]
BY = pytest.mark.parametrize("ending", [PLAIN_SUCCESS, RELEASE], ids=["short", "long"])
KEPT_OR_NOT = pytest.mark.parametrize("end", [Opened.commit, Opened.roll_back], ids=["it passes", "it fails"])

EXPIRING = {"dead_workers": [], "batch": 10, **LINE}


@pytest.fixture(autouse=True)
def _only_leases_of_this_test_are_reaped(desk: Desk) -> None:
    desk.execute("DELETE FROM poolsql.leases")


def reclaiming(desk: Desk) -> Grant:
    """A lease that was taken from its holder and whose browser nobody has stopped yet."""
    granted = desk.granted()
    desk.start_browser(granted, machine="here")
    desk.expire(granted.lease_id)
    assert desk.reaper(machine="elsewhere").run_once().expired == 1
    return granted


def finishing(granted: Grant, rung: str = "term") -> dict[str, Any]:
    return {"lease_id": granted.lease_id, "token": granted.token, "stop_rung": rung, **LINE}


def claim(session: Opened) -> list[int]:
    return [row.lease_id for row in session.run(CLAIM_RECLAIM, {"machine": "here", "claim_seconds": 30})]


# Expiry


@KEPT_OR_NOT
def test_a_profile_that_is_being_taken_back_is_offered_when_that_has_passed(
    desk: Desk, end: Callable[[Opened], None]
) -> None:
    granted = desk.granted()
    desk.expire(granted.lease_id)
    with desk.opened() as reaping:
        assert len(reaping.run(EXPIRE_FREE, EXPIRING)) == 1
        assert desk.grant() is None, "waits for nobody"
        end(reaping)
    again = desk.grant()
    assert (again is not None) is (end is Opened.commit)
    assert [row.id for row in desk.leases()] == [(again or granted).lease_id]


def test_a_checkout_under_way_is_nothing_to_expire(new_desk: NewDesk) -> None:
    desk = new_desk(ttl=0.01, renew=0.001)
    with desk.opened() as checking_out:
        assert len(checking_out.run(CHECKOUT, desk.request().parameters(desk.worker))) == 1
        assert desk.reaper().run_once().expired == 0
        checking_out.commit()
    (row,) = desk.leases()
    desk.expire(row.id)
    assert [attempt.lease_id for attempt in desk.reaper().run_once().attempts] == [row.id]


@KEPT_OR_NOT
def test_a_renewal_that_meets_an_expiry_wins_or_is_refused_i2(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None]
) -> None:
    granted = desk.granted()
    desk.expire(granted.lease_id)
    with desk.opened() as reaping:
        reaping.run(EXPIRE_FREE, EXPIRING)
        renewing = threads.submit(renew, desk.database, desk.worker, [name_of(granted)], patience=5.0)
        desk.wait_until_blocked()
        end(reaping)
        renewed = set(renewing.result(timeout=10))
    if end is Opened.commit:
        assert renewed == set()
        assert desk.attempt(granted.lease_id).outcome == "lease_expired"
        assert [report.kind for report in desk.refused(granted.lease_id)] == ["renew"]
    else:
        assert renewed == {granted.lease_id}
        assert desk.refused(granted.lease_id) == []
    assert desk.reaper().run_once().expired == 0


@KEPT_OR_NOT
def test_a_release_with_its_stop_proven_that_meets_an_expiry_wins_or_is_refused_i2(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None]
) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    desk.expire(granted.lease_id)
    with desk.opened() as reaping:
        assert len(reaping.run(EXPIRE_STARTED, EXPIRING)) == 1
        releasing = threads.submit(desk.release, granted, Outcome.SUCCESS, stop_rung="term")
        desk.wait_until_blocked()
        end(reaping)
        if end is Opened.roll_back:
            assert releasing.result(timeout=10).outcome is Outcome.SUCCESS
        else:
            with pytest.raises(LeaseLostError, match="is being reclaimed"):
                releasing.result(timeout=10)
            assert desk.lease_row(granted.lease_id).state == "reclaiming"
            assert [report.kind for report in desk.refused(granted.lease_id)] == ["release"]


@BY
@pytest.mark.parametrize("browser", [False, True], ids=["without browser", "with browser"])
def test_a_lease_that_is_being_released_is_not_reaped(desk: Desk, browser: bool, ending: Statement) -> None:
    granted = desk.granted()
    if browser:
        desk.start_browser(granted)
    desk.expire(granted.lease_id)
    with desk.opened() as releasing:
        said = release_parameters(name_of(granted), outcome=Outcome.SUCCESS, stop_rung="term" if browser else None)
        assert len(releasing.run(ending, said)) == 1
        assert desk.reaper().run_once().expired == 0
        releasing.commit()
    assert desk.reaper().run_once().expired == 0
    assert [attempt.outcome for attempt in desk.attempts()] == ["success"]


# Reclaiming


@KEPT_OR_NOT
def test_two_reapers_claim_two_browsers_and_none_of_them_twice(
    new_desk: NewDesk, end: Callable[[Opened], None]
) -> None:
    desk = new_desk(profiles=2)
    first, second = reclaiming(desk), reclaiming(desk)
    with desk.opened() as one, desk.opened() as other:
        assert claim(one) == [first.lease_id]
        assert claim(other) == [second.lease_id]
        assert claim(other) == []
        other.commit()
        end(one)
        assert claim(other) == ([] if end is Opened.commit else [first.lease_id])


@pytest.mark.parametrize("second", ["another reaper", "an operator's word"])
def test_a_reclaiming_lease_ends_once_though_two_end_it(desk: Desk, threads: ThreadPoolExecutor, second: str) -> None:
    lost = reclaiming(desk)
    with desk.opened() as one:
        assert len(one.run(FINISH_RECLAIM, finishing(lost))) == 1
        end: Callable[[], object] = (
            (lambda: list(desk.database.run(FINISH_RECLAIM, finishing(lost, "kill"))))
            if second == "another reaper"
            else (lambda: end_unproven(desk.database, lost.lease_id, who="ann", reason="seen"))
        )
        ending = threads.submit(end)
        desk.wait_until_blocked()
        one.commit()
        assert not ending.result(timeout=10)
    (attempt,) = desk.attempts()
    assert (attempt.stop_rung, attempt.outcome) == ("term", "lease_expired")
    assert desk.all("SELECT FROM poolsql.audit WHERE subject LIKE :it", it=f"lease {lost.lease_id} %") == []


def test_a_reaper_that_comes_after_an_operators_word_changes_nothing(desk: Desk, threads: ThreadPoolExecutor) -> None:
    lost = reclaiming(desk)
    with desk.opened() as operating:
        assert len(operating.run(FINISH_RECLAIM, finishing(lost, OPERATORS_WORD))) == 1
        reaping = threads.submit(lambda: list(desk.database.run(FINISH_RECLAIM, finishing(lost))))
        desk.wait_until_blocked()
        operating.commit()
        assert reaping.result(timeout=10) == []
    assert [attempt.stop_rung for attempt in desk.attempts()] == [OPERATORS_WORD]


def test_a_lease_whose_end_is_under_way_is_not_there_to_revoke(desk: Desk) -> None:
    lost = reclaiming(desk)
    with desk.opened() as reaping:
        reaping.run(FINISH_RECLAIM, finishing(lost))
        assert revoke(desk.database, leases.c.id == lost.lease_id, who="ann") == []
        reaping.commit()
    assert [attempt.outcome for attempt in desk.attempts()] == ["lease_expired"]


@KEPT_OR_NOT
def test_a_revocation_that_meets_an_expiry_changes_nothing_or_takes_the_lease(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None]
) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    desk.expire(granted.lease_id)
    with desk.opened() as reaping:
        reaping.run(EXPIRE_STARTED, EXPIRING)
        revoking = threads.submit(revoke, desk.database, leases.c.id == granted.lease_id, who="ann")
        desk.wait_until_blocked()
        end(reaping)
        taken = [lease.lease_id for lease in revoking.result(timeout=10)]
    row = desk.lease_row(granted.lease_id)
    assert (taken, row.reclaim_outcome) == (
        ([], "lease_expired") if end is Opened.commit else ([granted.lease_id], "cancelled")
    )


def test_a_lease_that_is_being_revoked_is_not_reaped(desk: Desk, threads: ThreadPoolExecutor) -> None:
    granted = desk.granted()
    desk.expire(granted.lease_id)
    with desk.opened() as auditor:
        auditor.execute("LOCK TABLE poolsql.audit IN EXCLUSIVE MODE")
        revoking = threads.submit(revoke, desk.database, leases.c.id == granted.lease_id, who="ann")
        desk.wait_until_blocked()
        assert desk.reaper().run_once().expired == 0
        auditor.roll_back()
        assert len(revoking.result(timeout=10)) == 1
    assert [attempt.outcome for attempt in desk.reaper().run_once().attempts] == ["cancelled"]


# Operators and checkouts


@pytest.mark.parametrize("action", ["pause", "retire"])
@KEPT_OR_NOT
def test_an_operator_who_meets_a_checkout_stops_what_comes_after_it(
    desk: Desk, threads: ThreadPoolExecutor, action: str, end: Callable[[Opened], None]
) -> None:
    with desk.opened() as checking_out:
        (row,) = checking_out.run(CHECKOUT, desk.request().parameters(desk.worker))
        changing = threads.submit(retirement.change_state, desk.database, desk.only, action, who="ann")
        desk.wait_until_blocked()
        end(checking_out)
        changing.result(timeout=10)
    assert [lease.id for lease in desk.leases()] == ([row.lease_id] if end is Opened.commit else [])
    assert desk.grant() is None
    if end is Opened.commit:
        assert desk.profile(desk.only).available_at is None, "its holder keeps it"
        name = LeaseName(row.lease_id, row.token)
        assert len(desk.database.run(RELEASE, release_parameters(name, outcome=Outcome.SUCCESS))) == 1
    assert desk.grant() is None
    retirement.change_state(desk.database, desk.only, {"pause": "resume", "retire": "restore"}[action], who="ann")
    assert desk.grant() is not None


@pytest.mark.parametrize("state", ["paused", "retired"])
@KEPT_OR_NOT
def test_a_checkout_that_meets_an_operator_waits_for_nobody(
    desk: Desk, state: str, end: Callable[[Opened], None]
) -> None:
    with desk.opened() as operating:
        operating.execute("UPDATE poolsql.profiles SET state = %s WHERE id = %s", [state, desk.only])
        assert desk.grant() is None
        end(operating)
    assert (desk.grant() is None) is (end is Opened.commit)


# Visits


@KEPT_OR_NOT
def test_a_release_that_meets_a_visit_counts_it_if_it_was_written(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None]
) -> None:
    granted = desk.granted(host=desk.host)
    with desk.opened() as visiting:
        assert len(visiting.run(RECORD_VISIT, _visit(granted, Outcome.SESSION_LOST))) == 1
        releasing = threads.submit(desk.release, granted, Outcome.SUCCESS)
        desk.wait_until_blocked()
        end(visiting)
        ended = releasing.result(timeout=10)
    written = end is Opened.commit
    assert ended.outcome is (Outcome.SESSION_LOST if written else Outcome.SUCCESS)
    assert desk.attempt(granted.lease_id).visits == len(desk.visits(granted.lease_id)) == 1 + written


@KEPT_OR_NOT
def test_a_bare_release_that_meets_a_success_writes_a_visit_only_if_there_is_none(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None]
) -> None:
    granted = desk.granted(host=desk.host)
    with desk.opened() as visiting:
        visiting.run(RECORD_VISIT, _visit(granted, Outcome.SUCCESS))
        releasing = threads.submit(desk.release, granted)
        desk.wait_until_blocked()
        end(visiting)
        assert releasing.result(timeout=10).outcome is Outcome.SUCCESS
    assert desk.attempt(granted.lease_id).visits == len(desk.visits(granted.lease_id)) == 1


@BY
@KEPT_OR_NOT
def test_a_visit_that_meets_a_release_is_written_or_kept_as_refused_i2(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None], ending: Statement
) -> None:
    granted = desk.granted(host=desk.host)
    with desk.opened() as releasing:
        releasing.run(ending, release_parameters(name_of(granted), outcome=Outcome.SUCCESS))
        visiting = threads.submit(desk.visit, granted, Outcome.BLOCKED)
        desk.wait_until_blocked()
        end(releasing)
        if end is Opened.roll_back:
            visiting.result(timeout=10)
            assert desk.lease_row(granted.lease_id).worst_outcome == "blocked"
            return
        with pytest.raises(LeaseLostError, match="ended by the holder"):
            visiting.result(timeout=10)
    assert [(row.kind, row.outcome) for row in desk.refused(granted.lease_id)] == [("visit", "blocked")]
    assert [visit.outcome for visit in desk.visits(granted.lease_id)] == ["success"]
    assert desk.all("SELECT FROM poolsql.cooldowns WHERE profile_id = :id", id=desk.only) == []


def test_a_lease_whose_visit_is_being_written_is_reaped_with_it(desk: Desk) -> None:
    granted = desk.granted(host=desk.host)
    desk.expire(granted.lease_id)
    with desk.opened() as visiting:
        visiting.run(RECORD_VISIT, _visit(granted, Outcome.SESSION_LOST))
        assert desk.reaper().run_once().expired == 0
        visiting.commit()
    (attempt,) = desk.reaper().run_once().attempts
    assert (attempt.outcome, attempt.counted) == (Outcome.SESSION_LOST, True)
    assert len(desk.visits(granted.lease_id)) == 2


def _visit(granted: Grant, outcome: Outcome) -> dict[str, Any]:
    name = name_of(granted)
    return {**Visit(outcome=outcome).parameters(), "lease_id": name.lease_id, "token": name.token, "number": 0}
