"""The pace of a host in a real Postgres: one slot after another for everybody, and none where none is wanted (I9)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from threading import Barrier
from typing import Any

import pytest

from poolsql.database.engine import Database
from poolsql.scraping.pacing import CLAIM_SLOT, Slot, claim_slot, default_delay, still_granted
from tests.fixtures.fleets import Desk
from tests.integration.scraping.runs import new_run, unique_host

FAR = timedelta(hours=1)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def slot(database: Database, host: str, **values: Any) -> Slot:
    return claim_slot(database, host, **{"delay": seconds(10), "longest_wait": FAR, **values})


def set_host(desk: Desk, host: str, **values: str) -> None:
    """Set columns of a host's row to SQL expressions; the row is made when it is missing."""
    desk.execute("INSERT INTO poolsql.hosts (name) VALUES (:name) ON CONFLICT DO NOTHING", name=host)
    for column, expression in values.items():
        desk.execute(f"UPDATE poolsql.hosts SET {column} = {expression} WHERE name = :name", name=host)


def test_the_first_load_of_a_host_may_begin_at_once(database: Database) -> None:
    assert slot(database, unique_host()) == Slot(granted=True)


def test_slots_follow_each_other(database: Database) -> None:
    host = unique_host()
    waits = [slot(database, host).wait for _ in range(4)]
    assert waits == pytest.approx([0, 10, 20, 30], abs=2)
    assert all(granted.granted for granted in [slot(database, host)])


def test_slots_of_many_threads_are_never_closer_than_the_delay(desk: Desk, threads: ThreadPoolExecutor) -> None:
    """Each slot is taken in a transaction of its own; what it sets is the end of the slot, so nothing is measured."""
    host = unique_host()
    start = Barrier(8)

    def take() -> list[float]:
        start.wait()
        taken = []
        for _ in range(10):
            (row,) = desk.database.run(
                CLAIM_SLOT, {"host": host, "delay": 5.0, "at_least": 0.0, "longest_wait": 3600.0}
            )
            now = desk.one("SELECT extract(epoch FROM clock_timestamp())::float8 AS now").now
            taken.append(row.wait + now)
        return taken

    taken = sorted(moment for future in [threads.submit(take) for _ in range(8)] for moment in future.result())
    # The moment of a slot is known only up to the time that asking for the time took.
    assert all(later - earlier > 5.0 - 1.0 for earlier, later in pairwise(taken))
    ends = desk.one("SELECT next_slot_at FROM poolsql.hosts WHERE name = :name", name=host).next_slot_at.timestamp()
    assert ends - taken[0] == pytest.approx(80 * 5.0, abs=1.0), "80 slots take 80 delays, however they raced"


def test_hosts_do_not_wait_for_each_other(database: Database) -> None:
    first, second = unique_host(), unique_host()
    slot(database, first)
    assert slot(database, second).wait == 0


def test_the_delay_of_the_hosts_row_wins_over_the_callers(desk: Desk) -> None:
    shorter, longer = unique_host(), unique_host()
    set_host(desk, shorter, delay="interval '2 seconds'")
    set_host(desk, longer, delay="interval '100 seconds'")
    for host, wait in ((shorter, 2), (longer, 100)):
        slot(desk.database, host)
        assert slot(desk.database, host).wait == pytest.approx(wait, abs=1)


@pytest.mark.parametrize(("own", "asked", "wait"), [(None, 60, 60), ("5 seconds", 60, 60), ("100 seconds", 60, 100)])
def test_what_the_site_asks_for_is_the_least(desk: Desk, own: str | None, asked: int, wait: int) -> None:
    host = unique_host()
    if own is not None:
        set_host(desk, host, delay=f"interval '{own}'")
    for _ in range(2):
        taken = slot(desk.database, host, at_least=seconds(asked))
    assert taken.wait == pytest.approx(wait, abs=2)


def test_a_delay_of_a_year_is_not_shortened(database: Database) -> None:
    host = unique_host()
    assert slot(database, host, at_least=timedelta(days=365)).granted
    refused = slot(database, host, at_least=timedelta(days=365))
    assert not refused.granted
    assert refused.wait == pytest.approx(365 * 86400, abs=60)


def test_a_slot_that_is_too_far_away_is_left_to_others(desk: Desk) -> None:
    host = unique_host()
    taken = [slot(desk.database, host, longest_wait=seconds(25)) for _ in range(5)]
    assert [each.granted for each in taken] == [True, True, True, False, False]
    assert taken[-1].wait == pytest.approx(30, abs=3)
    assert taken[-1].reason == "the host's next slot is too far away"
    assert slot(desk.database, host).wait == pytest.approx(30, abs=3), "what was refused took no slot"


def test_an_old_slot_gives_no_credit(desk: Desk) -> None:
    host = unique_host()
    set_host(desk, host, next_slot_at="clock_timestamp() - interval '1 day'")
    assert [slot(desk.database, host).wait for _ in range(2)] == pytest.approx([0, 10], abs=2)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("paused_until", "clock_timestamp() + interval '50 seconds'", "the host is paused"),
        ("stopped_at", "clock_timestamp()", "the host is stopped"),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_no_slot_where_none_is_wanted(desk: Desk, column: str, value: str, reason: str, known: bool) -> None:
    host = unique_host()
    if known:
        slot(desk.database, host)
    set_host(desk, host, **{column: value})
    before = desk.host_row(host).next_slot_at
    refused = slot(desk.database, host)
    assert (refused.granted, refused.reason) == (False, reason)
    if column == "paused_until":
        assert refused.paused_for == pytest.approx(50, abs=5)
    assert desk.host_row(host).next_slot_at == before, "nothing was taken"
    set_host(desk, host, **{column: "NULL"})
    assert slot(desk.database, host).granted


@pytest.mark.parametrize(
    ("column", "value"),
    [("paused_until", "clock_timestamp() + interval '50 seconds'"), ("stopped_at", "clock_timestamp()")],
)
def test_what_happens_during_the_wait_is_seen_after_it(desk: Desk, column: str, value: str) -> None:
    host = unique_host()
    assert still_granted(desk.database, host).granted, "nobody has said anything about the host"
    assert slot(desk.database, host).granted
    assert still_granted(desk.database, host).granted
    set_host(desk, host, **{column: value})
    assert not still_granted(desk.database, host).granted


def test_a_pause_that_is_over_is_none(desk: Desk) -> None:
    host = unique_host()
    set_host(desk, host, paused_until="clock_timestamp() - interval '1 second'")
    assert slot(desk.database, host).granted
    assert still_granted(desk.database, host).granted


def test_a_pause_that_is_being_set_is_waited_for(desk: Desk, threads: ThreadPoolExecutor) -> None:
    """Who asks for a slot while a pause is being committed gets none: the row's newest version decides."""
    host = unique_host()
    slot(desk.database, host)
    with desk.opened() as other:
        other.execute(
            "UPDATE poolsql.hosts SET paused_until = clock_timestamp() + interval '1 minute' WHERE name = %s", [host]
        )
        asking = threads.submit(slot, desk.database, host)
        desk.wait_until_blocked()
        other.commit()
        assert not asking.result().granted


def test_only_this_machine_needs_no_delay() -> None:
    assert default_delay("127.0.0.1:8000") == default_delay("localhost") == timedelta(0)
    assert default_delay("shop.example") == seconds(1)


def test_a_task_of_a_slow_host_is_claimed_shortly_before_its_slot(desk: Desk) -> None:
    run = new_run(desk, count=2)
    task = run.claimed()
    assert slot(desk.database, task.host, delay=seconds(1000)).granted
    assert run.claim() is None
    assert run.progress().next_in == pytest.approx(997, abs=30)
