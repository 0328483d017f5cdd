from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from poolsql.retry_after import LONGEST_WAIT, parse_retry_after

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 120 ", 120),
        ("0000000000000007", 7),
        ("86400000", 86_400_000),
        ("120, 3600", 3600),
        ("Mon, 30 Nov 2026 12:01:30 GMT", 90),
        ("Monday, 30-Nov-26 12:01:30 GMT", 90),
        ("Mon Nov 30 12:01:30 2026", 90),
        ("Tue Dec  1 12:00:00 2026", 86_400),
        ("Wed, 30 Nov 2016 12:00:00 GMT", 0),
    ],
)
def test_every_form_that_http_knows_counts_in_full(value: str, seconds: int) -> None:
    assert parse_retry_after(value, now=NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", "-1", "1.5", "12s", "1e3", "٣", "120,", ",", "Mon, 99 Nov 2026 12:00:00 GMT", "0x10", "120\x00"],
)
def test_what_http_does_not_know_is_none(value: str | None) -> None:
    assert parse_retry_after(value, now=NOW) is None


@pytest.mark.parametrize("value", ["9" * 10, "9" * 30, "9" * 10_000, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_waits_beyond_any_timestamp_become_the_longest_one(value: str) -> None:
    assert parse_retry_after(value, now=NOW) == LONGEST_WAIT
    assert (NOW + LONGEST_WAIT).year == 2126


def test_dates_are_measured_by_the_clock_of_the_site() -> None:
    wait = parse_retry_after("Fri, 01 Jan 2021 00:01:00 GMT", date="Fri, 01 Jan 2021 00:00:00 GMT", now=NOW)
    assert wait == timedelta(seconds=60)


def test_an_unreadable_date_header_falls_back_to_now() -> None:
    assert parse_retry_after("Mon, 30 Nov 2026 12:01:30 GMT", date="today", now=NOW) == timedelta(seconds=90)


def test_without_now_the_clock_of_this_machine_counts() -> None:
    assert parse_retry_after("Fri, 01 Jan 2021 00:00:00 GMT") == timedelta(0)


def test_two_digit_years_are_at_most_fifty_years_ahead() -> None:
    ahead = parse_retry_after("Friday, 30-Nov-70 12:00:00 GMT", now=NOW)
    assert ahead == datetime(2070, 11, 30, 12, tzinfo=UTC) - NOW
    assert parse_retry_after("Wednesday, 30-Nov-77 12:00:00 GMT", now=NOW) == timedelta(0)


def test_a_date_in_another_zone_is_converted() -> None:
    assert parse_retry_after("Mon, 30 Nov 2026 14:00:00 +0100", now=NOW) == timedelta(hours=1)
