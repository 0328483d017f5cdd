"""Where a checkout found its profile, for the next one that asks for the same: it need not look at what lies before.

What lies before is profiles that it would pass over once more, and entries of the index whose rows are long dead but
cannot be cleared: one open transaction anywhere keeps all of them, and a checkout would read a hundred more of them
every tenth of a second. A floor only narrows what is looked at. What comes free below it (a row that was locked, a
cooldown on a host that is over) is found when the floor is dropped: with the first answer that is empty, and once a
second.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from datetime import datetime

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database

FLOOR_SECONDS = 1.0
"""After which a floor is dropped. By so much a profile can be passed over that has been available for longer."""

MOST = 1000
"""Floors that one process keeps; then it begins anew."""


@dataclass(frozen=True, slots=True)
class _Floor:
    offered_at: datetime
    drop_at: float


@dataclass(slots=True)
class Floors:
    """The floors of one database, by what is asked for."""

    _floors: dict[int, _Floor] = field(default_factory=dict)

    def get(self, criteria: int) -> datetime | None:
        """From which moment of becoming available on it is enough to look; None: look at everything."""
        floor = self._floors.get(criteria)
        if floor is None:
            return None
        if floor.drop_at <= elapsed_clock():
            self.drop(criteria)
            return None
        return floor.offered_at

    def raise_to(self, criteria: int, offered_at: datetime) -> None:
        """A checkout found a profile that has been available since then, and none before it."""
        known = self._floors.get(criteria)
        if known is None and len(self._floors) >= MOST:
            self._floors.clear()
        drop_at = known.drop_at if known is not None else elapsed_clock() + FLOOR_SECONDS
        self._floors[criteria] = _Floor(offered_at, drop_at)

    def drop(self, criteria: int) -> None:
        """Look at everything again."""
        self._floors.pop(criteria, None)


def floors_of(database: Database) -> Floors:
    """The floors of a database in this process."""
    found = _floors.get(database)
    if found is None:
        found = _floors.setdefault(database, Floors())
    return found


_floors: weakref.WeakKeyDictionary[Database, Floors] = weakref.WeakKeyDictionary()
