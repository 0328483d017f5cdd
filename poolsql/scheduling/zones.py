"""Time zones by name, and which instants a clock on the wall shows a local time at.

A local time is shown once on most days. It is shown twice when clocks are set back over it, and never when they are
set forward over it: the *gap*.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from poolsql.errors import BadInputError

_SECOND = timedelta(seconds=1)

_LONGER_THAN_ANY_CHANGE = timedelta(hours=26)
"""Clocks have been changed by a whole day where a country moved over the date line."""


def find_zone(name: str) -> ZoneInfo:
    """The time zone of a name of the IANA database, such as ``Europe/Berlin``; capitals matter.

    Raises:
        BadInputError: There is no zone of that name.
    """
    if name not in _names():
        raise BadInputError(f"zone {name!r}: there is no such time zone; {_suggestion(name)}")
    return ZoneInfo(name)


def wall_clock(instant: datetime, zone: ZoneInfo) -> datetime:
    """What a clock on the wall shows at an instant, as a naive datetime."""
    return instant.astimezone(zone).replace(tzinfo=None)


def instants_of(wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    """The instants, in UTC, at which the clocks of a zone show a local time: none in a gap, otherwise one or two."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if wall_clock(first, zone) != wall:
        return ()
    second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return (first,) if first == second else (first, second)


def end_of_gap(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant, in UTC, of the change of clocks that skips a local time.

    Args:
        wall: A local time for which `instants_of` finds none.
        zone: Where it is skipped.
    """
    # Inside a gap, fold says by which of the two offsets the time is read: the old one leads to an instant after the
    # change, the new one to an instant before it. The change is in between, on a whole second.
    before = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    after = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    offset_before = before.astimezone(zone).utcoffset()
    while after - before > _SECOND:
        middle = before + (after - before) // 2
        if middle.astimezone(zone).utcoffset() == offset_before:
            before = middle
        else:
            after = middle
    return after.replace(microsecond=0)


def first_instant_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant, in UTC, for what is due once at a local time: its first, or the end of the gap that skips it."""
    instants = instants_of(wall, zone)
    return instants[0] if instants else end_of_gap(wall, zone)


def earliest_wall_clock(after: datetime, zone: ZoneInfo) -> datetime:
    """The earliest local time that is shown at or after an instant: earlier than now, if clocks are set back soon."""
    shown = wall_clock(after, zone)
    later = wall_clock(after + _LONGER_THAN_ANY_CHANGE, zone) - _LONGER_THAN_ANY_CHANGE
    return min(shown, later)


def latest_wall_clock(until: datetime, zone: ZoneInfo) -> datetime:
    """The latest local time that is shown at or before an instant: later than now, if clocks were just set back."""
    shown = wall_clock(until, zone)
    earlier = wall_clock(until - _LONGER_THAN_ANY_CHANGE, zone) + _LONGER_THAN_ANY_CHANGE
    return max(shown, earlier)


@cache
def _names() -> frozenset[str]:
    return frozenset(available_timezones())


def _suggestion(name: object) -> str:
    wanted = str(name).strip().lower().replace(" ", "_")
    spelled = {known.lower(): known for known in sorted(_names(), reverse=True)}
    # People know the city, and not on which side of the slash it stands.
    cities = {known.lower().rsplit("/", 1)[-1]: known for known in sorted(_names(), reverse=True) if "/" in known}
    for names in (spelled, cities):
        if wanted in names:
            return f"did you mean {names[wanted]!r}?"
    for names in (spelled, cities):
        alike = get_close_matches(wanted, names, n=1, cutoff=0.75)
        if alike:
            return f"did you mean {names[alike[0]]!r}?"
    return "write a name such as 'UTC' or 'Europe/Berlin'"
