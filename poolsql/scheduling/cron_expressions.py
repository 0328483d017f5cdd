"""Cron expressions as poolsql takes them: five fields, weekdays by name; all else is refused with what to write.

Schedulers agree on four of the five fields. In the fifth, 1 is Monday for cron and Tuesday for others, so that only
names say the same everywhere.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache

from cronsim import CronSim, CronSimError

from poolsql.errors import BadInputError

LONGEST_EXPRESSION = 500
"""Characters."""

_FIELDS = ("minute", "hour", "day of month", "month", "weekday")
_TAKES = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of month": "1 to 31, or L for the last",
    "month": "1 to 12 or jan to dec",
    "weekday": "mon to sun, mon#1 for a month's first Monday, friL for its last Friday",
}
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_DAY = "|".join(_DAYS)
_DAY_RANGE = re.compile(rf"({_DAY})-({_DAY})(?:/([1-9]))?", re.ASCII)
_LAST_DAY = re.compile(rf"({_DAY})L", re.ASCII)
_NUMBERED_RANGE = re.compile(r"([0-7])(?:-([0-7]))?(L|#[1-5])?", re.ASCII)
_NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * sun",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# Years from here on hold every weekday of a 29 February within the fifty that cronsim looks ahead.
_SOME_DAY = datetime(2000, 1, 1)  # noqa: DTZ001 - a local time


def checked_expression(expression: str) -> str:
    """A cron expression with single blanks.

    Raises:
        BadInputError: It has another form or never matches; the message says what to write.
    """
    text = " ".join(expression.split())
    if len(text) > LONGEST_EXPRESSION:
        raise BadInputError(f"schedule {text[:50] + '…'!r}: longer than {LONGEST_EXPRESSION} characters")
    fields = text.split(" ") if text else []
    if text.startswith("@"):
        raise BadInputError(f"schedule {text!r}: nicknames are not taken; {_instead_of_nickname(text.lower())}")
    if len(fields) == len(_FIELDS) + 1:
        raise BadInputError(
            f"schedule {text!r}: six fields; cron has five ({', '.join(_FIELDS)}) and no seconds; "
            'for less than a minute write { every = "10s" }'
        )
    if len(fields) != len(_FIELDS):
        raise BadInputError(
            f"schedule {text!r}: {len(fields)} field{'' if len(fields) == 1 else 's'}; write the five of cron "
            f"({', '.join(_FIELDS)}), such as '0 */6 * * *', or {{ every = \"6h\" }}"
        )
    _check_weekday(text, fields[-1].upper())
    for position, (name, field) in enumerate(zip(_FIELDS, fields, strict=True)):
        _check_field(text, name, field, position)
    try:
        first = next(matches(text, _SOME_DAY), None)
    except CronSimError:
        first = None
    if first is None:
        raise BadInputError(
            f"schedule {text!r}: never matches, since no such day exists; change its day of month or its month"
        )
    return text


def matches(expression: str, start: datetime, *, backwards: bool = False) -> Iterator[datetime]:
    """The local times after `start` (backwards: before it) that a checked expression matches, one after the other.

    They are naive: changes of clocks are not looked at.
    """
    # The end of all years is the end of the matches.
    with contextlib.suppress(OverflowError):
        yield from CronSim(_for_cronsim(expression), start, reverse=backwards)


def follows_the_clock(expression: str) -> bool:
    """Whether an expression matches by the clock as it runs, rather than at fixed local times.

    As in Debian's cron: its minute or hour starts with ``*``. A list of all hours means the same as ``*``.
    """
    minute, hour, *_ = expression.split(" ")
    return minute.startswith("*") or hour.startswith("*") or len(_hours(hour)) == 24


@lru_cache(maxsize=1000)
def _hours(field: str) -> frozenset[int]:
    return frozenset(CronSim(f"0 {field} * * *", _SOME_DAY).hours)


@lru_cache(maxsize=1000)
def _for_cronsim(expression: str) -> str:
    """The same in cronsim's words, which know no range of weekdays over a Saturday and no ``friL``."""
    *others, weekday = expression.upper().split(" ")
    weekday = _DAY_RANGE.sub(lambda found: ",".join(_days_between(*found.groups())), weekday)
    weekday = _LAST_DAY.sub(lambda found: f"{_DAYS.index(found[1])}L", weekday)
    return " ".join([*others, weekday])


def _days_between(first: str, last: str, step: str | None) -> tuple[str, ...]:
    start = _DAYS.index(first)
    count = (_DAYS.index(last) - start) % 7 + 1
    return tuple(_DAYS[(start + day) % 7] for day in range(0, count, int(step or 1)))


def _check_field(text: str, name: str, field: str, position: int) -> None:
    alone = ["*"] * len(_FIELDS)
    alone[position] = field
    try:
        CronSim(_for_cronsim(" ".join(alone)), _SOME_DAY)
    except (CronSimError, ValueError):
        forms = f"it takes {_TAKES[name]}, and lists, ranges and steps of them"
        remedy = "write * for any day" if field == "?" else forms
        raise BadInputError(f"schedule {text!r}: {field!r} is no {name}; {remedy}") from None


def _check_weekday(text: str, field: str) -> None:
    for part in field.split(","):
        # The number of a step or of a week in the month is no day.
        if not re.search(r"[0-9]", re.sub(rf"({_DAY})(#[1-5]$|/[1-9]$)", "", part)):
            continue
        raise BadInputError(
            f"schedule {text!r}: weekday {field.lower()!r}: numbers mean different days in different schedulers; "
            f"write names: {_named(field)}"
        )


def _named(field: str) -> str:
    """A field of weekdays in names, with numbers read as cron does: 0 and 7 are Sunday."""
    if field.startswith("*/"):
        return repr(",".join(_days_between("SUN", "SAT", field[2:] if field[2:] in "1234567" else None)).lower())

    def renamed(found: re.Match[str]) -> str:
        first, last, rest = found.groups()
        return "-".join(_DAYS[int(day) % 7].lower() for day in (first, last) if day is not None) + (rest or "")

    parts = [_NUMBERED_RANGE.fullmatch(part) for part in field.split(",")]
    named = [renamed(found) for found in parts if found is not None]
    return repr(",".join(named)) if len(named) == len(parts) else "such as 'mon-fri' or 'sat,sun'"


def _instead_of_nickname(nickname: str) -> str:
    if nickname in _NICKNAMES:
        return f"write {_NICKNAMES[nickname]!r}"
    if nickname.startswith("@every"):
        return 'write { every = "10m" }'
    return "write five fields such as '0 */6 * * *'"
