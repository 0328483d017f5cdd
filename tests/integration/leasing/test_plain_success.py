"""The short statement for plain successes does what release.sql would, or nothing: the two are compared row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from poolsql.leasing.checkout import Grant
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import PLAIN_SUCCESS, RELEASE, release_parameters
from tests.fixtures.fleets import Desk, FaultyDatabase, Opened, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

NewDesk = Callable[..., Desk]

OWN_ROWS = {
    "profiles": "pool_id = {pool}",
    "leases": "pool_id = {pool}",
    "attempts": "pool_id = {pool}",
    "visits": "pool_id = {pool}",
    "waiters": "pool_id = {pool}",
    "cooldowns": "profile_id IN (SELECT id FROM poolsql.profiles WHERE pool_id = {pool})",
    "hosts": "name = '{host}'",
}

DRAWN = {("visits", "id"), ("leases", "id"), ("leases", "token")}
"""Columns that are another value each time."""

OUTCOMES = [None, Outcome.SUCCESS]


def rows(desk: Desk, opened: Opened) -> Mapping[str, list[Any]]:
    """Everything that the end of a lease may change, with moments that are not older than this test as 'now'."""
    (began,) = opened.query("SELECT now()")[0]
    return {
        table: [
            {name: _value(table, name, value, began) for name, value in row._asdict().items()}
            for row in opened.query(
                f"SELECT * FROM poolsql.{table} AS row WHERE {where.format(pool=desk.pool.id, host=desk.host)} "
                "ORDER BY row"
            )
        ]
        for table, where in OWN_ROWS.items()
    }


def _value(table: str, name: str, value: Any, began: datetime) -> Any:
    if (table, name) in DRAWN:
        return "drawn"
    # To the second: a rest or a claim that begins at the statement's own moment.
    return round((value - began).total_seconds()) if isinstance(value, datetime) and value >= began else value


def ends(desk: Desk, granted: Grant, outcome: Outcome | None, **said: Any) -> tuple[Any, Any]:
    """What both statements make of the same lease; None for one that leaves it alone."""
    parameters = release_parameters(name_of(granted), outcome=outcome, **said)
    made = []
    with desk.opened() as opened:
        for statement in (PLAIN_SUCCESS, RELEASE):
            before = rows(desk, opened)
            ended = opened.run(statement, parameters)
            after = rows(desk, opened)
            assert bool(ended) == (after != before), "it says what it did"
            told = [(row.lease_id, row.outcome, row.counted, row.retired_because) for row in ended]
            made.append((told, after) if ended else None)
            opened.roll_back()
    return made[0], made[1]


def with_streak(desk: Desk) -> Grant:
    desk.execute(
        "UPDATE poolsql.profiles SET consecutive_failures = 2, consecutive_crashes = 1, consecutive_losses = 1, "
        "consecutive_holds = 1, needs_person_since = now() WHERE id = :id",
        id=desk.only,
    )
    return desk.granted()


def with_spent_cooldown(desk: Desk) -> Grant:
    desk.go(Outcome.BLOCKED, host=desk.host)
    desk.free_all()
    return desk.granted(host=desk.host, task="again")


def with_cooldown_that_lasts(desk: Desk) -> Grant:
    granted = desk.granted(host=desk.host)
    desk.execute(
        "INSERT INTO poolsql.cooldowns (profile_id, host, until, in_a_row, outcome, set_at) "
        "VALUES (:id, :host, now() + interval '1 hour', 1, 'blocked', now())",
        id=desk.only,
        host=desk.host,
    )
    return granted


def with_visits(desk: Desk) -> Grant:
    granted = desk.granted(host=desk.host)
    desk.visit(granted, Outcome.SUCCESS)
    desk.visit(granted, Outcome.SUCCESS, number=1)
    return granted


def with_waiter(desk: Desk) -> Grant:
    granted = desk.granted()
    waiting = desk.wait(wait=60, task="next")
    assert waiting.try_once() is None
    waiting.stand_in_line()
    return granted


PLAIN: Mapping[str, Callable[[Desk], Grant]] = {
    "bare": lambda desk: desk.granted(),
    "of a task on a host": lambda desk: desk.granted(task="sku-1", host=desk.host),
    "after failures": with_streak,
    "with visits": with_visits,
}


@pytest.mark.parametrize("outcome", OUTCOMES, ids=str)
@pytest.mark.parametrize("case", PLAIN)
@pytest.mark.parametrize("rest", [0, "10m"])
def test_a_plain_success_ends_as_by_release_sql(
    new_desk: NewDesk, case: str, outcome: Outcome | None, rest: Any
) -> None:
    desk = new_desk(rest=rest, max_uses=1000, max_age="90d")
    plain, general = ends(desk, PLAIN[case](desk), outcome, detail="well")
    assert plain is not None
    assert plain == general


def test_a_success_with_a_browser_is_plain_once_its_stop_is_proven(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted, machine="here")
    assert ends(desk, granted, None) == (None, None)
    plain, general = ends(desk, granted, None, stop_rung="close")
    assert plain is not None
    assert plain == general


def with_failed_visit(desk: Desk) -> Grant:
    granted = desk.granted(host=desk.host)
    desk.visit(granted, Outcome.NOT_FOUND)
    return granted


def with_grown_pause(desk: Desk) -> Grant:
    granted = desk.granted(host=desk.host)
    desk.execute("INSERT INTO poolsql.hosts (name, errors_in_a_row) VALUES (:host, 2)", host=desk.host)
    return granted


def with_profile(change: str) -> Callable[[Desk], Grant]:
    def make(desk: Desk) -> Grant:
        granted = desk.granted()
        desk.execute(f"UPDATE poolsql.profiles SET {change} WHERE id = :id", id=desk.only)
        return granted

    return make


OTHERS: Mapping[str, tuple[Callable[[Desk], Grant], Mapping[str, Any]]] = {
    "a visit failed": (with_failed_visit, {}),
    "after a cooldown": (with_spent_cooldown, {}),
    "in a cooldown": (with_cooldown_that_lasts, {}),
    "its site has failed before": (with_grown_pause, {}),
    "with a waiter": (with_waiter, {}),
    "paused meanwhile": (with_profile("state = 'paused'"), {}),
    "retired meanwhile": (with_profile("state = 'retired'"), {}),
    "held meanwhile": (with_profile("hold_until = now() + interval '1 hour'"), {}),
    "its last use": (with_profile("uses = 4"), {"max_uses": 5}),
    "its age is reached": (with_profile("judged_from = now() - interval '2 days'"), {"max_age": "1d"}),
    "its first window is full": (with_profile("uses = 9"), {"retire_window": 10}),
}


@pytest.mark.parametrize("outcome", OUTCOMES, ids=str)
@pytest.mark.parametrize("case", OTHERS)
def test_what_is_not_plain_is_left_alone(new_desk: NewDesk, case: str, outcome: Outcome | None) -> None:
    make, policy = OTHERS[case]
    desk = new_desk(**policy)
    granted = make(desk)
    plain, general = ends(desk, granted, outcome)
    assert plain is None
    assert general is not None
    desk.release(granted, outcome)
    assert desk.attempt(granted.lease_id).outcome == general[0][0][1]


def test_nothing_is_done_for_who_has_no_lease(desk: Desk) -> None:
    granted = desk.granted()
    stranger = {**release_parameters(name_of(granted), outcome=None), "token": UUID(int=0)}
    before = desk.picture()
    assert desk.database.run(PLAIN_SUCCESS, stranger) == []
    assert desk.picture() == before


@pytest.mark.parametrize("outcome", OUTCOMES, ids=str)
def test_a_plain_success_whose_answer_was_lost_ends_as_it_began_i6(
    desk: Desk, faulty: FaultyDatabase, outcome: Outcome | None
) -> None:
    granted = desk.granted(host=desk.host)
    faulty.lose_answer_of(PLAIN_SUCCESS)
    ended = desk.hold(granted, host=desk.host, database=faulty).release(outcome)
    assert faulty.ran.count(PLAIN_SUCCESS) == 2
    assert ended is not None
    assert (ended.outcome, ended.available_at) == (Outcome.SUCCESS, desk.attempt(granted.lease_id).available_at)
    assert len(desk.visits(granted.lease_id)) == 1
    assert desk.refused(granted.lease_id) == []
