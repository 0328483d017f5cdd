"""How a pool stands now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from poolsql.database.engine import Database
from poolsql.database.statements import Statement

STATUS = Statement.load("poolsql.leasing", "status")


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """Profiles of one pool by reason."""

    counts: Mapping[str, int]
    """Each profile once: available, leased, reclaiming, cooling, held, resting, breaker, new, paused, retired."""
    next_free_at: datetime | None
    """When the next profile that waits is expected back, by the database clock."""

    @property
    def available(self) -> int:
        """Profiles that a checkout could get now."""
        return self.counts.get("available", 0)


def pool_status(database: Database, pool_id: int) -> PoolStatus:
    """Count the profiles of a pool by reason."""
    rows = database.run(STATUS, {"pool_id": pool_id})
    moments = [row.next_free_at for row in rows if row.next_free_at is not None]
    return PoolStatus({row.reason: row.profiles for row in rows}, min(moments, default=None))
