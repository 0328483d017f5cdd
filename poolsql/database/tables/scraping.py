"""Hosts with their pace and pauses, robots.txt answers, and jobs with their runs and tasks."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from poolsql.database.tables.definitions import HOT_STORAGE, declared, duration, identity, metadata, moment, words

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
    declared(),
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

jobs = Table(
    "jobs",
    metadata,
    identity(),
    Column("name", Text, nullable=False, unique=True),
    Column("pool_id", BigInteger, ForeignKey("poolsql.pools.id"), nullable=False),
    # NULL: it runs when somebody says so.
    Column("schedule", JSONB(none_as_null=True)),
    Column("definition", JSONB, nullable=False),
    Column("overlap", Boolean, nullable=False, server_default=text("false")),
    Column("misfire", Text, nullable=False, server_default=text("'latest'")),
    duration("misfire_grace", nullable=True),
    # Instants up to this moment are done with: fired, skipped, or not the job's yet.
    moment("fired_through", now=True),
    moment("paused_at"),
    words("pause_reason"),
    moment("removed_at"),
    declared(),
    moment("created_at", now=True),
    CheckConstraint("misfire IN ('latest', 'all')", name="misfire"),
    comment="A definition with a schedule. Intervals count from created_at.",
)

# The two unique keys are what makes any number of daemons fire once: one run per job and instant, and one open run
# per job whose runs must not overlap.
runs = Table(
    "runs",
    metadata,
    identity(),
    words("name", nullable=False),
    Column("pool_id", BigInteger, ForeignKey("poolsql.pools.id"), nullable=False),
    moment("created_at", now=True),
    Column("job_id", BigInteger, ForeignKey("poolsql.jobs.id")),
    moment("instant"),
    Column("state", Text, nullable=False, server_default=text("'running'")),
    Column("exclusive", Boolean, nullable=False, server_default=text("false")),
    # The job's as it was when it fired; NULL: whoever created the run works on it with a handler of their own.
    Column("definition", JSONB(none_as_null=True)),
    words("detail"),
    moment("ended_at"),
    UniqueConstraint("job_id", "instant"),
    CheckConstraint("state IN ('due', 'running', 'done', 'failed', 'cancelled', 'skipped')", name="state"),
    CheckConstraint("(ended_at IS NULL) = (state IN ('due', 'running'))", name="ended_at"),
    Index("runs_exclusive_idx", "job_id", unique=True, postgresql_where=text("exclusive AND ended_at IS NULL")),
    Index("runs_open_idx", "id", postgresql_where=text("ended_at IS NULL")),
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
    # Only this profile may try it, because its target or its last outcome says so.
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
    # What its target says besides, for the handler.
    Column("parameters", JSONB, nullable=False, server_default=text("'{}'")),
    # Who made its last visit, and with which seed: where a result came from.
    Column("visited_by", BigInteger),
    words("visited_seed"),
    CheckConstraint("state IN ('pending', 'running', 'done', 'failed')", name="state"),
    Index("tasks_run_id_idx", "run_id", "id"),
    Index("tasks_pending_idx", "run_id", "not_before", "id", postgresql_where=text("state = 'pending'")),
    Index("tasks_running_idx", "run_id", postgresql_where=text("state = 'running'")),
    comment="One target of a run, with its result.",
    postgresql_with=HOT_STORAGE,
)
