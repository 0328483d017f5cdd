"""What lives and dies with leases: workers, leases, cooldowns."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from poolsql.database.tables.definitions import HOT_STORAGE, duration, identity, metadata, moment, words

workers = Table(
    "workers",
    metadata,
    Column("id", Uuid, primary_key=True),
    words("machine", nullable=False),
    Column("pid", Integer, nullable=False),
    words("process_started", nullable=False),
    words("version", nullable=False),
    moment("started_at", now=True),
    moment("ended_at"),
    # Browsers that it runs or is about to start; the machine's workers together keep to a limit.
    Column("seats", Integer, nullable=False, server_default=text("0")),
    moment("draining_at"),
    comment="One process that holds leases; a new row for each process start.",
)

# No foreign key to workers or pools: each checkout would share-lock the same few rows. expires_at is in no index:
# with one, a renewal could not be a HOT update.
leases = Table(
    "leases",
    metadata,
    identity(),
    Column("token", Uuid, nullable=False),
    Column("request_id", Uuid, nullable=False, unique=True),
    Column("profile_id", BigInteger, ForeignKey("poolsql.profiles.id"), nullable=False, unique=True),
    Column("pool_id", BigInteger, nullable=False),
    Column("worker_id", Uuid, nullable=False),
    Column("state", Text, nullable=False, server_default=text("'held'")),
    words("task"),
    words("host"),
    duration("ttl"),
    moment("acquired_at", nullable=False),
    moment("expires_at", nullable=False),
    moment("deadline_at", nullable=False),
    # 'none': no start was recorded. 'started': a browser may run until its stop is proven.
    Column("browser_state", Text, nullable=False, server_default=text("'none'")),
    Column("browser", JSONB),
    words("browser_machine"),
    Column("visits", Integer, nullable=False, server_default=text("0")),
    words("worst_outcome"),
    words("worst_host"),
    # Set while the lease is reclaiming. The outcome is NULL when the recorded visits say it all.
    moment("reclaim_since"),
    words("reclaim_outcome"),
    words("reclaim_detail"),
    moment("reclaim_next_at"),
    Column("reclaim_tries", Integer, nullable=False, server_default=text("0")),
    words("reclaim_note"),
    CheckConstraint("state IN ('held', 'reclaiming')", name="state"),
    CheckConstraint("browser_state IN ('none', 'started')", name="browser_state"),
    Index("leases_worker_id_idx", "worker_id"),
    comment="Live leases only; one row per profile at most, its end is a row of attempts.",
    postgresql_with=HOT_STORAGE,
)

cooldowns = Table(
    "cooldowns",
    metadata,
    Column("profile_id", BigInteger, ForeignKey("poolsql.profiles.id"), primary_key=True),
    Column("host", Text, primary_key=True),
    moment("until", nullable=False),
    Column("in_a_row", Integer, nullable=False),
    words("outcome", nullable=False),
    moment("set_at", nullable=False),
    comment="A profile is not offered for a host before this moment.",
    postgresql_with=HOT_STORAGE,
)
