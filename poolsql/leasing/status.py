"""How pools stand now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import UnknownNameError

STATUS = Statement.load("poolsql.leasing", "judged", "status")

NO_REQUEST: Mapping[str, Any] = {
    "pool_id": None,
    "host": None,
    "tags": [],
    "without_tags": [],
    "machine": None,
    "profile_id": None,
}
"""The parameters of judged.sql for all pools as they stand; a statement that begins with it changes what it names."""


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """Profiles of one pool by reason."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Each profile once: available, leased, reclaiming, cooling, held, resting, breaker, pool_paused, new, paused,
    retired."""
    next_free_at: datetime | None = None
    """When the next profile that waits is expected back, by the database clock; None: none waits, or the pool is
    paused."""

    @property
    def available(self) -> int:
        """Profiles that a checkout could get now."""
        return self.counts.get("available", 0)


def pool_status(database: Database, pool_id: int) -> PoolStatus:
    """Count the profiles of a pool by reason.

    Raises:
        UnknownNameError: There is no such pool.
    """
    found = _statuses(database, pool_id).get(pool_id)
    if found is None:
        raise UnknownNameError(f"there is no pool of id {pool_id}")
    return found


def pool_statuses(database: Database) -> dict[int, PoolStatus]:
    """Count the profiles of all pools, by the pool's id."""
    return _statuses(database, None)


def _statuses(database: Database, pool_id: int | None) -> dict[int, PoolStatus]:
    counts: dict[int, dict[str, int]] = {}
    moments: dict[int, list[datetime]] = {}
    for row in database.run(STATUS, {**NO_REQUEST, "pool_id": pool_id}):
        counted = counts.setdefault(row.pool_id, {})
        if row.reason is not None:
            counted[row.reason] = row.profiles
        if row.next_free_at is not None:
            moments.setdefault(row.pool_id, []).append(row.next_free_at)
    return {pool: PoolStatus(counted, min(moments.get(pool, []), default=None)) for pool, counted in counts.items()}
