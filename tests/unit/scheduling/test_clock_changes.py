"""Cron schedules over changes of clocks, against a model that looks at every minute of the world's clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest

from poolsql.scheduling.schedules import Cron

MINUTE = timedelta(minutes=1)

CHANGES = {
    "Berlin, forward": ("Europe/Berlin", datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
    "Berlin, back": ("Europe/Berlin", datetime(2026, 10, 25, 1, 0, tzinfo=UTC)),
    "New York, forward": ("America/New_York", datetime(2026, 3, 8, 7, 0, tzinfo=UTC)),
    "New York, back": ("America/New_York", datetime(2026, 11, 1, 6, 0, tzinfo=UTC)),
    "Lord Howe, half an hour forward": ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    "Lord Howe, half an hour back": ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, 0, tzinfo=UTC)),
    "Santiago, forward from midnight": ("America/Santiago", datetime(2026, 9, 6, 4, 0, tzinfo=UTC)),
    "Santiago, back to the day before": ("America/Santiago", datetime(2026, 4, 5, 3, 0, tzinfo=UTC)),
    "Apia, over the date line": ("Pacific/Apia", datetime(2011, 12, 30, 10, 0, tzinfo=UTC)),
}

FIXED: dict[str, Callable[[datetime], bool]] = {
    "30 2 * * *": lambda wall: (wall.hour, wall.minute) == (2, 30),
    "0 2 * * *": lambda wall: (wall.hour, wall.minute) == (2, 0),
    "0 3 * * *": lambda wall: (wall.hour, wall.minute) == (3, 0),
    "15,45 1-3 * * *": lambda wall: wall.hour in {1, 2, 3} and wall.minute in {15, 45},
    "0,30 0,1,2,23 * * *": lambda wall: wall.hour in {0, 1, 2, 23} and wall.minute in {0, 30},
    "59 23 * * sat-mon": lambda wall: (wall.hour, wall.minute) == (23, 59) and wall.weekday() in {5, 6, 0},
    "10 0 * * sun": lambda wall: (wall.hour, wall.minute) == (0, 10) and wall.weekday() == 6,
}
FOLLOWING: dict[str, Callable[[datetime], bool]] = {
    "* * * * *": lambda _: True,
    "0 * * * *": lambda wall: wall.minute == 0,
    "20 0-23 * * *": lambda wall: wall.minute == 20,
    "*/15 * * * *": lambda wall: wall.minute % 15 == 0,
    "*/20 2 * * *": lambda wall: wall.hour == 2 and wall.minute % 20 == 0,
    "0 */2 * * *": lambda wall: wall.hour % 2 == 0 and wall.minute == 0,
    "50 * * * sun": lambda wall: wall.minute == 50 and wall.weekday() == 6,
}
EXPRESSIONS = [*FIXED, *FOLLOWING]


def window(change: str) -> tuple[datetime, datetime]:
    moment = CHANGES[change][1]
    return moment - timedelta(days=2), moment + timedelta(days=2)


@cache
def wall_clocks(change: str) -> tuple[tuple[datetime, datetime, int], ...]:
    """Each minute of the window: the instant, what the wall shows, and whether for the second time."""
    zone = ZoneInfo(CHANGES[change][0])
    start, end = window(change)
    shown = []
    for number in range((end - start) // MINUTE + 1):
        instant = start + number * MINUTE
        local = instant.astimezone(zone)
        shown.append((instant, local.replace(tzinfo=None), local.fold))
    return tuple(shown)


@cache
def modelled(change: str, expression: str) -> tuple[datetime, ...]:
    start, _ = window(change)
    fixed, matching = expression in FIXED, FIXED.get(expression) or FOLLOWING[expression]
    due = set()
    before: datetime | None = None
    for instant, wall, fold in wall_clocks(change):
        if matching(wall) and not (fixed and fold):
            due.add(instant)
        skipped = (wall - before) // MINUTE - 1 if before is not None else 0
        if before is not None and fixed and any(matching(before + n * MINUTE) for n in range(1, skipped + 1)):
            due.add(instant)
        before = wall
    return tuple(sorted(instant for instant in due if instant > start))


def schedule(change: str, expression: str) -> Cron:
    return Cron(expression, CHANGES[change][0])


def test_the_windows_hold_the_changes() -> None:
    for change, (name, moment) in CHANGES.items():
        zone = ZoneInfo(name)
        before, after = (moment - MINUTE).astimezone(zone), moment.astimezone(zone)
        assert before.utcoffset() != after.utcoffset(), change
        assert ("back" in change) == any(fold for _, _, fold in wall_clocks(change))


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_all_instants_of_four_days_are_those_of_the_model(change: str, expression: str) -> None:
    start, end = window(change)
    assert tuple(schedule(change, expression).due(after=start, until=end)) == modelled(change, expression)


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_the_instants_do_not_depend_on_where_one_starts_to_look(change: str, expression: str) -> None:
    start, end = window(change)
    cron, expected = schedule(change, expression), modelled(change, expression)
    chance = random.Random(f"{change} {expression}")
    moment = CHANGES[change][1]
    near = [moment + n * timedelta(minutes=5) + timedelta(microseconds=n % 2) for n in range(-30, 31)]
    cuts = sorted({*near, *(start + chance.random() * (end - start) for _ in range(40))})

    pieces: list[datetime] = []
    for after, until in zip([start, *cuts], [*cuts, end], strict=True):
        pieces += cron.due(after=after, until=until)
    assert tuple(pieces) == expected

    for cut in cuts:
        past = [instant for instant in expected if instant <= cut]
        assert cron.latest(after=start, until=cut) == (past[-1] if past else None), cut
        to_come = [instant for instant in expected if instant > cut]
        if to_come:
            assert cron.next(after=cut) == to_come[0], cut
            assert cron.latest(after=cut, until=to_come[0]) == to_come[0]
            assert cron.latest(after=cut, until=to_come[0] - timedelta(microseconds=1)) is None


def test_a_time_that_occurs_twice_runs_once_at_the_first() -> None:
    night = {"after": datetime(2026, 10, 24, 12, tzinfo=UTC), "until": datetime(2026, 10, 25, 12, tzinfo=UTC)}
    assert list(Cron("30 2 * * *", "Europe/Berlin").due(**night)) == [datetime(2026, 10, 25, 0, 30, tzinfo=UTC)]


def test_a_time_that_is_skipped_runs_right_after_the_gap() -> None:
    night = {"after": datetime(2026, 3, 28, 12, tzinfo=UTC), "until": datetime(2026, 3, 29, 12, tzinfo=UTC)}
    assert list(Cron("30 2 * * *", "Europe/Berlin").due(**night)) == [datetime(2026, 3, 29, 1, 0, tzinfo=UTC)]


def test_an_hourly_job_runs_each_real_hour() -> None:
    for change, (_, moment) in CHANGES.items():
        if "Lord Howe" in change:
            continue
        start = moment - timedelta(hours=12)
        due = schedule(change, "0 * * * *").due(after=start, until=moment + timedelta(hours=12))
        assert list(due) == [start + timedelta(hours=n) for n in range(1, 25)], change


def test_a_week_of_minutes_over_a_change_is_a_week_of_minutes() -> None:
    start = datetime(2026, 10, 22, tzinfo=UTC)
    due = Cron("* * * * *", "Europe/Berlin").due(after=start, until=start + timedelta(days=7))
    assert list(due) == [start + n * MINUTE for n in range(1, 7 * 24 * 60 + 1)]
