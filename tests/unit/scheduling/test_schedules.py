from __future__ import annotations

import re
import time
import tomllib
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from poolsql.errors import BadInputError
from poolsql.scheduling.schedules import Cron, Every, Once, Schedule, parse_schedule, schedule_from_json

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
"""A Monday."""
CREATED = datetime(2026, 11, 30, 12, 0, 7, 123457, tzinfo=UTC)


def due(schedule: Schedule, count: int, *, after: datetime = NOON) -> list[datetime]:
    return list(islice(schedule.due(after=after, until=after + timedelta(days=366 * 30)), count))


@pytest.mark.parametrize(
    ("expression", "instants"),
    [
        ("0 */6 * * *", ["2026-11-30 18:00", "2026-12-01 00:00", "2026-12-01 06:00"]),
        ("5,10-12 8 * * *", ["2026-12-01 08:05", "2026-12-01 08:10", "2026-12-01 08:11"]),
        ("0 8 * * mon-fri", ["2026-12-01 08:00", "2026-12-02 08:00", "2026-12-03 08:00", "2026-12-04 08:00"]),
        ("0 8 * * fri-sun", ["2026-12-04 08:00", "2026-12-05 08:00", "2026-12-06 08:00", "2026-12-11 08:00"]),
        ("0 8 * * fri-mon/2,wed", ["2026-12-02 08:00", "2026-12-04 08:00", "2026-12-06 08:00", "2026-12-09 08:00"]),
        ("0 8 * * mon-sun", ["2026-12-01 08:00", "2026-12-02 08:00", "2026-12-03 08:00"]),
        ("0 8 * * SUN", ["2026-12-06 08:00", "2026-12-13 08:00"]),
        ("0 8 * * tue#2", ["2026-12-08 08:00", "2027-01-12 08:00"]),
        ("0 8 * * friL", ["2026-12-25 08:00", "2027-01-29 08:00"]),
        ("0 0 L * *", ["2026-12-31 00:00", "2027-01-31 00:00", "2027-02-28 00:00"]),
        ("0 0 29 feb *", ["2028-02-29 00:00", "2032-02-29 00:00"]),
        ("0 0 13 * fri", ["2026-12-04 00:00", "2026-12-11 00:00", "2026-12-13 00:00"]),
        ("0 0 */13 * fri", ["2027-01-01 00:00", "2027-05-14 00:00", "2027-08-27 00:00"]),
        ("0 0 * feb mon#5", ["2044-02-29 00:00"]),
    ],
)
def test_cron_fields_mean_what_cron_means(expression: str, instants: list[str]) -> None:
    expected = [datetime.fromisoformat(instant).replace(tzinfo=UTC) for instant in instants]
    cron = Cron(expression)
    assert due(cron, len(instants)) == expected
    assert cron.next(after=NOON) == expected[0]
    assert cron.latest(after=NOON, until=expected[-1]) == expected[-1]


def test_a_zone_moves_the_instants() -> None:
    assert Cron("0 6 * * *", "Asia/Kolkata").next(after=NOON) == datetime(2026, 12, 1, 0, 30, tzinfo=UTC)


def test_the_bounds_are_after_and_until() -> None:
    hour = timedelta(hours=1)
    for schedule in (Cron("0 * * * *"), Every(hour, NOON - 5 * hour), Once(NOON)):
        assert list(schedule.due(after=NOON - hour, until=NOON)) == [NOON]
        assert schedule.latest(after=NOON - hour, until=NOON) == NOON
        assert not list(schedule.due(after=NOON, until=NOON + hour / 2))
        assert schedule.latest(after=NOON, until=NOON + hour / 2) is None
        assert not list(schedule.due(after=NOON, until=NOON - hour))
        assert schedule.latest(after=NOON, until=NOON - hour) is None
        assert schedule.next(after=NOON - hour / 2) == NOON
        assert schedule.next(after=NOON) != NOON


@pytest.mark.parametrize("expression", ["* * * * *", "* * * jan *", "0 0 29 2 *", "*/7 3-5 * * mon"])
def test_the_latest_instant_of_many_years_is_found_at_once(expression: str) -> None:
    began = time.process_time()
    found = Cron(expression, "Europe/Berlin").latest(after=NOON - timedelta(days=365 * 30), until=NOON)
    assert found is not None
    # Walking there would take half a minute for the first of them.
    assert time.process_time() - began < 0.5


def test_the_end_of_all_years_is_the_end_of_the_instants() -> None:
    new_year = datetime(9999, 1, 1, tzinfo=UTC)
    assert list(Cron("0 0 1 1 *").due(after=new_year - timedelta(days=9), until=new_year + timedelta(days=99))) == [
        new_year
    ]


def test_an_interval_counts_from_its_anchor() -> None:
    every = Every(timedelta(minutes=10), CREATED)
    instants = [CREATED + k * timedelta(minutes=10) for k in range(1, 200)]
    assert due(every, 199, after=CREATED - timedelta(days=3)) == instants
    for k, instant in enumerate(instants[:-1]):
        assert every.next(after=instant) == instants[k + 1]
        assert every.next(after=instant - timedelta(microseconds=1)) == instant
        assert every.latest(after=CREATED, until=instant) == instant
        assert every.latest(after=CREATED, until=instant + timedelta(seconds=599)) == instant
    assert every.latest(after=CREATED - timedelta(days=9), until=CREATED + timedelta(seconds=599)) is None


def test_an_interval_is_exact_after_a_hundred_years() -> None:
    period = timedelta(seconds=1, microseconds=100_001)
    count = 3_000_000_000
    every = Every(period, CREATED)
    assert every.next(after=CREATED + count * period) == CREATED + (count + 1) * period
    assert schedule_from_json(every.to_json(), anchor=CREATED) == every


def test_all_daemons_compute_the_same_whatever_their_zone() -> None:
    elsewhere = CREATED.astimezone(ZoneInfo("Asia/Tokyo"))
    assert Every(timedelta(hours=1), elsewhere) == Every(timedelta(hours=1), CREATED)
    assert Once(elsewhere) == Once(CREATED)
    tokyo = Cron("0 * * * *").next(after=elsewhere)
    assert tokyo == Cron("0 * * * *").next(after=CREATED)
    assert tokyo is not None
    assert tokyo.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "schedule", "words", "kept"),
    [
        (
            " 0  */6 * * * ",
            Cron("0 */6 * * *", "Europe/Berlin"),
            "cron 0 */6 * * * (Europe/Berlin)",
            {"cron": "0 */6 * * *", "zone": "Europe/Berlin"},
        ),
        ({"every": "10m"}, Every(timedelta(minutes=10), CREATED), "every 10m", {"every": 600.0}),
        ({"every": 90}, Every(timedelta(seconds=90), CREATED), "every 1m30s", {"every": 90.0}),
        (
            {"once": datetime(2026, 12, 1, 6)},  # noqa: DTZ001 - as TOML has it
            Once(datetime(2026, 12, 1, 5, tzinfo=UTC)),
            "once at 2026-12-01T05:00:00Z",
            {"once": "2026-12-01T05:00:00Z"},
        ),
        (
            {"once": "2026-12-01T06:00:00+05:30"},
            Once(datetime(2026, 12, 1, 0, 30, tzinfo=UTC)),
            "once at 2026-12-01T00:30:00Z",
            {"once": "2026-12-01T00:30:00Z"},
        ),
        (
            {"once": "2026-03-29 02:30"},
            Once(datetime(2026, 3, 29, 1, tzinfo=UTC)),
            "once at 2026-03-29T01:00:00Z",
            {"once": "2026-03-29T01:00:00Z"},
        ),
        (
            {"once": "2026-10-25 02:30"},
            Once(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
            "once at 2026-10-25T00:30:00Z",
            {"once": "2026-10-25T00:30:00Z"},
        ),
    ],
)
def test_what_a_file_says_is_kept_and_told(value: Any, schedule: Schedule, words: str, kept: dict[str, Any]) -> None:
    parsed = parse_schedule(value, zone="Europe/Berlin", anchor=CREATED)
    assert parsed == schedule
    assert parsed is not None
    assert isinstance(parsed, Schedule)
    assert str(parsed) == words
    assert parsed.to_json() == kept
    assert schedule_from_json(kept, anchor=CREATED) == schedule


def test_no_schedule_is_none() -> None:
    assert parse_schedule(None) is None
    assert schedule_from_json(None, anchor=NOON) is None


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("0 6 * * 1-5", "write names: 'mon-fri'"),
        ("0 6 * * 0", "write names: 'sun'"),
        ("0 6 * * 7,6", "write names: 'sun,sat'"),
        ("0 6 * * mon,2", "such as 'mon-fri'"),
        ("0 6 * * 5#2", "write names: 'fri#2'"),
        ("0 6 * * 5L", "write names: 'friL'"),
        ("0 6 * * */2", "write names: 'sun,tue,thu,sat'"),
        ("0 6 * * 1-5", "numbers mean different days in different schedulers"),
        ("@daily", "write '0 0 \\* \\* \\*'"),
        ("@weekly", "write '0 0 \\* \\* sun'"),
        ("@every 5m", 'every = "10m"'),
        ("@reboot", "write five fields"),
        ("*/10 * * * * *", 'six fields.* every = "10s"'),
        ("0 0 * *", "4 fields; write the five"),
        ("", "0 fields; write the five"),
        ("daily", "1 field; write the five"),
        ("0 0 30 2 *", "never matches"),
        ("0 0 31 4,6,9,11 *", "never matches"),
        ("60 * * * *", "'60' is no minute; it takes 0 to 59"),
        ("* 24 * * *", "'24' is no hour; it takes 0 to 23"),
        ("* * 0 * *", "'0' is no day of month; it takes 1 to 31"),
        ("* * * 13 *", "'13' is no month; it takes 1 to 12 or jan"),
        ("* * * * monday", "'monday' is no weekday; it takes mon to sun"),
        ("* * ? * mon", "write \\* for any day"),
        ("*/0 * * * *", "'\\*/0' is no minute"),
        ("30-10 * * * *", "is no minute"),
        ("1" * 450 + " * * * *", "is no minute"),
        ("1" * 5000 + " * * * *", "longer than 500 characters"),
        ("0 6 * * *\x00", "is no weekday"),
        ({"evry": "10m"}, "did you mean 'every'"),
        ({"cron": "0 * * * *"}, "write five cron fields"),
        ({"every": "10m", "once": "2026-12-01T06:00"}, "has 2 keys"),
        ({}, "has 0 keys"),
        ({"every": "0.5s"}, "at least 1s"),
        ({"every": 0}, "at least 1s"),
        ({"every": "-5m"}, "schedule every: '-5m' is out of range"),
        ({"every": "often"}, "schedule every: 'often' is not a duration"),
        ({"once": "tomorrow"}, "is no date and time"),
        ({"once": "2026-12-01"}, "write such as 2026-12-01T06:00:00"),
        ({"once": date(2026, 12, 1)}, "write such as 2026-12-01T06:00:00"),
        ({"once": 5}, "5 is no date and time"),
        (600, "600 is no schedule; write five cron fields"),
        (["0 * * * *"], "is no schedule"),
    ],
)
def test_what_is_wrong_is_told_with_what_to_write(value: Any, told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        parse_schedule(value)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("Europe/Berln", "did you mean 'Europe/Berlin'"),
        ("europe/berlin", "did you mean 'Europe/Berlin'"),
        ("Berlin", "did you mean 'Europe/Berlin'"),
        ("New York", "did you mean 'America/New_York'"),
        ("utc", "did you mean 'UTC'"),
        ("../UTC", "no such time zone"),
        ("", "write a name such as"),
        (5, "zone 5: there is no such time zone"),
    ],
)
def test_an_unknown_zone_is_told_whatever_the_schedule(zone: Any, told: str) -> None:
    for value in ("0 6 * * *", {"every": 60}, None):
        with pytest.raises(BadInputError, match=told):
            parse_schedule(value, zone=zone)


def test_a_moment_without_a_zone_is_refused() -> None:
    naive = datetime(2026, 11, 30)  # noqa: DTZ001 - on purpose
    for ask in (
        lambda: Cron("* * * * *").next(after=naive),
        lambda: Every(timedelta(minutes=1), naive),
        lambda: Once(naive),
    ):
        with pytest.raises(BadInputError, match="no time zone"):
            ask()


def test_what_the_document_shows_is_taken() -> None:
    document = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text(encoding="utf-8")
    table = document.partition("| `schedule =` |")[2].partition("\n\n")[0]
    forms = re.findall(r"^\| `([\"{].*?)` \|", table, re.MULTILINE)
    schedules = [parse_schedule(tomllib.loads(f"schedule = {form}")["schedule"]) for form in forms]
    assert {type(schedule) for schedule in schedules} == {Cron, Every, Once}


@pytest.mark.parametrize("moment", ["9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"])
def test_a_moment_that_is_no_moment_in_utc_is_refused(moment: str) -> None:
    with pytest.raises(BadInputError, match="out of range"):
        parse_schedule({"once": moment})
