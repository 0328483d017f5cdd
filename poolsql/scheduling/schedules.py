"""When a job is due: cron fields in a time zone, an interval, or once.

Schedules are pure: the same schedule names the same instants wherever and whenever it is asked, so that any daemon
may fire a job. What changes of clocks do to cron schedules:

- A job at fixed local times (neither its minute nor its hour starts with ``*``) runs once when its time occurs twice,
  at the first of the two, and right after the gap when the change skips its time.
- A job that follows the clock (``0 * * * *``, ``*/15 * * * *``) runs whenever the clock shows a time that matches: in
  both of two equal hours, and not in a gap.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from poolsql.durations import format_duration, format_moment, parse_duration
from poolsql.errors import BadInputError
from poolsql.scheduling.cron_expressions import checked_expression, follows_the_clock, matches
from poolsql.scheduling.zones import (
    earliest_wall_clock,
    end_of_gap,
    find_zone,
    first_instant_of,
    instants_of,
    latest_wall_clock,
)
from poolsql.text import did_you_mean

SHORTEST_PERIOD = timedelta(seconds=1)
"""Of an interval."""

_SECOND = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS = 'write five cron fields, { every = "10m" } or { once = 2026-12-01T06:00:00Z }'


@runtime_checkable
class Schedule(Protocol):
    """The instants at which a job is due, as aware datetimes in UTC."""

    def due(self, *, after: datetime, until: datetime) -> Iterator[datetime]:
        """All instants later than `after` and not later than `until`, in ascending order."""
        ...

    def latest(self, *, after: datetime, until: datetime) -> datetime | None:
        """The last of these instants; as fast for years as for hours."""
        ...

    def next(self, *, after: datetime) -> datetime | None:
        """The first instant later than `after`; None: there is none."""
        ...

    def to_json(self) -> dict[str, Any]:
        """What `schedule_from_json` reads."""
        ...

    def __str__(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Cron:
    """Five cron fields, read by the clocks of a time zone.

    Raises:
        BadInputError: The expression or the zone is wrong.
    """

    expression: str
    """With single blanks."""
    zone: str = "UTC"

    def __post_init__(self) -> None:
        find_zone(self.zone)
        object.__setattr__(self, "expression", checked_expression(self.expression))

    def due(self, *, after: datetime, until: datetime) -> Iterator[datetime]:
        """As `Schedule.due`."""
        after, until = _in_utc(after), _in_utc(until)
        given: datetime | None = None
        for instant in self._ascending(after):
            if instant > until:
                return
            # Several times that one change of clocks skips are due together, at its end.
            if instant > after and instant != given:
                yield instant
                given = instant

    def latest(self, *, after: datetime, until: datetime) -> datetime | None:
        """As `Schedule.latest`."""
        after, until = _in_utc(after), _in_utc(until)
        found: datetime | None = None
        zone = find_zone(self.zone)
        instants_at = self._instants_at()
        # A second more, since cronsim gives what is earlier than its start.
        for wall in matches(self.expression, latest_wall_clock(until, zone) + 2 * _SECOND, backwards=True):
            instants = instants_at(wall)
            past = [instant for instant in instants if instant <= until]
            if past and (found is None or past[-1] > found):
                found = past[-1]
            # An earlier local time has no later instant than the last one of this local time.
            last = instants[-1] if instants else end_of_gap(wall, zone)
            if last <= (found or after):
                break
        return found if found is not None and found > after else None

    def next(self, *, after: datetime) -> datetime | None:
        """As `Schedule.next`."""
        after = _in_utc(after)
        return next((instant for instant in self._ascending(after) if instant > after), None)

    def to_json(self) -> dict[str, Any]:
        """As `Schedule.to_json`."""
        return {"cron": self.expression, "zone": self.zone}

    def __str__(self) -> str:
        return f"cron {self.expression} ({self.zone})"

    def _ascending(self, after: datetime) -> Iterator[datetime]:
        """Instants in ascending order, from before `after` on; some may come twice."""
        zone = find_zone(self.zone)
        instants_at = self._instants_at()
        # Of a local time that occurs twice the second instant comes later than the first of the next local times.
        waiting: list[datetime] = []
        for wall in matches(self.expression, earliest_wall_clock(after, zone) - _SECOND):
            first, *second = instants_at(wall) or (None,)
            if first is None:
                continue
            while waiting and waiting[0] < first:
                yield heapq.heappop(waiting)
            yield first
            for instant in second:
                heapq.heappush(waiting, instant)
        yield from sorted(waiting)

    def _instants_at(self) -> Callable[[datetime], tuple[datetime, ...]]:
        zone = find_zone(self.zone)
        if follows_the_clock(self.expression):
            return lambda wall: instants_of(wall, zone)
        return lambda wall: (first_instant_of(wall, zone),)


@dataclass(frozen=True, slots=True)
class Every:
    """An interval: ``anchor + k * period`` for k = 1, 2, …, counted in whole microseconds.

    Raises:
        BadInputError: The period is shorter than a second, or the anchor has no time zone.
    """

    period: timedelta
    anchor: datetime
    """The job's creation."""

    def __post_init__(self) -> None:
        if self.period < SHORTEST_PERIOD:
            raise BadInputError(
                f"schedule every {format_duration(self.period)}: write a period of at least "
                f"{format_duration(SHORTEST_PERIOD)}"
            )
        object.__setattr__(self, "anchor", _in_utc(self.anchor))

    def due(self, *, after: datetime, until: datetime) -> Iterator[datetime]:
        """As `Schedule.due`."""
        instant, until = self.next(after=after), _in_utc(until)
        while instant <= until:
            yield instant
            instant += self.period

    def latest(self, *, after: datetime, until: datetime) -> datetime | None:
        """As `Schedule.latest`."""
        count = (_in_utc(until) - self.anchor) // self.period
        instant = self.anchor + count * self.period
        return instant if count >= 1 and instant > _in_utc(after) else None

    def next(self, *, after: datetime) -> datetime:
        """As `Schedule.next`; there always is one."""
        return self.anchor + max(1, (_in_utc(after) - self.anchor) // self.period + 1) * self.period

    def to_json(self) -> dict[str, Any]:
        """As `Schedule.to_json`; the anchor is kept by the job."""
        return {"every": self.period.total_seconds()}

    def __str__(self) -> str:
        return f"every {format_duration(self.period)}"


@dataclass(frozen=True, slots=True)
class Once:
    """A single instant.

    Raises:
        BadInputError: It has no time zone.
    """

    at: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", _in_utc(self.at))

    def due(self, *, after: datetime, until: datetime) -> Iterator[datetime]:
        """As `Schedule.due`."""
        if _in_utc(after) < self.at <= _in_utc(until):
            yield self.at

    def latest(self, *, after: datetime, until: datetime) -> datetime | None:
        """As `Schedule.latest`."""
        return next(self.due(after=after, until=until), None)

    def next(self, *, after: datetime) -> datetime | None:
        """As `Schedule.next`."""
        return self.at if self.at > _in_utc(after) else None

    def to_json(self) -> dict[str, Any]:
        """As `Schedule.to_json`."""
        return {"once": format_moment(self.at)}

    def __str__(self) -> str:
        return f"once at {format_moment(self.at)}"


def parse_schedule(
    value: str | Mapping[str, Any] | None, *, zone: str = "UTC", anchor: datetime | None = None
) -> Schedule | None:
    """A schedule as ``fleet.toml`` has it.

    Args:
        value: Five cron fields, ``{"every": duration}``, ``{"once": datetime or ISO text}``, or None for a job that
            only runs when it is told to.
        zone: By whose clocks cron fields, and a `once` without an offset, are read.
        anchor: From where an interval counts: the job's creation. Without one it counts from 1970 on, which will do
            for checking and writing a schedule.

    Raises:
        BadInputError: It is none of these, or the zone is unknown.
    """
    find_zone(zone)
    match value:
        case None:
            return None
        case str():
            return Cron(value, zone)
        case Mapping() if len(value) == 1:
            [(key, given)] = value.items()
            if key == "every":
                return Every(parse_duration(given, name="schedule every"), anchor or _EPOCH)
            if key == "once":
                return Once(_moment(given, zone))
            remedy = did_you_mean(str(key), ("every", "once")) or f"; {_FORMS}"
            raise BadInputError(f"schedule: {key!r} is no kind of schedule{remedy}")
        case Mapping():
            raise BadInputError(f"schedule: {dict(value)!r} has {len(value)} keys and must have one; {_FORMS}")
        case _:
            raise BadInputError(f"schedule: {value!r} is no schedule; {_FORMS}")


def schedule_from_json(data: Mapping[str, Any] | None, *, anchor: datetime) -> Schedule | None:
    """A schedule as `Schedule.to_json` wrote it.

    Args:
        data: What was written; None for a job without a schedule.
        anchor: From where an interval counts: the job's creation.

    Raises:
        BadInputError: It was not written so.
    """
    if data is not None and "cron" in data:
        return parse_schedule(data["cron"], zone=data.get("zone", "UTC"))
    return parse_schedule(data, anchor=anchor)


def _moment(given: object, zone: str) -> datetime:
    if isinstance(given, str):
        try:
            parsed = datetime.fromisoformat(given.strip())
        except ValueError:
            raise BadInputError(
                f"schedule once: {given!r} is no date and time; write such as '2026-12-01T06:00:00Z'"
            ) from None
        # A date alone is read as midnight.
        given = parsed if any(mark in given.strip() for mark in ":T ") else parsed.date()
    if isinstance(given, datetime):
        return given if given.tzinfo is not None else first_instant_of(given, find_zone(zone))
    if isinstance(given, date):
        raise BadInputError(f"schedule once: {given} is a date without a time; write such as {given}T06:00:00")
    raise BadInputError(f"schedule once: {given!r} is no date and time; write such as 2026-12-01T06:00:00Z")


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise BadInputError(f"{moment.isoformat()}: has no time zone; give an aware datetime")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise BadInputError(f"{moment.isoformat()}: is out of range") from None
