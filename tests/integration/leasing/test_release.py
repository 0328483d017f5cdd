"""The end of a lease: one attempt, one report, in one statement; nothing at all when it is not live (I2)."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from poolsql.errors import BadInputError, LeaseLostError, UnknownLeaseError
from poolsql.leasing import reports
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import (
    BROWSER_STARTED,
    BROWSER_STARTING,
    PLAIN_SUCCESS,
    RECORD_VISIT,
    RELEASE,
    LeaseName,
    Visit,
)
from tests.fixtures.fleets import Desk, FaultyDatabase, name_of, seconds

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


# What a release writes


def test_a_bare_release_is_a_success_with_one_visit(desk: Desk) -> None:
    lease = desk.lease(task="sku-1", host=desk.host)
    ended = lease.release()
    attempt = desk.attempt(lease.id)
    assert ended is not None
    assert (ended.outcome, ended.counted, ended.available_at) == (Outcome.SUCCESS, False, attempt.available_at)
    assert (attempt.outcome, attempt.blames, attempt.counted, attempt.visits) == ("success", "nobody", False, 1)
    assert (attempt.task, attempt.host, attempt.ended_by) == ("sku-1", desk.host, "holder")
    assert (attempt.worker_id, attempt.profile_id, attempt.started_at) == (
        desk.worker.id,
        desk.only,
        lease.acquired_at,
    )
    (visit,) = desk.visits(lease.id)
    assert (visit.outcome, visit.task, visit.host, visit.started_at) == (
        "success",
        "sku-1",
        desk.host,
        lease.acquired_at,
    )
    assert desk.leases() == []
    assert desk.profile(desk.only).uses == 1


def test_a_release_keeps_detail_and_stop_rung(desk: Desk) -> None:
    lease = desk.lease()
    lease.browser_starting({"pid": 1}, machine="here", directory=None)
    lease.release(Outcome.TASK_FAILED, detail="no price on the page", stop_rung="close")
    attempt = desk.attempt(lease.id)
    assert (attempt.outcome, attempt.detail, attempt.stop_rung) == ("task_failed", "no price on the page", "close")
    assert (attempt.browser_started, attempt.machine) == (True, "here")
    (visit,) = desk.visits(lease.id)
    assert visit.detail == "no price on the page"


def test_a_release_can_name_another_host(desk: Desk) -> None:
    granted = desk.granted()
    desk.release(granted, Outcome.CAPTCHA, host=desk.host)
    assert desk.attempt(granted.lease_id).host == desk.host
    assert desk.cooldown(desk.only).outcome == "captcha"


def test_the_worst_visit_decides_the_attempt(desk: Desk) -> None:
    lease = desk.lease(host=desk.host)
    other = f"other.{desk.host}"
    for outcome, host in ((Outcome.SUCCESS, None), (Outcome.BLOCKED, other), (Outcome.TASK_FAILED, None)):
        lease.record(Visit(outcome=outcome, host=host))
    lease.release()
    attempt = desk.attempt(lease.id)
    assert (attempt.outcome, attempt.host, attempt.counted, attempt.visits) == ("blocked", other, True, 3)
    assert [visit.outcome for visit in desk.visits(lease.id)] == ["success", "blocked", "task_failed"]
    assert desk.profile(desk.only).consecutive_failures == 1


@pytest.mark.parametrize(
    ("recorded", "released", "attempt"),
    [
        (Outcome.BLOCKED, Outcome.SUCCESS, "blocked"),
        (Outcome.SUCCESS, Outcome.PROXY_FAILED, "proxy_failed"),
        (Outcome.NOT_FOUND, None, "not_found"),
    ],
)
def test_visits_and_release_are_weighed_together(
    desk: Desk, recorded: Outcome, released: Outcome | None, attempt: str
) -> None:
    lease = desk.lease()
    lease.record(Visit(outcome=recorded))
    lease.release(released)
    assert desk.attempt(lease.id).outcome == attempt
    assert len(desk.visits(lease.id)) == (1 if released is None else 2)


def test_a_visit_keeps_its_facts(desk: Desk) -> None:
    lease = desk.lease(task="of the lease")
    lease.record(
        Visit(
            outcome=Outcome.RATE_LIMITED,
            seconds=2.5,
            host=desk.host,
            task="sku-7",
            url="https://shop.test/7",
            status=429,
            detail="slow down",
            bytes=1234,
            retry_after=90.0,
            evidence={"screenshot": "a.png"},
        )
    )
    (visit,) = desk.visits(lease.id)
    assert (visit.task, visit.url, visit.status, visit.bytes) == ("sku-7", "https://shop.test/7", 429, 1234)
    assert (visit.detail, visit.retry_after, visit.evidence) == ("slow down", 90.0, {"screenshot": "a.png"})
    assert (visit.ended_at - visit.started_at).total_seconds() == pytest.approx(2.5, abs=0.1)
    assert visit.blames == "host"


def test_the_effects_of_a_visit_are_immediate(desk: Desk) -> None:
    granted = desk.granted(host=desk.host)
    desk.visit(granted, Outcome.CAPTCHA)
    assert desk.host_row().pause_reason == "captcha"
    assert desk.cooldown(desk.only).outcome == "captcha"
    assert desk.profile(desk.only).available_at is None, "a leased profile stays leased"


@pytest.mark.parametrize("where", ["detail of a release", "detail of a visit", "url", "task", "host", "evidence"])
def test_text_that_postgres_refuses_never_keeps_a_report_out(desk: Desk, where: str) -> None:
    """A NUL byte or half a surrogate in a page's text is an outcome in history, never a dead worker."""
    bad = "a\x00b\ud800c"
    lease = desk.lease()
    match where:
        case "detail of a release":
            lease.release(Outcome.TASK_FAILED, detail=bad)
        case "evidence":
            lease.record(Visit(outcome=Outcome.TASK_FAILED, evidence={bad: [bad]}))
        case "detail of a visit":
            lease.record(Visit(outcome=Outcome.TASK_FAILED, detail=bad))
        case "url":
            lease.record(Visit(outcome=Outcome.TASK_FAILED, url=bad))
        case "task":
            lease.record(Visit(outcome=Outcome.TASK_FAILED, task=bad))
        case _:
            lease.record(Visit(outcome=Outcome.TASK_FAILED, host=bad))
    (visit,) = desk.visits(lease.id)
    assert visit.outcome == "task_failed"
    assert "a\ufffdb\ufffdc" in str(visit)


def test_an_exception_as_detail_never_keeps_a_report_out(desk: Desk) -> None:
    lease = desk.lease()
    lease.release(Outcome.BLOCKED, detail=ValueError("403"))  # type: ignore[arg-type]  # on purpose
    attempt = desk.attempt(lease.id)
    assert (attempt.outcome, attempt.detail) == ("blocked", "403")


def test_text_without_end_is_cut(desk: Desk) -> None:
    lease = desk.lease()
    lease.release(Outcome.TASK_FAILED, detail="x" * 5_000_000)
    assert len(desk.attempt(lease.id).detail) < 200_000


def test_an_exception_with_unstorable_text_releases_all_the_same(desk: Desk) -> None:
    lease = desk.lease()
    with pytest.raises(ValueError, match="page"), lease:
        raise ValueError("page says \x00 \udfff")
    assert desk.attempt(lease.id).outcome == "task_failed"


# With blocks


def test_a_with_block_ends_as_a_success(desk: Desk) -> None:
    with desk.lease() as lease:
        pass
    assert desk.attempt(lease.id).outcome == "success"


def test_a_with_block_ends_by_its_exception(desk: Desk) -> None:
    lease = desk.lease()
    with pytest.raises(ZeroDivisionError), lease:
        _ = 1 / 0
    attempt = desk.attempt(lease.id)
    assert (attempt.outcome, attempt.detail) == ("task_failed", "ZeroDivisionError: division by zero")


def test_a_with_block_that_is_interrupted_ends_as_cancelled(desk: Desk) -> None:
    lease = desk.lease()
    with pytest.raises(KeyboardInterrupt), lease:
        raise KeyboardInterrupt
    assert desk.attempt(lease.id).outcome == "cancelled"


def test_a_with_block_keeps_what_was_released_inside(desk: Desk) -> None:
    with desk.lease() as lease:
        lease.release(Outcome.NOT_FOUND)
    assert desk.attempt(lease.id).outcome == "not_found"


def test_a_with_block_whose_lease_was_lost_says_so(desk: Desk) -> None:
    with pytest.raises(LeaseLostError, match="refused"), desk.lease() as lease:
        desk.reap(lease.id)


def test_a_with_block_whose_lease_was_lost_lets_its_own_exception_through(desk: Desk) -> None:
    def lose_and_fail(lease: Lease) -> None:
        desk.reap(lease.id)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), desk.lease() as lease:
        lose_and_fail(lease)


# Repeated


def test_a_second_release_is_no_error_and_changes_nothing(desk: Desk) -> None:
    lease = desk.lease()
    first = lease.release(Outcome.NOT_FOUND)
    before = desk.picture()
    assert lease.release(Outcome.BLOCKED) is first
    assert (lease.released, lease.lost, lease.attempt) == (True, None, first)
    assert desk.picture() == before
    assert desk.refused(lease.id) == []


def test_a_release_whose_answer_was_lost_ends_as_it_began_i6(desk: Desk, faulty: FaultyDatabase) -> None:
    granted = desk.granted(host=desk.host)
    faulty.lose_answer_of(RELEASE)
    ended = desk.hold(granted, host=desk.host, database=faulty).release(Outcome.BLOCKED)
    assert faulty.ran.count(RELEASE) == 2
    attempt = desk.attempt(granted.lease_id)
    assert ended == reports.Attempt(granted.lease_id, Outcome.BLOCKED, True, attempt.available_at, None)
    assert len(desk.visits(granted.lease_id)) == 1
    assert desk.profile(desk.only).consecutive_failures == 1
    assert desk.cooldown(desk.only).in_a_row == 1
    assert desk.refused(granted.lease_id) == []


def test_a_release_whose_answer_was_lost_is_known_even_when_the_profile_is_leased_again(
    desk: Desk, faulty: FaultyDatabase
) -> None:
    granted = desk.granted()
    faulty.lose_answer_of(PLAIN_SUCCESS)
    faulty.lose_answer_of(RELEASE)
    ended = desk.hold(granted, database=faulty).release()
    assert ended is not None
    assert ended.outcome is Outcome.SUCCESS
    assert desk.granted().lease_id != granted.lease_id


def test_a_visit_whose_answer_was_lost_is_written_once_i6(desk: Desk, faulty: FaultyDatabase) -> None:
    lease = desk.hold(desk.granted(host=desk.host), database=faulty)
    for _ in range(2):
        faulty.lose_answer_of(RECORD_VISIT, times=2)
        lease.record(Visit(outcome=Outcome.SITE_ERROR))
    assert faulty.ran.count(RECORD_VISIT) == 6
    assert [visit.outcome for visit in desk.visits(lease.id)] == ["site_error", "site_error"]
    assert desk.lease_row(lease.id).visits == 2


def test_a_visit_is_known_written_although_its_lease_was_reaped_meanwhile_i6(
    desk: Desk, faulty: FaultyDatabase
) -> None:
    lease = desk.hold(desk.granted(), database=faulty)

    faulty.lose_answer_of(RECORD_VISIT, then=lambda: desk.reap(lease.id))
    lease.record(Visit(outcome=Outcome.NOT_FOUND))
    assert [visit.outcome for visit in desk.visits(lease.id)] == ["not_found", "lease_expired"]
    assert desk.refused(lease.id) == []


def test_recording_a_browser_start_twice_is_harmless(desk: Desk, faulty: FaultyDatabase) -> None:
    lease = desk.hold(desk.granted(), database=faulty)
    faulty.lose_answer_of(BROWSER_STARTING)
    faulty.lose_answer_of(BROWSER_STARTED)
    lease.browser_starting({"pid": 1}, machine="here", directory="/data/1")
    lease.browser_started({"pid": 1, "url": "http://127.0.0.1:9222"})
    row = desk.lease_row(lease.id)
    assert (row.browser_state, row.browser) == ("started", {"pid": 1, "url": "http://127.0.0.1:9222"})
    profile = desk.profile(desk.only)
    assert (profile.machine, profile.directory) == ("here", "/data/1")


# Refused (I2)


def _release(desk: Desk, name: LeaseName) -> None:
    reports.release(desk.database, desk.worker, name, outcome=Outcome.BLOCKED, detail="late", patience=5.0)


def _visit(desk: Desk, name: LeaseName) -> None:
    visit = Visit(outcome=Outcome.CAPTCHA, host=desk.host, detail="late")
    reports.record_visit(desk.database, desk.worker, name, visit, number=0, patience=5.0)


def _browser_starting(desk: Desk, name: LeaseName) -> None:
    reports.browser_starting(
        desk.database, desk.worker, name, browser={"pid": 2}, machine="elsewhere", directory="/elsewhere"
    )


def _browser_started(desk: Desk, name: LeaseName) -> None:
    reports.browser_started(desk.database, desk.worker, name, browser={"pid": 2})


LATE = {
    "release": (_release, "blocked", "late"),
    "visit": (_visit, "captcha", "late"),
    "browser_starting": (_browser_starting, None, None),
    "browser_started": (_browser_started, None, None),
}

Report = Callable[[Desk, LeaseName], None]


@pytest.mark.parametrize("end", ["reaped", "reclaiming", "released", "stopped by the reaper"])
@pytest.mark.parametrize(("kind", "report"), [(kind, late[0]) for kind, late in LATE.items()], ids=LATE.keys())
def test_a_late_report_is_refused_and_recorded_and_changes_nothing_i2(
    desk: Desk, kind: str, report: Report, end: str
) -> None:
    granted = desk.granted(host=desk.host)
    if end in {"reclaiming", "stopped by the reaper"}:
        desk.start_browser(granted, machine="here")
    if end == "released":
        desk.release(granted)
    else:
        desk.expire(granted.lease_id)
        desk.reaper(machine="elsewhere" if end == "reclaiming" else "here").run_once()
    before = desk.picture()
    with pytest.raises(LeaseLostError, match=rf"{kind} of lease {granted.lease_id} was refused"):
        report(desk, name_of(granted))
    assert desk.picture() == before
    assert desk.refused(granted.lease_id) == [(kind, *LATE[kind][1:], desk.worker.id)]


@pytest.mark.parametrize("end", ["held", "released"])
@pytest.mark.parametrize(("kind", "report"), [(kind, late[0]) for kind, late in LATE.items()], ids=LATE.keys())
def test_a_foreign_token_changes_nothing_and_is_not_even_recorded_i2(
    desk: Desk, kind: str, report: Report, end: str
) -> None:
    granted = desk.granted()
    if end == "released":
        desk.release(granted)
    before = desk.picture()
    with pytest.raises(UnknownLeaseError, match=rf"{kind}: there is no lease {granted.lease_id} with this token"):
        report(desk, LeaseName(granted.lease_id, uuid4()))
    assert desk.picture() == before
    assert desk.refused(granted.lease_id) == []


def test_a_lease_that_never_was_is_unknown_i2(desk: Desk) -> None:
    with pytest.raises(UnknownLeaseError, match="there is no lease"):
        _release(desk, LeaseName(2**62, uuid4()))
    assert desk.refused(2**62) == []


def test_a_released_lease_takes_no_more_visits_i2(desk: Desk) -> None:
    lease = desk.lease()
    lease.release()
    with pytest.raises(LeaseLostError, match="ended by the holder"):
        lease.record(Visit(outcome=Outcome.SUCCESS))
    assert [report.kind for report in desk.refused(lease.id)] == ["visit"]
    assert len(desk.visits(lease.id)) == 1


def test_a_refused_release_tells_that_the_lease_is_lost(desk: Desk) -> None:
    lease = desk.lease()
    desk.reap(lease.id)
    with pytest.raises(LeaseLostError, match="ended by the reaper as lease_expired"):
        lease.release()
    assert lease.lost is not None
    assert not lease.released


@pytest.mark.parametrize(
    ("outcome", "said"),
    [("bloked", {}), (Outcome.RATE_LIMITED, {"retry_after": "-1s"}), (Outcome.RATE_LIMITED, {"retry_after": "soon"})],
)
def test_a_report_that_cannot_be_right_changes_nothing(
    desk: Desk, outcome: Outcome | str, said: dict[str, str]
) -> None:
    lease = desk.lease()
    before = desk.picture()
    with pytest.raises(BadInputError):
        lease.release(outcome, **said)  # type: ignore[arg-type]  # on purpose
    assert desk.picture() == before
    lease.check()
    lease.release()


# Without proof that the browser has stopped (I3); see also test_reaper.py


def test_a_release_without_proof_leaves_the_profile_to_the_reaper_i3(desk: Desk) -> None:
    lease = desk.lease(host=desk.host)
    lease.browser_starting({"pid": 1}, machine=None, directory=None)
    assert lease.release(Outcome.BLOCKED, detail="it froze") is None
    assert lease.released
    row = desk.lease_row(lease.id)
    assert (row.state, row.reclaim_outcome, row.visits, row.worst_outcome) == ("reclaiming", None, 1, "blocked")
    assert desk.grant() is None
    assert desk.attempts() == []
    desk.reaper().run_once()
    attempt = desk.attempt(lease.id)
    assert (attempt.outcome, attempt.visits, attempt.ended_by, attempt.stop_rung) == ("blocked", 1, "reaper", "term")
    assert len(desk.visits(lease.id)) == 1


def test_a_second_release_without_proof_is_no_error_either_i3(desk: Desk) -> None:
    with desk.lease() as lease:
        lease.browser_starting({"pid": 1}, machine=None, directory=None)
        assert lease.release() is None
        before = desk.picture()
        assert lease.release(Outcome.BLOCKED) is None
        assert lease.release(Outcome.BLOCKED, stop_rung="kill") is None
    assert desk.picture() == before
    assert desk.refused(lease.id) == []
    assert lease.lost is None
    with pytest.raises(LeaseLostError, match="released before"):
        lease.check()


def test_a_lost_lease_cannot_be_left_to_the_reaper_i2(desk: Desk) -> None:
    lease = desk.lease()
    lease.browser_starting({"pid": 1}, machine=None, directory=None)
    desk.expire(lease.id)
    desk.reaper(machine="elsewhere").run_once()
    desk.reaper().run_once()
    with pytest.raises(LeaseLostError, match="refused"):
        lease.release(Outcome.BLOCKED)
    assert lease.lost is not None
    assert desk.attempt(lease.id).outcome == "lease_expired"


def test_the_statement_itself_refuses_to_free_a_profile_without_proof_i3(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    with pytest.raises(LeaseLostError, match="its browser was not proven stopped"):
        desk.release(granted)
    assert desk.lease_row(granted.lease_id).state == "held"


def test_a_retry_after_without_a_host_is_obeyed_by_the_profile_in_full(desk: Desk) -> None:
    """No host is known that could be paused, so the profile waits; also when a visit told the time, not the end."""
    attempt = desk.go(Outcome.RATE_LIMITED, retry_after=3 * 24 * 3600.0)
    assert attempt.wait.total_seconds() == seconds(days=3)
    desk.free_all()
    granted = desk.granted()
    desk.visit(granted, Outcome.RATE_LIMITED, retry_after=600.0)
    desk.visit(granted, Outcome.SUCCESS, number=1)
    desk.release(granted)
    attempt = desk.attempt(granted.lease_id)
    assert attempt.wait.total_seconds() == pytest.approx(600, abs=2)
