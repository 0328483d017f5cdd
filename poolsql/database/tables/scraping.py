"""Hosts with their pace and pauses, robots.txt answers, and the tasks of runs."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, Table, Text, text
from sqlalchemy.dialects.postgresql import JSONB

from poolsql.database.tables.definitions import HOT_STORAGE, duration, identity, metadata, moment, words

hosts = Table(
    "hosts",
    metadata,
    Column("name", Text, primary_key=True),
    duration("delay", nullable=True),
    moment("next_slot_at"),
    moment("paused_until"),
    words("pause_reason"),
    Column("blocks_in_a_row", Integer, nullable=False, server_default=text("0")),
    Column("limits_in_a_row", Integer, nullable=False, server_default=text("0")),
    Column("errors_in_a_row", Integer, nullable=False, server_default=text("0")),
    moment("stopped_at"),
    words("stop_reason"),
    moment("created_at", now=True),
    comment="A target site: name, plus port when it is not the scheme's default.",
    postgresql_with=HOT_STORAGE,
)

robots = Table(
    "robots",
    metadata,
    Column("origin", Text, primary_key=True),
    Column("agent", Text, primary_key=True),
    Column("status", Integer),
    words("body"),
    moment("fetched_at", nullable=False),
    moment("expires_at", nullable=False),
    comment="The robots.txt of an origin as it was last answered to an agent name; no status: unreachable.",
)

runs = Table(
    "runs",
    metadata,
    identity(),
    words("name", nullable=False),
    Column("pool_id", BigInteger, ForeignKey("poolsql.pools.id"), nullable=False),
    moment("created_at", now=True),
    comment="One firing of a job.",
)

tasks = Table(
    "tasks",
    metadata,
    identity(),
    Column("run_id", BigInteger, ForeignKey("poolsql.runs.id"), nullable=False),
    words("url", nullable=False),
    words("host", nullable=False),
    Column("state", Text, nullable=False, server_default=text("'pending'")),
    Column("tries", Integer, nullable=False, server_default=text("0")),
    Column("profile_id", BigInteger),
    words("seed"),
    # Whoever claimed the task holds it until then; afterwards its lease says whether somebody still works on it.
    moment("claimed_until"),
    Column("lease_id", BigInteger),
    moment("not_before", now=True),
    words("outcome"),
    words("detail"),
    Column("result", JSONB),
    moment("changed_at", now=True),
    CheckConstraint("state IN ('pending', 'running', 'done', 'failed')", name="state"),
    Index("tasks_pending_idx", "run_id", "not_before", "id", postgresql_where=text("state = 'pending'")),
    Index("tasks_running_idx", "run_id", postgresql_where=text("state = 'running'")),
    comment="One target of a run, with its result.",
    postgresql_with=HOT_STORAGE,
)
