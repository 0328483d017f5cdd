"""Which of the asked tags so few profiles carry that it is quicker to look through those than through a whole pool.

Either way the same profile is found; only the time differs (measured: 0.5 ms against 20 ms for one profile in a
thousand of 20,000).
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.statements import Statement

COUNT_TAGS = Statement.load("poolsql.leasing", "count_tags")

FEW = 500
"""Profiles with a tag; more are looked through in the order of the pool, where one of them soon comes."""

COUNT_AGAIN_AFTER = 60.0
"""Seconds. Tags change seldom, and an old count costs only time."""


@dataclass(slots=True)
class _Counts:
    numbers: dict[str, int] = field(default_factory=dict)
    counted_at: float = float("-inf")


_counts: weakref.WeakKeyDictionary[Database, _Counts] = weakref.WeakKeyDictionary()


def rare_tag(database: Database, tags: Sequence[str]) -> str | None:
    """The tag with the fewest profiles, if those are few.

    Raises:
        DatabaseError: The database failed.
    """
    counts = _counts.setdefault(database, _Counts())
    now = elapsed_clock()
    if now - counts.counted_at > COUNT_AGAIN_AFTER:
        counts.numbers, counts.counted_at = {}, now
    numbers = counts.numbers
    unknown = [tag for tag in tags if tag not in numbers]
    if unknown:
        # A new one for other threads to see whole.
        rows = database.run(COUNT_TAGS, {"tags": unknown, "limit": FEW + 1})
        numbers = counts.numbers = {**numbers, **{row.tag: row.number for row in rows}}
    number, tag = min((numbers[tag], tag) for tag in tags)
    return tag if number <= FEW else None
