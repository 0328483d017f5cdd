from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from poolsql.durations import Duration, format_duration, format_moment, parse_duration
from poolsql.errors import BadInputError


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("90s", 90),
        ("2m", 120),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("1 h 30 m", 5400),
        ("1d", 86400),
        ("250ms", 0.25),
        ("5m5ms", 300.005),
        ("1.5h", 5400),
        ("90", 90),
        ("0.5", 0.5),
        ("0", 0),
        (" 90S\n", 90),
        ("36500d", 3153600000),
        (90, 90),
        (0.25, 0.25),
        (timedelta(minutes=2), 120),
        (timedelta(0), 0),
    ],
)
def test_what_people_write(written: Duration, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written",
    [
        *(
            "",
            " ",
            "s",
            "soon",
            "90 apples",
            "1h30",
            "h1",
            "1hh",
            "1,5h",
            ".5s",
            "5.s",
            "1.2.3s",
            "1e3",
            "1_000",
            "--5",
        ),
        *("--5", "nan", "inf", "infinity", "0x10", "90s;", "1:30", "٣s", "1w", "1y", "1M1", "s90"),
        *(None, True, False, [], {}, ["90s"], b"90s", Decimal(90), 1j, object()),
    ],
)
def test_what_is_no_duration(written: Duration) -> None:
    with pytest.raises(BadInputError, match=r"^ttl: .* is not a duration; write seconds or text such as '90s' or '2m'"):
        parse_duration(written, name="ttl")


@pytest.mark.parametrize(
    "written",
    [
        *("-1", "-1s", "- 1h", "36501d", "9" * 400, "9" * 400 + "d"),
        *(-1, -0.001, 3153600001, 10**400, float("inf"), float("-inf"), float("nan")),
        *(timedelta(microseconds=-1), timedelta.max),
    ],
)
def test_what_is_out_of_range(written: Duration) -> None:
    with pytest.raises(BadInputError, match=r"^ttl: .* is out of range; it must be between 0 and 100 years") as caught:
        parse_duration(written, name="ttl")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0s"),
        (0.000001, "0.001ms"),
        (0.0005, "0.5ms"),
        (0.001, "0.001s"),
        (0.25, "0.25s"),
        (1.5, "1.5s"),
        (59.94, "59.9s"),
        (59.96, "1m"),
        (60, "1m"),
        (61, "1m1s"),
        (90, "1m30s"),
        (3599.6, "1h"),
        (3600, "1h"),
        (5400, "1h30m"),
        (5431, "1h31m"),
        (86399, "1d"),
        (86400, "1d"),
        (90000, "1d1h"),
        (2 * 86400 + 23 * 3600 + 59 * 60, "3d"),
        (36500 * 86400, "36500d"),
    ],
)
def test_how_they_are_shown(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written
    assert format_duration(timedelta(seconds=seconds)) == written


@pytest.mark.parametrize("unit", [0.000001, 0.001, 1, 60, 3600, 86400])
@pytest.mark.parametrize("count", [*range(1, 60), 73, 100, 365, 999])
def test_what_is_shown_is_read_as_nearly_the_same(count: int, unit: float) -> None:
    value = timedelta(seconds=count * unit)
    shown = parse_duration(format_duration(value))
    # Two units at most: what is left out is less than half of the smaller one, or of the third digit.
    assert abs(shown - value) <= value / 100
    assert format_duration(shown) == format_duration(value)


def test_moments_are_told_in_utc() -> None:
    east = timezone(timedelta(hours=5, minutes=30))
    assert format_moment(datetime(2026, 12, 1, 6, 0, tzinfo=east)) == "2026-12-01T00:30:00Z"
    assert format_moment(datetime(2026, 12, 1, 6, 0, 0, 250, tzinfo=UTC)) == "2026-12-01T06:00:00.000250Z"
