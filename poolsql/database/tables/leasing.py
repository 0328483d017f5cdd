"""What lives and dies with leases: workers, leases, cooldowns."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Identity,
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
    # The second key of the advisory lock that says that the process lives, and the name of its channel. Small, because
    # one such lock holds two numbers of four bytes; when they come around again, the first are long free.
    Column("lock_key", Integer, Identity(always=True, cycle=True), nullable=False),
    # When it last took that lock; NULL: it never did, and its missing lock says nothing.
    moment("present_at"),
    # Kept fresh only while checkouts of it wait.
    moment("waiting_seen_at"),
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
    # Handed to a waiting checkout that has not answered yet.
    Column("unclaimed", Boolean, nullable=False, server_default=text("false")),
    CheckConstraint("state IN ('held', 'reclaiming')", name="state"),
    CheckConstraint("browser_state IN ('none', 'started')", name="browser_state"),
    Index("leases_worker_id_idx", "worker_id"),
    comment="Live leases only; one row per profile at most, its end is a row of attempts.",
    postgresql_with=HOT_STORAGE,
)

# Whether a ticket's worker lives stands in that worker's row: a ticket is written once, so that nobody who wants to
# serve it finds it locked by its own heartbeat.
waiters = Table(
    "waiters",
    metadata,
    identity(),
    Column("request_id", Uuid, nullable=False, unique=True),
    Column("pool_id", BigInteger, nullable=False),
    Column("worker_id", Uuid, nullable=False),
    words("machine", nullable=False),
    # Whether it is told at once when a profile is handed to it; others look for themselves.
    Column("listens", Boolean, nullable=False),
    words("task"),
    words("host"),
    Column("tags", ARRAY(Text), nullable=False),
    Column("without_tags", ARRAY(Text), nullable=False),
    Column("profile_id", BigInteger),
    # A hash of what is asked for: who asks for the same waits in one line.
    Column("criteria", BigInteger, nullable=False),
    # The place in the line: the arrival, moved forward by the priority.
    moment("rank", nullable=False),
    moment("arrived_at", nullable=False),
    moment("gives_up_at", nullable=False),
    Index("waiters_pool_id_rank_idx", "pool_id", "rank", "id"),
    Index("waiters_criteria_rank_idx", "criteria", "rank", "id"),
    comment="Checkouts that wait for a profile, each with its place in the line.",
    postgresql_with=HOT_STORAGE,
)

sticky_keys = Table(
    "sticky_keys",
    metadata,
    Column("pool_id", BigInteger, ForeignKey("poolsql.pools.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("profile_id", BigInteger, ForeignKey("poolsql.profiles.id"), nullable=False),
    moment("used_at", now=True),
    comment="Which profile served a caller's key last, for checkouts that want the same one again.",
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
