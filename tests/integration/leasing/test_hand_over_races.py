"""Hand-overs at the same moment: no ticket is served twice, none is forgotten, and no profile is lost on the way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from poolsql.clocks import elapsed_clock
from poolsql.database.statements import Statement
from poolsql.leasing import tickets
from poolsql.leasing.checkout import CLAIM, Grant
from poolsql.leasing.line import CLAIM_TTL, LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reaper import EXPIRE_FREE
from poolsql.leasing.reports import PLAIN_SUCCESS, RELEASE, release_parameters
from poolsql.leasing.tickets import SERVE, WITHDRAW
from poolsql.leasing.waiting import Wait
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk, Opened, name_of
from tests.integration.leasing.lines import free_unannounced, lines, served, stand, tell

pytestmark = pytest.mark.usefixtures("no_leaked_locks", "no_looks")

NewDesk = Callable[..., Desk]
KEPT_OR_NOT = pytest.mark.parametrize("end", [Opened.commit, Opened.roll_back], ids=["it passes", "it fails"])


@pytest.fixture(autouse=True)
def _only_leases_of_this_test_expire(desk: Desk) -> None:
    desk.execute("DELETE FROM poolsql.leases")


@pytest.fixture(params=[PLAIN_SUCCESS, RELEASE], ids=["short", "long"])
def ending(request: pytest.FixtureRequest) -> Statement:
    """Each statement that a holder's success may end its lease by while it sees nobody wait."""
    chosen: Statement = request.param
    return chosen


def begin_release(session: Opened, granted: Grant, ending: Statement = RELEASE) -> None:
    (row,) = session.run(ending, release_parameters(name_of(granted), outcome=Outcome.SUCCESS))
    assert row.outcome == "success"


def begin_look(session: Opened, desk: Desk) -> list[Any]:
    return [row.request_id for row in session.run(SERVE, desk.request().parameters(desk.worker, in_line=True))]


def look(wait: Wait) -> None:
    """The next regular look of its worker."""
    wait._tickets.call(None)
    wait.stand_in_line().result(timeout=10)


def holders(desk: Desk) -> dict[int, Any]:
    """Which request has which profile; fails the test when there are two for one."""
    rows = desk.leases()
    assert len({row.request_id for row in rows}) == len(rows)
    return {row.profile_id: row.request_id for row in rows}


def is_free(desk: Desk, profile_id: int) -> bool:
    return desk.profile(profile_id).available_at is not None


@KEPT_OR_NOT
def test_a_ticket_that_is_left_while_a_release_is_under_way_is_served_by_the_next_look(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, end: Callable[[Opened], None], ending: Statement
) -> None:
    monkeypatch.setattr(tickets, "FIRST_LOOK", 0.0)
    leased = desk.granted()
    wait = desk.wait(wait=60)
    with desk.opened() as releasing:
        begin_release(releasing, leased, ending)  # it sees no ticket
        assert wait.try_once() is None
        called = wait.stand_in_line()
        assert wait._ticket is not None
        ticket = wait._ticket
        until(lambda: ticket.first_look == float("inf"))
        assert not called.done(), "the profile is not free yet"
        end(releasing)
    if end is Opened.roll_back:
        desk.release(leased)
        tell([wait])
    else:
        look(wait)
    granted = wait.try_once()
    assert granted is not None
    assert holders(desk) == {desk.only: wait._request.id}
    assert lines(desk) == []


@pytest.mark.parametrize("is_served", [True, False], ids=["is served", "gives up"])
def test_who_stands_behind_another_is_looked_for_when_that_one_has_gone(
    new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch, *, is_served: bool
) -> None:
    monkeypatch.setattr(tickets, "FIRST_LOOK", 0.0)
    monkeypatch.setattr(tickets, "LOOK_EVERY", 1000.0)
    desk = new_desk(profiles=2)
    first, second = desk.granted(), desk.granted()
    before = stand(desk)
    assert before._ticket is not None
    looked_for = before._ticket
    until(lambda: looked_for.first_look == float("inf"))
    behind = stand(desk)
    assert behind._ticket is not None
    assert behind._ticket.first_look < float("inf"), "a release serves the one before it"
    if is_served:
        desk.release(first)
        free_unannounced(desk, second)
        tell([before])
        assert before.try_once() is not None
    else:
        free_unannounced(desk, second)
        assert before.leave_line() is None
    behind._ticket.called.result(timeout=10)
    granted = behind.try_once()
    assert granted is not None
    assert granted.profile.id == second.profile.id


def test_whoever_becomes_the_first_is_looked_for_when_releases_that_saw_neither_have_ended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tickets, "FIRST_LOOK", 1000.0)
    desk.granted()
    before, behind = stand(desk), stand(desk)
    assert behind._ticket is not None
    left = elapsed_clock()
    assert before.leave_line() is None
    assert behind._ticket.first_look >= left + tickets.FIRST_LOOK


@KEPT_OR_NOT
def test_of_two_releases_one_hands_over_and_the_other_frees_its_profile(
    new_desk: NewDesk, end: Callable[[Opened], None]
) -> None:
    desk = new_desk(profiles=2)
    first, second = desk.granted(), desk.granted()
    wait = stand(desk)
    with desk.opened() as releasing:
        begin_release(releasing, first)
        desk.release(second)  # waits for nobody
        end(releasing)
    assert is_free(desk, second.profile.id)
    if end is Opened.commit:
        assert holders(desk) == {first.profile.id: wait._request.id}
        tell([wait])
    else:
        # The ticket was locked by a release that came to nothing: the waiter finds the other's profile itself.
        assert [row.id for row in desk.leases()] == [first.lease_id]
        assert len(lines(desk)) == 1
        look(wait)
    granted = wait.try_once()
    assert granted is not None
    assert lines(desk) == []
    assert is_free(desk, second.profile.id) is (end is Opened.commit)


def test_two_releases_serve_two_tickets_in_their_order(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    first, second = desk.granted(), desk.granted()
    waits = [stand(desk), stand(desk)]
    with desk.opened() as releasing:
        begin_release(releasing, first)
        desk.release(second)
        releasing.commit()
    ids = [wait._request.id for wait in waits]
    assert holders(desk) == dict(zip([first.profile.id, second.profile.id], ids, strict=True))


@KEPT_OR_NOT
def test_who_leaves_the_line_while_it_is_served_has_the_lease_or_none_was_made(
    desk: Desk, threads: ThreadPoolExecutor, end: Callable[[Opened], None]
) -> None:
    leased = desk.granted()
    wait = stand(desk)
    with desk.opened() as releasing:
        begin_release(releasing, leased)
        leaving = threads.submit(wait.leave_line)
        desk.wait_until_blocked()
        end(releasing)
        got = leaving.result(timeout=10)
    (row,) = desk.leases()
    assert not row.unclaimed
    if end is Opened.commit:
        assert got is not None
        assert row.id == got.lease_id
    else:
        assert got is None
        assert row.id == leased.lease_id
        desk.release(leased)
        assert desk.leases() == []
    assert lines(desk) == []


@KEPT_OR_NOT
def test_a_release_waits_for_nobody_who_is_leaving_the_line(desk: Desk, end: Callable[[Opened], None]) -> None:
    leased = desk.granted()
    wait = stand(desk)
    with desk.opened() as leaving:
        assert len(leaving.run(WITHDRAW, {"request_id": wait._request.id})) == 1
        desk.release(leased)
        end(leaving)
    assert desk.leases() == []
    assert is_free(desk, desk.only)
    if end is Opened.roll_back:
        look(wait)
        assert wait.try_once() is not None


def test_a_claim_that_meets_its_expiry_gets_nothing_and_keeps_its_place(
    desk: Desk, threads: ThreadPoolExecutor
) -> None:
    leased = desk.granted()
    slow, later = stand(desk, task="slow"), stand(desk, task="later")
    desk.release(leased)
    (handed,) = desk.leases()
    assert handed.task == "slow"
    desk.expire(handed.id)
    tell([slow])
    with desk.opened() as reaping:
        (ended,) = reaping.run(EXPIRE_FREE, {"dead_workers": [], "batch": 10, **LINE})
        claiming = threads.submit(slow.try_once)
        desk.wait_until_blocked()
        reaping.commit()
        assert claiming.result(timeout=10) is None
    assert (ended.lease_id, ended.outcome) == (handed.id, "not_claimed")
    assert holders(desk) == {desk.only: later._request.id}
    even_later = stand(desk, task="even later")
    slow.stand_in_line()
    assert [row.task for row in lines(desk)] == ["slow", "even later"]
    waits = {"slow": slow, "later": later, "even later": even_later}
    for name in ("later", "slow", "even later"):
        ((served_now, granted),) = served(waits).items()
        assert served_now == name
        del waits[name]
        desk.release(granted)


def test_a_claim_under_way_is_not_reaped(desk: Desk) -> None:
    leased = desk.granted()
    wait = stand(desk)
    desk.release(leased)
    (handed,) = desk.leases()
    desk.expire(handed.id)
    with desk.opened() as claiming:
        (claimed,) = claiming.run(CLAIM, {"request_id": wait._request.id, "worker_id": desk.worker.id})
        assert desk.reaper().run_once().expired == 0
        claiming.commit()
    assert desk.reaper().run_once().expired == 0
    (row,) = desk.leases()
    assert (row.id, row.unclaimed) == (claimed.lease_id, False)
    assert row.expires_at - row.acquired_at > CLAIM_TTL


@KEPT_OR_NOT
def test_a_look_under_way_and_a_release_serve_two_tickets(new_desk: NewDesk, end: Callable[[Opened], None]) -> None:
    desk = new_desk(profiles=2)
    unannounced, leased = desk.granted(), desk.granted()
    first, second = stand(desk), stand(desk)
    free_unannounced(desk, unannounced)
    with desk.opened() as looking:
        assert begin_look(looking, desk) == [first._request.id]
        desk.release(leased)
        end(looking)
    if end is Opened.roll_back:
        assert holders(desk) == {leased.profile.id: second._request.id}
        look(first)
    assert holders(desk) == {unannounced.profile.id: first._request.id, leased.profile.id: second._request.id}
    assert sorted(served({"first": first, "second": second})) == ["first", "second"]


def test_a_look_passes_over_the_ticket_that_a_release_is_serving(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    unannounced, leased = desk.granted(), desk.granted()
    first, second = stand(desk), stand(desk)
    with desk.opened() as releasing, desk.opened() as looking:
        begin_release(releasing, leased)
        free_unannounced(desk, unannounced)
        assert begin_look(looking, desk) == [second._request.id]
        looking.commit()
        releasing.commit()
    assert holders(desk) == {leased.profile.id: first._request.id, unannounced.profile.id: second._request.id}


def test_two_looks_lease_one_free_profile_once(desk: Desk) -> None:
    leased = desk.granted()
    first, second = stand(desk), stand(desk)
    free_unannounced(desk, leased)
    with desk.opened() as one, desk.opened() as other:
        assert begin_look(one, desk) == [first._request.id]
        assert begin_look(other, desk) == []
        one.commit()
        assert begin_look(other, desk) == []
        other.commit()
    assert holders(desk) == {desk.only: first._request.id}
    assert [row.request_id for row in lines(desk)] == [second._request.id]


def test_a_newcomer_gets_nothing_while_a_profile_is_being_handed_over(desk: Desk) -> None:
    leased = desk.granted()
    wait = stand(desk)
    with desk.opened() as releasing:
        begin_release(releasing, leased)
        assert desk.grant() is None
        assert desk.grant(priority=5) is None
        releasing.commit()
    assert desk.grant(priority=5) is None
    assert holders(desk) == {desk.only: wait._request.id}


@pytest.mark.parametrize("state", ["paused", "retired"])
@KEPT_OR_NOT
def test_a_profile_that_an_operator_is_taking_out_is_handed_to_nobody(
    desk: Desk, threads: ThreadPoolExecutor, state: str, end: Callable[[Opened], None]
) -> None:
    leased = desk.granted()
    wait = stand(desk)
    with desk.opened() as operating:
        operating.execute("UPDATE poolsql.profiles SET state = %s WHERE id = %s", [state, desk.only])
        releasing = threads.submit(desk.release, leased)
        desk.wait_until_blocked()
        end(operating)
        releasing.result(timeout=10)
    assert holders(desk) == ({} if end is Opened.commit else {desk.only: wait._request.id})
    assert len(lines(desk)) == (end is Opened.commit)


@pytest.mark.parametrize("table", ["leases", "profiles"])
@pytest.mark.parametrize("waits", [False, True], ids=["nobody waits", "somebody waits"])
def test_an_end_that_waited_for_a_lock_happens_after_the_wait(
    desk: Desk, threads: ThreadPoolExecutor, table: str, waits: bool
) -> None:
    """A lease that it hands over then has the whole time to be claimed."""
    leased = desk.granted()
    wait = stand(desk) if waits else None
    locked = {"leases": leased.lease_id, "profiles": desk.only}[table]
    with desk.opened() as holding, desk.opened() as releasing:
        holding.execute(f"SELECT FROM poolsql.{table} WHERE id = %s FOR UPDATE", [locked])
        ended = threads.submit(begin_release, releasing, leased, RELEASE if waits else PLAIN_SUCCESS)
        desk.wait_until_blocked()
        let_go = holding.query("SELECT clock_timestamp()")[0][0]
        holding.commit()
        ended.result(timeout=10)
        releasing.commit()
    assert desk.attempt(leased.lease_id).ended_at > let_go
    handed = [(row.request_id, row.acquired_at > let_go, row.expires_at - row.acquired_at) for row in desk.leases()]
    assert handed == ([(wait._request.id, True, CLAIM_TTL)] if wait is not None else [])
