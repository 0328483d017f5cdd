"""What happened since one last looked, in sentences; read from the tables like anybody could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.durations import format_duration

_ATTEMPTS = text("""
    SELECT attempts.lease_id, profiles.key, attempts.outcome, attempts.ended_by, attempts.stop_rung,
        extract(epoch FROM attempts.available_at - attempts.ended_at)::float8 AS waits
    FROM poolsql.attempts
    JOIN poolsql.profiles ON profiles.id = attempts.profile_id
    WHERE attempts.outcome <> 'success'
    ORDER BY attempts.lease_id
""")
_RECLAIMING = text("""
    SELECT leases.id, profiles.key, leases.reclaim_outcome, leases.reclaim_detail
    FROM poolsql.leases
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    WHERE leases.state = 'reclaiming'
""")
_PAUSES = text("""
    SELECT hosts.name, hosts.pause_reason, hosts.paused_until,
        extract(epoch FROM hosts.paused_until - clock_timestamp())::float8 AS seconds
    FROM poolsql.hosts
    WHERE hosts.paused_until > clock_timestamp()
""")


class Events:
    """Tells each thing once."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._told_attempts: set[int] = set()
        self._told_reclaims: set[int] = set()
        self._told_pauses: set[tuple[str, object]] = set()

    def news(self) -> Iterator[str]:
        """What has happened since the last call."""
        with self._database.connect() as connection:
            reclaiming = connection.execute(_RECLAIMING).all()
            attempts = connection.execute(_ATTEMPTS).all()
            pauses = connection.execute(_PAUSES).all()
        for row in reclaiming:
            if row.id not in self._told_reclaims:
                self._told_reclaims.add(row.id)
                why = (row.reclaim_outcome or row.reclaim_detail or "").replace("_", " ")
                yield f"lease {row.id} on {row.key} is taken back ({why}); its browser is being stopped"
        for row in attempts:
            if row.lease_id not in self._told_attempts:
                self._told_attempts.add(row.lease_id)
                yield _attempt(row)
        for row in pauses:
            if (row.name, row.paused_until) not in self._told_pauses:
                self._told_pauses.add((row.name, row.paused_until))
                reason = (row.pause_reason or "").replace("_", " ")
                yield f"host {row.name} is paused for {format_duration(max(row.seconds, 0.1))}: {reason}"


def _attempt(row: Any) -> str:
    stopped = f", browser proven stopped by {row.stop_rung}" if row.stop_rung and row.ended_by == "reaper" else ""
    back = f"; {row.key} is offered again in {format_duration(row.waits)}" if row.waits > 0.05 else ""
    return f"lease {row.lease_id} on {row.key} ended as {row.outcome.replace('_', ' ')}{stopped}{back}"
