"""Durations as people write them (a timedelta, seconds, or text such as ``90s``, ``2m``, ``1h30m``), and moments."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

from poolsql.errors import BadInputError

Duration = timedelta | float | int | str

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_PART = re.compile(rf"({_NUMBER.pattern})\s*(ms|s|m|h|d)\s*", re.ASCII)
_LONGEST = timedelta(days=36500)


def parse_duration(value: Duration, *, name: str = "duration") -> timedelta:
    """Turn a duration as people write it into a timedelta.

    Args:
        value: A timedelta, a number of seconds, or text made of numbers with the units ms, s, m, h, d
            (``"90s"``, ``"1h30m"``); text without a unit counts as seconds.
        name: What the duration is for; the error message names it.

    Raises:
        BadInputError: The value is no duration, is negative, not finite, or longer than 100 years.
    """
    seconds = _seconds(value)
    if seconds is None:
        raise BadInputError(f"{name}: {_short(value)} is not a duration; write seconds or text such as '90s' or '2m'")
    if not 0 <= seconds <= _LONGEST.total_seconds():
        raise BadInputError(f"{name}: {_short(value)} is out of range; it must be between 0 and 100 years")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta | float) -> str:
    """Write a duration the way `parse_duration` reads it, in the two largest units: ``1h30m``, ``2m``, ``1.5s``.

    What is smaller is rounded away.
    """
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if abs(seconds) < 0.001:
        return f"{round(seconds * 1000, 3):g}ms" if seconds else "0s"
    if float(f"{seconds:.3g}") < 60:
        return f"{seconds:.3g}s"
    whole = round(seconds)
    # Rounded, not cut, to the smaller of the two units.
    smaller = 3600 if whole >= 86400 else 60 if whole >= 3600 else 1
    whole = round(whole / smaller) * smaller
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _seconds(value: object) -> float | None:
    """None: it is no duration."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _seconds_of_text(value.strip().lower())
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _seconds_of_text(text: str) -> float | None:
    negative = text.startswith("-")
    text = text.removeprefix("-").lstrip()
    if _NUMBER.fullmatch(text):
        seconds = float(text)
    elif text and not _PART.sub("", text):
        seconds = sum(float(number) * _SECONDS_PER_UNIT[unit] for number, unit in _PART.findall(text))
    else:
        return None
    return -seconds if negative else seconds


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def format_moment(moment: datetime) -> str:
    """An aware moment as ISO 8601 in UTC, such as ``2026-12-01T06:00:00Z``."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
