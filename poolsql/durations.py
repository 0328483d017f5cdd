"""Durations as people write them: a timedelta, seconds, or text such as ``90s``, ``2m``, ``1h30m``."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from poolsql.errors import BadInputError

Duration = timedelta | float | int | str

_SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
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
    if isinstance(value, timedelta):
        return _checked(value.total_seconds(), value, name)
    if isinstance(value, bool):
        raise BadInputError(f"{name}: {value!r} is not a duration; write seconds or text such as '90s' or '2m'")
    if isinstance(value, int | float):
        return _checked(float(value), value, name)
    text = value.strip().lower()
    number = _number(text)
    if number is not None:
        return _checked(number, value, name)
    if not text or _PART.sub("", text).strip():
        raise BadInputError(f"{name}: {value!r} is not a duration; write seconds or text such as '90s' or '2m'")
    return _checked(sum(float(n) * _SECONDS_PER_UNIT[unit] for n, unit in _PART.findall(text)), value, name)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _checked(seconds: float, original: object, name: str) -> timedelta:
    if not math.isfinite(seconds) or seconds < 0 or seconds > _LONGEST.total_seconds():
        raise BadInputError(f"{name}: {original!r} is out of range; it must be between 0 and 100 years")
    return timedelta(seconds=seconds)


def format_duration(value: timedelta | float) -> str:
    """Write a duration the way `parse_duration` reads it, in the two largest units: ``1h30m``, ``2m``, ``1.5s``."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if seconds < 60:
        return f"{seconds:.3g}s"
    whole = round(seconds)
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])
