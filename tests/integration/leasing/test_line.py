"""The line of checkouts that wait: who is served, in which order, and what a lost one costs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from poolsql.database.engine import Database
from poolsql.leasing import line, tickets
from poolsql.leasing.checkout import CLAIM
from poolsql.leasing.line import HIGHEST_PRIORITY
from poolsql.leasing.outcomes import Outcome
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk, FaultyDatabase
from tests.integration.leasing.lines import free_unannounced, lines, served, stand

pytestmark = pytest.mark.usefixtures("no_leaked_locks", "no_looks")

NewDesk = Callable[..., Desk]


def test_a_release_hands_its_profile_to_who_came_first(desk: Desk) -> None:
    leased = desk.granted()
    waits = {name: stand(desk, task=name) for name in ("first", "second", "third")}
    for name, wait in waits.items():
        desk.release(leased)
        (row,) = desk.leases()
        assert (row.task, row.unclaimed, row.request_id) == (name, True, wait._request.id)
        assert desk.profile(desk.only).available_at is None
        assert desk.grant() is None, "nobody comes in between"
        wait._tickets.call(row.request_id)
        granted = wait.try_once()
        assert granted is not None
        (row,) = desk.leases()
        assert (row.id, row.unclaimed) == (granted.lease_id, False)
        assert row.expires_at - row.acquired_at > line.CLAIM_TTL
        leased = granted
    assert lines(desk) == []


def test_a_priority_advances_by_a_fixed_step(desk: Desk) -> None:
    leased = desk.granted()
    waits = {
        "early": stand(desk, task="early"),
        "late": stand(desk, task="late"),
        "urgent": stand(desk, task="urgent", priority=1),
        "patient": stand(desk, task="patient", priority=-1),
    }
    # One that has waited for longer than the step is not overtaken any more.
    desk.execute("UPDATE poolsql.waiters SET rank = rank - interval '11 seconds' WHERE task = 'early'")
    order = []
    while waits:
        desk.release(leased)
        (row,) = desk.leases()
        order.append(row.task)
        waits[row.task]._tickets.call(row.request_id)
        granted = waits.pop(row.task).try_once()
        assert granted is not None
        leased = granted
    assert order == ["early", "urgent", "late", "patient"]


@pytest.mark.parametrize(
    "asked",
    [
        {"tags": ("de",)},
        {"without_tags": ("win11",)},
        {"profile_id": -1},
        {"host": "paused.test"},
        {"host": "stopped.test"},
        {"host": "cooling.test"},
    ],
    ids=str,
)
def test_a_profile_goes_to_nobody_whom_it_cannot_serve(new_desk: NewDesk, asked: dict[str, Any]) -> None:
    desk = new_desk(profiles=0)
    (only,) = desk.add_profiles(1, tags=["win11"])
    if "profile_id" in asked:
        asked = {"profile_id": new_desk(pool=desk.pool, profiles=1).only}
        desk.execute("UPDATE poolsql.profiles SET state = 'paused' WHERE id = :id", id=asked["profile_id"])
    desk.execute(
        "INSERT INTO poolsql.hosts (name, paused_until, stopped_at) VALUES "
        "('paused.test', clock_timestamp() + interval '1 hour', NULL), ('stopped.test', NULL, clock_timestamp()) "
        "ON CONFLICT DO NOTHING"
    )
    desk.execute(
        "INSERT INTO poolsql.cooldowns (profile_id, host, until, in_a_row, outcome, set_at) "
        "VALUES (:id, 'cooling.test', clock_timestamp() + interval '1 hour', 1, 'blocked', clock_timestamp())",
        id=only,
    )
    leased = desk.granted()
    waits = {"unfit": stand(desk, **asked), "fit": stand(desk)}
    desk.release(leased)
    assert list(served(waits)) == ["fit"]


@pytest.mark.parametrize("outcome", [Outcome.BLOCKED, Outcome.CAPTCHA, Outcome.RATE_LIMITED, Outcome.SITE_ERROR])
def test_a_profile_goes_to_nobody_of_the_host_that_this_release_pauses(desk: Desk, outcome: Outcome) -> None:
    leased = desk.granted(host=desk.host)
    waits = {"same host": stand(desk, host=desk.host), "other host": stand(desk, host=f"other.{desk.host}")}
    desk.release(leased, outcome)
    assert list(served(waits)) == ["other host"]


@pytest.mark.parametrize("reason", ["rest", "hold", "retired", "paused", "pool paused", "breaker"])
def test_a_profile_that_is_not_free_at_once_goes_to_nobody(new_desk: NewDesk, reason: str) -> None:
    desk = new_desk(**({"rest": "1h"} if reason == "rest" else {"max_uses": 1} if reason == "retired" else {}))
    leased = desk.granted()
    waits = {"waits": stand(desk)}
    if reason == "paused":
        desk.execute("UPDATE poolsql.profiles SET state = 'paused' WHERE id = :id", id=desk.only)
    if reason == "pool paused":
        desk.execute("UPDATE poolsql.pools SET paused_at = clock_timestamp() WHERE id = :id", id=desk.pool.id)
    if reason == "breaker":
        desk.execute(
            "UPDATE poolsql.launchers SET breaker_open_until = now() + interval '1 hour' WHERE name = :name",
            name=desk.launcher,
        )
    desk.release(leased, Outcome.BROWSER_CRASHED if reason == "hold" else Outcome.SUCCESS)
    assert served(waits) == {}
    assert desk.leases() == []


def test_only_machines_that_can_drive_it_are_handed_a_profile(new_desk: NewDesk) -> None:
    desk = new_desk()
    elsewhere = new_desk(pool=desk.pool, profiles=0, machine="elsewhere")
    desk.execute("UPDATE poolsql.profiles SET machine = 'here' WHERE id = :id", id=desk.only)
    leased = desk.granted()
    waits = {"elsewhere": stand(elsewhere), "here": stand(desk)}
    desk.release(leased)
    assert list(served(waits)) == ["here"]


def test_newcomers_queue_behind_those_who_want_the_same(new_desk: NewDesk) -> None:
    desk = new_desk()
    leased = desk.granted(host=desk.host)
    stand(desk, host=desk.host)
    free_unannounced(desk, leased)
    assert desk.grant(host=desk.host) is None
    assert desk.grant(host=desk.host, priority=-3) is None
    assert desk.grant(host=desk.host, priority=1) is not None, "its arrival is counted from earlier on"


@pytest.mark.parametrize("asked", [{"host": "another.test"}, {"tags": ("de",)}, {"without_tags": ("fr",)}], ids=str)
def test_who_wants_something_else_is_not_kept_waiting(new_desk: NewDesk, asked: dict[str, Any]) -> None:
    desk = new_desk(profiles=0)
    desk.add_profiles(1, tags=["de"])
    leased = desk.granted()
    stand(desk)
    free_unannounced(desk, leased)
    assert desk.grant(**asked) is not None


def test_what_is_pinned_to_a_machine_waits_for_nobody_elsewhere(new_desk: NewDesk) -> None:
    desk = new_desk(profiles=2)
    elsewhere = new_desk(pool=desk.pool, profiles=0, machine="elsewhere")
    pinned, _ = desk.profile_ids
    leased = [desk.granted(), desk.granted()]
    stand(elsewhere)
    for lease in leased:
        desk.execute("DELETE FROM poolsql.leases WHERE id = :id", id=lease.lease_id)
    desk.execute(
        "UPDATE poolsql.profiles SET available_at = clock_timestamp(), "
        "machine = CASE WHEN id = :pinned THEN 'here' END WHERE pool_id = :pool",
        pool=desk.pool.id,
        pinned=pinned,
    )
    granted = desk.grant()
    assert granted is not None
    assert granted.profile.id == pinned
    assert desk.grant() is None, "the other one is theirs"


# Waiters that do not answer


def test_a_lease_that_nobody_claims_goes_to_the_next_and_blames_nobody(new_desk: NewDesk) -> None:
    desk = new_desk()
    leased = desk.granted()
    dead, alive = stand(desk, task="dead"), stand(desk, task="alive")
    desk.release(leased)
    (handed,) = desk.leases()
    assert handed.task == "dead"
    assert handed.expires_at - handed.acquired_at == line.CLAIM_TTL
    desk.expire(handed.id)
    desk.reaper().run_once()
    attempt = desk.attempt(handed.id)
    assert (attempt.outcome, attempt.blames, attempt.counted, attempt.wait) == (
        "not_claimed", "nobody", False, timedelta(0),
    )  # fmt: skip
    assert desk.profile(desk.only).uses == 1, "nobody used it"
    assert list(served({"dead": dead, "alive": alive})) == ["alive"]


def test_a_claim_that_comes_late_but_in_time_counts(desk: Desk) -> None:
    leased = desk.granted()
    slow = stand(desk)
    desk.release(leased)
    (handed,) = desk.leases()
    desk.expire(handed.id)
    assert list(served({"slow": slow})) == ["slow"]
    assert desk.reaper().run_once().expired == 0


@pytest.mark.parametrize("gone", ["its worker was not seen", "its time is up"])
def test_a_stale_ticket_gets_nothing_and_blocks_nobody(desk: Desk, gone: str) -> None:
    leased = desk.granted()
    stand(desk)
    if gone == "its time is up":
        desk.execute("UPDATE poolsql.waiters SET gives_up_at = clock_timestamp() WHERE pool_id = :id", id=desk.pool.id)
    else:
        desk.execute(
            "UPDATE poolsql.workers SET waiting_seen_at = clock_timestamp() - :life WHERE id = :id",
            life=line.TICKET_LIFE,
            id=desk.worker.id,
        )
    desk.release(leased)
    assert desk.leases() == []
    assert desk.grant() is not None


def test_a_wait_that_was_cancelled_leaves_nothing(desk: Desk) -> None:
    leased = desk.granted()
    wait = stand(desk)
    assert wait.leave_line() is None
    assert lines(desk) == []
    desk.release(leased)
    assert desk.leases() == []


def test_a_lease_that_was_handed_over_at_the_last_moment_is_not_lost(desk: Desk) -> None:
    leased = desk.granted()
    wait = stand(desk)
    desk.release(leased)
    granted = wait.leave_line()
    assert granted is not None
    assert [row.id for row in desk.leases()] == [granted.lease_id]


def test_a_lease_that_was_handed_over_while_its_ticket_is_given_up_is_taken(desk: Desk, faulty: FaultyDatabase) -> None:
    leased = desk.granted()
    desk.database = faulty
    waiting = stand(desk)
    waiting._tickets.call(waiting._request.id)  # for nothing

    def too_early(_: object) -> list[Any]:
        desk.release(leased)
        return []

    faulty.instead_of_next(CLAIM, too_early)
    granted = waiting.try_once()
    (row,) = desk.leases()
    assert granted is not None
    assert (row.id, row.unclaimed) == (granted.lease_id, False)


def test_a_ticket_is_left_once_though_its_answer_was_lost(desk: Desk, faulty: Any) -> None:
    desk.granted()
    wait = desk.wait(wait=60)
    wait._tickets._database = faulty
    faulty.lose_answer_of(tickets.LEAVE_TICKET)
    assert wait.try_once() is None
    wait.stand_in_line()
    assert [row.request_id for row in lines(desk)] == [wait._request.id]


def test_a_request_that_got_its_lease_by_a_lost_try_neither_fails_a_release_nor_loses_it(
    new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = new_desk(profiles=2)
    leased = [desk.granted(), desk.granted()]
    waits = {"twice": stand(desk, task="twice"), "next": stand(desk, task="next")}
    # The server gets round to its first try only now.
    desk.execute("UPDATE poolsql.leases SET request_id = :id WHERE id = :lease",
        id=waits["twice"]._request.id, lease=leased[1].lease_id)  # fmt: skip
    desk.release(leased[0])
    assert [row.task for row in desk.leases() if row.unclaimed] == ["next"]
    monkeypatch.setattr(tickets, "LOOK_EVERY", 0.05)
    waits["twice"]._tickets.call(None)
    assert waits["twice"].stand_in_line().result(timeout=10) is None
    found = waits["twice"].try_once()
    assert found is not None
    assert found.lease_id == leased[1].lease_id


# Looking


def test_what_comes_back_unannounced_is_found_by_looking_and_goes_to_the_first(
    new_desk: NewDesk, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = new_desk(rest=0.5)
    other = new_desk(pool=desk.pool, profiles=0)
    leased = desk.granted()
    first = stand(other, task="first")
    monkeypatch.setattr(tickets, "LOOK_EVERY", 0.05)
    second = stand(desk, task="second")
    desk.release(leased)
    # The one that looks serves the other, whose worker is told.
    until(lambda: [row.task for row in desk.leases()] == ["first"])
    assert list(served({"first": first, "second": second})) == ["first"]


def test_who_is_not_told_at_once_looks_for_itself(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "LOOK_EVERY", 0.05)
    leased = desk.granted()
    wait = desk.wait(wait=60, listens=False)
    assert wait.try_once() is None
    called = wait.stand_in_line()
    desk.release(leased)
    called.result(timeout=10)
    assert wait.try_once() is not None


def test_a_lost_notification_is_made_up_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "LOOK_EVERY", 0.05)
    leased = desk.granted()
    wait = desk.wait(wait=60)
    assert wait.try_once() is None
    called = wait.stand_in_line()
    desk.release(leased)
    called.result(timeout=10)
    assert wait.try_once() is not None


def test_priorities_are_bounded() -> None:
    assert timedelta(minutes=10) < HIGHEST_PRIORITY * line.PRIORITY_STEP < timedelta(hours=1)
