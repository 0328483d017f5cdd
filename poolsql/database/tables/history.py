"""What happened, append-only. No foreign keys: history must not cost a lock on what it tells about."""

from __future__ import annotations

from sqlalchemy import ARRAY, BigInteger, Boolean, Column, Float, Index, Integer, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from poolsql.database.tables.definitions import duration, identity, metadata, moment, words

attempts = Table(
    "attempts",
    metadata,
    Column("lease_id", BigInteger, primary_key=True, autoincrement=False),
    Column("token", Uuid, nullable=False),
    Column("profile_id", BigInteger, nullable=False),
    Column("pool_id", BigInteger, nullable=False),
    Column("launcher_id", BigInteger, nullable=False),
    Column("proxy_id", BigInteger),
    Column("worker_id", Uuid, nullable=False),
    words("machine"),
    words("task"),
    words("host"),
    words("outcome", nullable=False),
    words("blames", nullable=False),
    Column("counted", Boolean, nullable=False),
    words("detail"),
    words("ended_by", nullable=False),
    moment("started_at", nullable=False),
    moment("ended_at", nullable=False),
    Column("browser_started", Boolean, nullable=False),
    words("stop_rung"),
    Column("visits", Integer, nullable=False),
    moment("available_at"),
    words("retired_because"),
    Index("attempts_profile_id_ended_at_idx", "profile_id", "ended_at"),
    Index("attempts_ended_at_idx", "ended_at"),
    comment="A closed lease: what wears a profile. Its outcome is its worst visit.",
)

visits = Table(
    "visits",
    metadata,
    identity(),
    Column("lease_id", BigInteger, nullable=False),
    Column("profile_id", BigInteger, nullable=False),
    Column("pool_id", BigInteger, nullable=False),
    Column("launcher_id", BigInteger, nullable=False),
    Column("proxy_id", BigInteger),
    Column("worker_id", Uuid, nullable=False),
    Column("task_id", BigInteger),
    words("task"),
    words("host"),
    words("url"),
    Column("status", Integer),
    words("outcome", nullable=False),
    words("blames", nullable=False),
    words("detail"),
    moment("started_at", nullable=False),
    moment("ended_at", nullable=False),
    Column("bytes", BigInteger),
    Column("retry_after", Float),
    Column("evidence", JSONB),
    Index("visits_lease_id_idx", "lease_id"),
    Index("visits_ended_at_idx", "ended_at"),
    comment="One try of one task inside a lease.",
)

misses = Table(
    "misses",
    metadata,
    identity(),
    Column("pool_id", BigInteger, nullable=False),
    Column("worker_id", Uuid, nullable=False),
    words("task"),
    words("host"),
    Column("tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    duration("waited"),
    Column("counts", JSONB, nullable=False),
    moment("next_free_at"),
    moment("at", now=True),
    Column("without_tags", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Index("misses_at_idx", "at"),
    comment="A checkout that got nothing.",
)

refused_reports = Table(
    "refused_reports",
    metadata,
    identity(),
    Column("lease_id", BigInteger, nullable=False),
    words("kind", nullable=False),
    Column("worker_id", Uuid),
    words("outcome"),
    words("detail"),
    moment("at", now=True),
    Index("refused_reports_at_idx", "at"),
    comment="A renewal, release or result that came too late: recorded, never applied.",
)

audit = Table(
    "audit",
    metadata,
    identity(),
    words("who", nullable=False),
    words("action", nullable=False),
    words("subject", nullable=False),
    words("reason"),
    moment("at", now=True),
    comment="What operators changed by hand, and why.",
)
