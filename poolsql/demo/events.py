"""What happened since one last looked, in sentences; read from the tables like anybody could."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.demo.names import Names
from poolsql.durations import format_duration

_ATTEMPTS = text("""
    SELECT attempts.lease_id, profiles.key, attempts.host, attempts.outcome, attempts.ended_by, attempts.stop_rung,
        CASE WHEN attempts.blames IN ('launcher', 'browser', 'task') THEN left(attempts.detail, 300) END AS why,
        extract(epoch FROM attempts.available_at - attempts.ended_at)::float8 AS waits
    FROM poolsql.attempts
    JOIN poolsql.profiles ON profiles.id = attempts.profile_id
    WHERE attempts.pool_id = :pool AND attempts.outcome <> 'success'
    ORDER BY attempts.lease_id
""")
_RECLAIMING = text("""
    SELECT leases.id, profiles.key, leases.reclaim_outcome, leases.reclaim_detail
    FROM poolsql.leases
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    WHERE leases.pool_id = :pool AND leases.state = 'reclaiming'
""")
_PAUSES = text("""
    SELECT hosts.name, hosts.pause_reason, hosts.paused_until,
        extract(epoch FROM hosts.paused_until - clock_timestamp())::float8 AS seconds
    FROM poolsql.hosts
    WHERE hosts.paused_until > clock_timestamp()
      AND EXISTS (SELECT FROM poolsql.tasks WHERE tasks.run_id = :run AND tasks.host = hosts.name)
""")


class Events:
    """Tells each thing of one run and its pool once."""

    def __init__(self, database: Database, *, pool_id: int, run_id: int, names: Names) -> None:
        self._database = database
        self._pool_id = pool_id
        self._run_id = run_id
        self._names = names
        self._told_attempts: set[int] = set()
        self._told_reclaims: set[int] = set()
        self._told_pauses: set[tuple[str, object]] = set()

    def news(self) -> Iterator[str]:
        """What has happened since the last call."""
        with self._database.connect() as connection:
            reclaiming = connection.execute(_RECLAIMING, {"pool": self._pool_id}).all()
            attempts = connection.execute(_ATTEMPTS, {"pool": self._pool_id}).all()
            pauses = connection.execute(_PAUSES, {"run": self._run_id}).all()
        for row in reclaiming:
            if row.id not in self._told_reclaims:
                self._told_reclaims.add(row.id)
                why = (row.reclaim_outcome or row.reclaim_detail or "").replace("_", " ")
                yield f"lease {row.id} on {row.key} is taken back ({why}); its browser is being stopped"
        for row in attempts:
            if row.lease_id not in self._told_attempts:
                self._told_attempts.add(row.lease_id)
                yield self._attempt(row)
        for row in pauses:
            if (row.name, row.paused_until) not in self._told_pauses:
                self._told_pauses.add((row.name, row.paused_until))
                reason = (row.pause_reason or "").replace("_", " ")
                paused = format_duration(round(max(row.seconds, 0.1), 1))
                yield f"{self._names.host(row.name)} is left alone for {paused}: {reason}"

    def _attempt(self, row: Any) -> str:
        stopped = f", browser proven stopped by {row.stop_rung}" if row.stop_rung and row.ended_by == "reaper" else ""
        back = f"; {row.key} is offered again in {format_duration(round(row.waits, 1))}" if row.waits > 0.05 else ""
        where = f" at {self._names.host(row.host)}" if row.host else ""
        why = f": {row.why}" if row.why else ""
        ended = row.outcome.replace("_", " ")
        return f"lease {row.lease_id} on {row.key}{where} ended as {ended}{stopped}{back}{why}"
