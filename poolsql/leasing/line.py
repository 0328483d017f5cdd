"""The line of checkouts that wait: what every statement that serves it agrees on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from poolsql.errors import BadInputError

TICKET_LIFE = timedelta(seconds=3)
"""For how long a ticket is good after its worker was last seen; three times as long as it takes it to look."""

CLAIM_TTL = timedelta(seconds=2)
"""For how long a lease that was handed to a waiting checkout stays its own without an answer."""

PRIORITY_STEP = timedelta(seconds=10)
"""By how much earlier one step of priority makes a checkout arrive. It bounds how long anybody can be overtaken."""

HIGHEST_PRIORITY = 100

LOWEST_PRIORITY = -HIGHEST_PRIORITY

LINE: Mapping[str, Any] = {"ticket_life": TICKET_LIFE, "claim_ttl": CLAIM_TTL}
"""Parameters of the statements that serve the line: served.sql, and all that end leases (ended.sql)."""


def checked_priority(priority: int) -> int:
    """A priority that bounds how long others are overtaken.

    Raises:
        BadInputError: It is no whole number from `LOWEST_PRIORITY` to `HIGHEST_PRIORITY`.
    """
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise BadInputError(f"priority: {priority!r} is no whole number")
    if not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise BadInputError(f"priority: {priority} is not from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}")
    return priority
