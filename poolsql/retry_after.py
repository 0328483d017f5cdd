"""The Retry-After header (RFC 9110, section 10.2.3): how long a site asks us to stay away."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

LONGEST_WAIT = timedelta(days=36500)
"""No cap on what a site may ask for, only the largest wait that still fits a timestamp in Python and Postgres."""

# A header that was sent twice reaches us as one line with a comma.
_SECONDS = re.compile(r"[0-9]+(?:[ \t]*,[ \t]*[0-9]+)*")
_TWO_DIGIT_YEAR = re.compile(r"[A-Za-z]+,[ \t]*[0-9]{1,2}-[A-Za-z]{3}-[0-9]{2}[ \t]")


def parse_retry_after(value: str | None, *, date: str | None = None, now: datetime | None = None) -> timedelta | None:
    """How long to wait from the moment of the answer, in full.

    Args:
        value: The header: seconds, or a date in one of the three forms that HTTP knows (IMF-fixdate, RFC 850,
            asctime). Of several numbers the longest counts.
        date: The answer's own ``Date`` header. A date in `value` is measured against it, so that a site whose
            clock is wrong still gets the wait that it meant.
        now: What to measure against when `date` is missing or unreadable; default: this machine's clock. Must have
            a time zone.

    Returns:
        None when there is no header or it is in no form that HTTP knows; zero when the date has passed.
    """
    text = (value or "").strip()
    if _SECONDS.fullmatch(text):
        return max(_seconds(number.strip()) for number in text.split(","))
    measured_from = _http_date(date or "", now) or now or datetime.now(UTC)
    until = _http_date(text, measured_from)
    if until is None:
        return None
    return min(max(until - measured_from, timedelta(0)), LONGEST_WAIT)


def _seconds(digits: str) -> timedelta:
    # The length is looked at first: int() refuses over 4,300 digits, and timedelta overflows long before.
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(int(LONGEST_WAIT.total_seconds()))):
        return LONGEST_WAIT
    return min(timedelta(seconds=int(significant)), LONGEST_WAIT)


def _http_date(text: str, now: datetime | None) -> datetime | None:
    """A date in any of HTTP's three forms, all of which are in GMT; None when it is none of them."""
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    if _TWO_DIGIT_YEAR.match(text):
        return _in_nearest_century(moment, now or datetime.now(UTC))
    return moment


def _in_nearest_century(moment: datetime, now: datetime) -> datetime | None:
    """RFC 9110: two digits mean the latest such year that is not more than 50 years ahead."""
    year = now.year // 100 * 100 + 100 + moment.year % 100
    while year > now.year + 50:
        year -= 100
    try:
        return moment.replace(year=year)
    except ValueError:  # 29 February of a year that has none
        return None
