"""After a restore or failover no lease from before counts any more, and every profile comes back (I2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.errors import LeaseLostError
from poolsql.leasing import reports
from poolsql.leasing.checkout import CLAIM, Grant, checkout
from poolsql.leasing.fencing import fence
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import Visit
from tests.fixtures.fleets import Desk, Opened, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


@pytest.fixture(autouse=True)
def no_lease_of_another_test(database: Database) -> Iterator[None]:
    """Fencing is about all leases of a database."""
    yield
    with database.connect() as connection:
        connection.execute(text("DELETE FROM poolsql.leases"))


def start_browser(desk: Desk, granted: Grant, browser: Mapping[str, Any]) -> None:
    reports.browser_starting(
        desk.database, desk.worker, name_of(granted), browser=browser, machine="here", directory=None
    )


def renewable(desk: Desk, *grants: Grant) -> set[int]:
    names = [name_of(granted) for granted in grants]
    return set(reports.renew(desk.database, desk.worker, names, patience=5))


def test_every_live_lease_is_taken_from_its_holder_and_its_profile_comes_back(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=4)
    plain, browsing, given_up, expired = (desk.granted() for _ in range(4))
    for granted, pid in ((browsing, 1), (given_up, 2)):
        start_browser(desk, granted, {"pid": pid})
    reports.begin_reclaim(desk.database, name_of(given_up), detail="stuck", patience=5)
    desk.expire(expired.lease_id)

    # The one that was reclaiming already keeps its own story.
    assert fence(desk.database, who="operator", reason="restored from Monday") == 3
    assert {(row.state, row.reclaim_detail) for row in desk.leases()} == {
        ("reclaiming", "fenced: restored from Monday"),
        ("reclaiming", "stuck"),
    }

    before = desk.picture()
    everybody = (plain, browsing, given_up, expired)
    assert renewable(desk, *everybody) == set()
    for granted in everybody:
        with pytest.raises(LeaseLostError, match=r"release of lease \d+ was refused: it is being reclaimed"):
            desk.release(granted, Outcome.SUCCESS, stop_rung="term")
        with pytest.raises(LeaseLostError, match="visit of lease"):
            desk.visit(granted, Outcome.SUCCESS)
        with pytest.raises(LeaseLostError, match="browser_starting of lease"):
            start_browser(desk, granted, {"pid": 3})
        kinds = [row.kind for row in desk.refused(granted.lease_id)]
        assert kinds == ["renew", "release", "visit", "browser_starting"]
    assert desk.picture() == before
    assert desk.grant() is None

    # Where no browser was recorded there is nothing to stop.
    reaped = desk.reaper(stop_browser=lambda browser: f"stopped {browser['pid']}").run_once()
    assert {(attempt.lease_id, attempt.outcome) for attempt in reaped.attempts} == {
        (plain.lease_id, Outcome.LEASE_EXPIRED),
        (browsing.lease_id, Outcome.LEASE_EXPIRED),
        (given_up.lease_id, Outcome.SUCCESS),
        (expired.lease_id, Outcome.LEASE_EXPIRED),
    }
    assert desk.leases() == []
    assert [desk.attempt(granted.lease_id).stop_rung for granted in everybody] == [None, "stopped 1", "stopped 2", None]
    assert desk.attempt(plain.lease_id).detail == "fenced: restored from Monday"
    # Only a browser that ran where nobody watched it wears its profile; the others are offered again at once.
    assert desk.attempt(browsing.lease_id).wait.total_seconds() == 1800
    assert {desk.granted().profile.id for _ in range(3)} == {g.profile.id for g in (plain, given_up, expired)}


def test_it_is_written_down_who_fenced_and_why(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    desk.granted(), desk.granted()
    fence(desk.database, who="operator", reason="failover")
    row = desk.one("SELECT who, action, subject, reason FROM poolsql.audit ORDER BY id DESC LIMIT 1")
    assert tuple(row) == ("operator", "fence", "2 leases", "failover")


def test_a_reason_that_postgres_refuses_is_kept_all_the_same(desk: Desk) -> None:
    desk.granted()
    fence(desk.database, who="ann\udcff", reason="disk\0 full")
    row = desk.one("SELECT who, reason FROM poolsql.audit ORDER BY id DESC LIMIT 1")
    assert tuple(row) == ("ann\ufffd", "disk\ufffd full")


def test_without_leases_it_does_nothing_but_say_so(desk: Desk) -> None:
    before = desk.picture()
    assert fence(desk.database, who="operator") == 0
    assert desk.picture() == before
    assert desk.one("SELECT subject FROM poolsql.audit ORDER BY id DESC LIMIT 1").subject == "0 leases"


def test_leases_that_are_granted_afterwards_are_good_ones(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    old = desk.granted()
    fence(desk.database, who="operator")
    new = desk.granted()
    assert renewable(desk, old, new) == {new.lease_id}
    assert desk.release(new).outcome is Outcome.SUCCESS


def test_a_checkout_whose_answer_was_lost_does_not_find_its_lease_again(desk: Desk) -> None:
    request = desk.request()
    granted = checkout(desk.database, desk.worker, request)
    assert granted is not None
    fence(desk.database, who="operator")
    assert desk.database.run(CLAIM, request.parameters(desk.worker)) == []


def test_a_renewal_under_way_does_not_escape(desk: Desk, threads: ThreadPoolExecutor) -> None:
    granted = desk.granted()
    with desk.opened() as holder:
        holder.run(
            reports.RENEW,
            {"lease_ids": [granted.lease_id], "tokens": [granted.token], "worker_id": desk.worker.id},
        )
        fencing = threads.submit(fence, desk.database, who="operator")
        desk.wait_until_blocked()
        holder.commit()
    assert fencing.result(30) == 1
    assert desk.lease_row(granted.lease_id).state == "reclaiming"


@pytest.mark.parametrize(("end", "fenced"), [(Opened.commit, 0), (Opened.roll_back, 1)])
def test_a_release_under_way_decides_whether_there_is_anything_to_fence(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None], fenced: int
) -> None:
    granted = desk.granted()
    with desk.opened() as holder:
        holder.execute("DELETE FROM poolsql.leases WHERE id = %s", [granted.lease_id])
        fencing = threads.submit(fence, desk.database, who="operator")
        desk.wait_until_blocked()
        end(holder)
    assert fencing.result(30) == fenced


def test_the_holder_learns_it_at_its_next_renewal(desk: Desk) -> None:
    lease = desk.lease()
    fence(desk.database, who="operator")
    with pytest.raises(LeaseLostError):
        lease.renew()
    assert lease.lost
    with pytest.raises(LeaseLostError):
        lease.check()


def test_a_fenced_visit_is_kept_as_refused(desk: Desk) -> None:
    granted = desk.granted()
    fence(desk.database, who="operator")
    visit = Visit(outcome=Outcome.BLOCKED, detail="a wall")
    with pytest.raises(LeaseLostError):
        reports.record_visit(desk.database, desk.worker, name_of(granted), visit, number=0, patience=5)
    (refused,) = desk.refused(granted.lease_id)
    assert (refused.kind, refused.outcome, refused.detail) == ("visit", "blocked", "a wall")
