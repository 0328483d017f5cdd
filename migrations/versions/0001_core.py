"""The core: profiles, leases, history, hosts, tasks.

Revision: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The oldest revision whose code can still work with the tables that this one leaves.
COMPATIBLE_FROM = revision

# outcome, blames, profile_effect, host_effect, counts, retry, severity
OUTCOMES = [
    ("success", "nobody", "rest", "reset", "never", "no", 0),
    ("not_claimed", "nobody", "none", "none", "never", "yes", 1),
    ("not_found", "nobody", "none", "none", "never", "no", 2),
    ("robots_disallowed", "nobody", "none", "none", "never", "no", 3),
    ("cancelled", "nobody", "none", "none", "never", "no", 4),
    ("task_failed", "task", "none", "none", "never", "per_job", 5),
    ("task_timeout", "task", "none", "none", "never", "per_job", 6),
    ("deadline_exceeded", "task", "none", "none", "never", "per_job", 7),
    ("site_error", "host", "none", "back_off", "never", "per_job", 8),
    ("lease_expired", "worker", "lost", "none", "every_third", "yes", 9),
    ("worker_lost", "worker", "lost", "none", "every_third", "yes", 10),
    ("launch_failed", "launcher", "hold", "none", "never", "per_job", 11),
    ("proxy_failed", "proxy", "hold", "none", "never", "per_job", 12),
    ("browser_crashed", "browser", "hold", "none", "every_third", "per_job", 13),
    ("rate_limited", "host", "pause_of_host", "rate_pause", "never", "after_pause", 14),
    ("session_lost", "profile_host", "cooldown", "none", "always", "no", 17),
    ("blocked", "profile_host", "cooldown", "block_pause", "always", "same_profile", 15),
    ("captcha", "profile_host", "cooldown", "block_pause", "always", "same_profile", 16),
]


def upgrade() -> None:
    op.create_table(
        "attempts",
        sa.Column("lease_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("token", sa.Uuid(), nullable=False),
        sa.Column("profile_id", sa.BigInteger(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("launcher_id", sa.BigInteger(), nullable=False),
        sa.Column("proxy_id", sa.BigInteger(), nullable=True),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("blames", sa.Text(), nullable=False),
        sa.Column("counted", sa.Boolean(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("ended_by", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("browser_started", sa.Boolean(), nullable=False),
        sa.Column("stop_rung", sa.Text(), nullable=True),
        sa.Column("visits", sa.Integer(), nullable=False),
        sa.Column("available_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retired_because", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("lease_id", name=op.f("attempts_pk")),
        schema="poolsql",
        comment="A closed lease: what wears a profile. Its outcome is its worst visit.",
    )
    op.create_index("attempts_ended_at_idx", "attempts", ["ended_at"], unique=False, schema="poolsql")
    op.create_index(
        "attempts_profile_id_ended_at_idx", "attempts", ["profile_id", "ended_at"], unique=False, schema="poolsql"
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("who", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("audit_pk")),
        schema="poolsql",
        comment="What operators changed by hand, and why.",
    )
    op.create_table(
        "hosts",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("delay", sa.Interval(), nullable=True),
        sa.Column("next_slot_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("paused_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("blocks_in_a_row", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("limits_in_a_row", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("errors_in_a_row", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stop_reason", sa.Text(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("hosts_pk")),
        schema="poolsql",
        comment="A target site: name, plus port when it is not the scheme's default.",
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "200",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_table(
        "launchers",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("pins_machine", sa.Boolean(), nullable=False),
        sa.Column("options", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("machines", sa.ARRAY(sa.Text()), nullable=True),
        sa.Column("start_failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("failed_profiles", sa.ARRAY(sa.BigInteger()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("breaker_openings", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("breaker_open_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("breaker_reason", sa.Text(), nullable=True),
        sa.Column("last_started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("launchers_pk")),
        sa.UniqueConstraint("name", name=op.f("launchers_name_key")),
        schema="poolsql",
        comment="What starts and stops a profile's browser; its breaker keeps profiles out of a vendor's outage.",
    )
    op.create_table(
        "misses",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("waited", sa.Interval(), nullable=False),
        sa.Column("counts", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("next_free_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("misses_pk")),
        schema="poolsql",
        comment="A checkout that got nothing.",
    )
    op.create_index("misses_at_idx", "misses", ["at"], unique=False, schema="poolsql")
    op.create_table(
        "outcomes",
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("blames", sa.Text(), nullable=False),
        sa.Column("profile_effect", sa.Text(), nullable=False),
        sa.Column("host_effect", sa.Text(), nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.Column("retry", sa.Text(), nullable=False),
        sa.Column("severity", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("outcome", name=op.f("outcomes_pk")),
        schema="poolsql",
        comment="How a visit or an attempt can end, whom that blames and what follows; fixed, for joins.",
    )
    op.create_table(
        "pools",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("ttl", sa.Interval(), nullable=False),
        sa.Column("renew", sa.Interval(), nullable=False),
        sa.Column("max_lease", sa.Interval(), nullable=False),
        sa.Column("failure_cooldown", sa.Interval(), nullable=False),
        sa.Column("failure_cooldown_cap", sa.Interval(), nullable=False),
        sa.Column("lost_cooldown", sa.Interval(), nullable=False),
        sa.Column("rest", sa.Interval(), nullable=False),
        sa.Column("hold", sa.Interval(), nullable=False),
        sa.Column("hold_cap", sa.Interval(), nullable=False),
        sa.Column("block_pause", sa.Interval(), nullable=False),
        sa.Column("rate_pause", sa.Interval(), nullable=False),
        sa.Column("site_back_off", sa.Interval(), nullable=False),
        sa.Column("site_back_off_cap", sa.Interval(), nullable=False),
        sa.Column("pause_cap", sa.Interval(), nullable=False),
        sa.Column("retire_after", sa.Integer(), nullable=True),
        sa.Column("retire_rate", sa.Float(), nullable=True),
        sa.Column("retire_window", sa.Integer(), nullable=False),
        sa.Column("max_uses", sa.Integer(), nullable=True),
        sa.Column("max_age", sa.Interval(), nullable=True),
        sa.Column("target_size", sa.Integer(), nullable=True),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pools_pk")),
        sa.UniqueConstraint("name", name=op.f("pools_name_key")),
        schema="poolsql",
        comment="A named set of profiles with one policy.",
    )
    op.create_table(
        "proxies",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("username", sa.Text(), nullable=True),
        sa.Column("secret", sa.Text(), nullable=True),
        sa.Column("shared", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("proxies_pk")),
        sa.UniqueConstraint("name", name=op.f("proxies_name_key")),
        schema="poolsql",
        comment="An exit, pinned to one profile unless declared shared. The secret is a reference, never the value.",
    )
    op.create_table(
        "refused_reports",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("lease_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("refused_reports_pk")),
        schema="poolsql",
        comment="A renewal, release or result that came too late: recorded, never applied.",
    )
    op.create_index("refused_reports_at_idx", "refused_reports", ["at"], unique=False, schema="poolsql")
    op.create_table(
        "robots",
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.Column("fetched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("origin", "agent", name=op.f("robots_pk")),
        schema="poolsql",
        comment="The robots.txt of an origin as it was last answered to an agent name; no status: unreachable.",
    )
    op.create_table(
        "schema_information",
        sa.Column("only_row", sa.SmallInteger(), server_default=sa.text("1"), autoincrement=False, nullable=False),
        sa.Column("compatible_from", sa.Text(), nullable=False),
        sa.CheckConstraint("only_row = 1", name=op.f("schema_information_only_row_check")),
        sa.PrimaryKeyConstraint("only_row", name=op.f("schema_information_pk")),
        schema="poolsql",
        comment="The oldest revision whose code can still work with these tables.",
    )
    op.create_table(
        "visits",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("lease_id", sa.BigInteger(), nullable=False),
        sa.Column("profile_id", sa.BigInteger(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("launcher_id", sa.BigInteger(), nullable=False),
        sa.Column("proxy_id", sa.BigInteger(), nullable=True),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("task_id", sa.BigInteger(), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("blames", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("retry_after", sa.Float(), nullable=True),
        sa.Column("evidence", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("visits_pk")),
        schema="poolsql",
        comment="One try of one task inside a lease.",
    )
    op.create_index("visits_ended_at_idx", "visits", ["ended_at"], unique=False, schema="poolsql")
    op.create_index("visits_lease_id_idx", "visits", ["lease_id"], unique=False, schema="poolsql")
    op.create_table(
        "workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("process_started", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("workers_pk")),
        schema="poolsql",
        comment="One process that holds leases; a new row for each process start.",
    )
    op.create_table(
        "profiles",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("launcher_id", sa.BigInteger(), nullable=False),
        sa.Column("proxy_id", sa.BigInteger(), nullable=True),
        sa.Column("exclusive_proxy_id", sa.BigInteger(), nullable=True),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("tags", sa.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("options", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        sa.Column("seed", sa.Text(), nullable=True),
        sa.Column("machine", sa.Text(), nullable=True),
        sa.Column("directory", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), server_default=sa.text("'active'"), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=True),
        sa.Column(
            "state_changed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("state_changed_by", sa.Text(), nullable=True),
        sa.Column(
            "available_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=True
        ),
        sa.Column("waits_for", sa.Text(), nullable=True),
        sa.Column("hold_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("consecutive_failures", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("consecutive_holds", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("consecutive_crashes", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("consecutive_losses", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("uses", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("last_outcome", sa.Text(), nullable=True),
        sa.Column("last_released_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_success_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("needs_person_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "judged_from", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("state IN ('new', 'active', 'paused', 'retired')", name=op.f("profiles_state_check")),
        sa.CheckConstraint("waits_for IN ('rest', 'cooldown', 'hold')", name=op.f("profiles_waits_for_check")),
        sa.ForeignKeyConstraint(["launcher_id"], ["poolsql.launchers.id"], name=op.f("profiles_launcher_id_fk")),
        sa.ForeignKeyConstraint(["pool_id"], ["poolsql.pools.id"], name=op.f("profiles_pool_id_fk")),
        sa.ForeignKeyConstraint(["proxy_id"], ["poolsql.proxies.id"], name=op.f("profiles_proxy_id_fk")),
        sa.PrimaryKeyConstraint("id", name=op.f("profiles_pk")),
        sa.UniqueConstraint("exclusive_proxy_id", name=op.f("profiles_exclusive_proxy_id_key")),
        sa.UniqueConstraint("launcher_id", "key", name=op.f("profiles_launcher_id_key_key")),
        sa.UniqueConstraint("machine", "directory", name=op.f("profiles_machine_directory_key")),
        schema="poolsql",
        comment="One browser identity, with what checkout must see in the row that it locks.",
        postgresql_with={"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.02"},
    )
    op.create_index(
        "profiles_offer_idx",
        "profiles",
        ["pool_id", "available_at"],
        unique=False,
        schema="poolsql",
        postgresql_where=sa.text("state = 'active'"),
    )
    op.create_index("profiles_proxy_id_idx", "profiles", ["proxy_id"], unique=False, schema="poolsql")
    op.create_table(
        "runs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.ForeignKeyConstraint(["pool_id"], ["poolsql.pools.id"], name=op.f("runs_pool_id_fk")),
        sa.PrimaryKeyConstraint("id", name=op.f("runs_pk")),
        schema="poolsql",
        comment="One firing of a job.",
    )
    op.create_table(
        "cooldowns",
        sa.Column("profile_id", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("in_a_row", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("set_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["profile_id"], ["poolsql.profiles.id"], name=op.f("cooldowns_profile_id_fk")),
        sa.PrimaryKeyConstraint("profile_id", "host", name=op.f("cooldowns_pk")),
        schema="poolsql",
        comment="A profile is not offered for a host before this moment.",
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "200",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_table(
        "leases",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("token", sa.Uuid(), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("profile_id", sa.BigInteger(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'held'"), nullable=False),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("ttl", sa.Interval(), nullable=False),
        sa.Column("acquired_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("deadline_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("browser_state", sa.Text(), server_default=sa.text("'none'"), nullable=False),
        sa.Column("browser", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column("browser_machine", sa.Text(), nullable=True),
        sa.Column("visits", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("worst_outcome", sa.Text(), nullable=True),
        sa.Column("worst_host", sa.Text(), nullable=True),
        sa.Column("reclaim_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reclaim_outcome", sa.Text(), nullable=True),
        sa.Column("reclaim_detail", sa.Text(), nullable=True),
        sa.Column("reclaim_next_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reclaim_tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("reclaim_note", sa.Text(), nullable=True),
        sa.CheckConstraint("browser_state IN ('none', 'started')", name=op.f("leases_browser_state_check")),
        sa.CheckConstraint("state IN ('held', 'reclaiming')", name=op.f("leases_state_check")),
        sa.ForeignKeyConstraint(["profile_id"], ["poolsql.profiles.id"], name=op.f("leases_profile_id_fk")),
        sa.PrimaryKeyConstraint("id", name=op.f("leases_pk")),
        sa.UniqueConstraint("profile_id", name=op.f("leases_profile_id_key")),
        sa.UniqueConstraint("request_id", name=op.f("leases_request_id_key")),
        schema="poolsql",
        comment="Live leases only; one row per profile at most, its end is a row of attempts.",
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "200",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_index("leases_worker_id_idx", "leases", ["worker_id"], unique=False, schema="poolsql")
    op.create_table(
        "profile_tags",
        sa.Column("tag", sa.Text(), nullable=False),
        sa.Column("profile_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["poolsql.profiles.id"], name=op.f("profile_tags_profile_id_fk"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("tag", "profile_id", name=op.f("profile_tags_pk")),
        schema="poolsql",
        comment="The tags of profiles once more, to find the few that carry a rare one.",
    )
    op.create_index("profile_tags_profile_id_idx", "profile_tags", ["profile_id"], unique=False, schema="poolsql")
    op.create_table(
        "tasks",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("run_id", sa.BigInteger(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), server_default=sa.text("'pending'"), nullable=False),
        sa.Column("tries", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("profile_id", sa.BigInteger(), nullable=True),
        sa.Column("seed", sa.Text(), nullable=True),
        sa.Column("claimed_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lease_id", sa.BigInteger(), nullable=True),
        sa.Column(
            "not_before", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("result", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.Column(
            "changed_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("state IN ('pending', 'running', 'done', 'failed')", name=op.f("tasks_state_check")),
        sa.ForeignKeyConstraint(["run_id"], ["poolsql.runs.id"], name=op.f("tasks_run_id_fk")),
        sa.PrimaryKeyConstraint("id", name=op.f("tasks_pk")),
        schema="poolsql",
        comment="One target of a run, with its result.",
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "200",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_index(
        "tasks_pending_idx",
        "tasks",
        ["run_id", "not_before", "id"],
        unique=False,
        schema="poolsql",
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "tasks_running_idx",
        "tasks",
        ["run_id"],
        unique=False,
        schema="poolsql",
        postgresql_where=sa.text("state = 'running'"),
    )
    columns = ("outcome", "blames", "profile_effect", "host_effect", "counts", "retry", "severity")
    outcomes = sa.table("outcomes", *(sa.column(name) for name in columns), schema="poolsql")
    op.bulk_insert(outcomes, [dict(zip(columns, row, strict=True)) for row in OUTCOMES])
    statement = sa.text("INSERT INTO poolsql.schema_information (compatible_from) VALUES (:revision)")
    op.execute(statement.bindparams(revision=COMPATIBLE_FROM))


def downgrade() -> None:
    op.drop_index(
        "tasks_running_idx", table_name="tasks", schema="poolsql", postgresql_where=sa.text("state = 'running'")
    )
    op.drop_index(
        "tasks_pending_idx", table_name="tasks", schema="poolsql", postgresql_where=sa.text("state = 'pending'")
    )
    op.drop_table("tasks", schema="poolsql")
    op.drop_index("profile_tags_profile_id_idx", table_name="profile_tags", schema="poolsql")
    op.drop_table("profile_tags", schema="poolsql")
    op.drop_index("leases_worker_id_idx", table_name="leases", schema="poolsql")
    op.drop_table("leases", schema="poolsql")
    op.drop_table("cooldowns", schema="poolsql")
    op.drop_table("runs", schema="poolsql")
    op.drop_index("profiles_proxy_id_idx", table_name="profiles", schema="poolsql")
    op.drop_index(
        "profiles_offer_idx", table_name="profiles", schema="poolsql", postgresql_where=sa.text("state = 'active'")
    )
    op.drop_table("profiles", schema="poolsql")
    op.drop_table("workers", schema="poolsql")
    op.drop_index("visits_lease_id_idx", table_name="visits", schema="poolsql")
    op.drop_index("visits_ended_at_idx", table_name="visits", schema="poolsql")
    op.drop_table("visits", schema="poolsql")
    op.drop_table("schema_information", schema="poolsql")
    op.drop_table("robots", schema="poolsql")
    op.drop_index("refused_reports_at_idx", table_name="refused_reports", schema="poolsql")
    op.drop_table("refused_reports", schema="poolsql")
    op.drop_table("proxies", schema="poolsql")
    op.drop_table("pools", schema="poolsql")
    op.drop_table("outcomes", schema="poolsql")
    op.drop_index("misses_at_idx", table_name="misses", schema="poolsql")
    op.drop_table("misses", schema="poolsql")
    op.drop_table("launchers", schema="poolsql")
    op.drop_table("hosts", schema="poolsql")
    op.drop_table("audit", schema="poolsql")
    op.drop_index("attempts_profile_id_ended_at_idx", table_name="attempts", schema="poolsql")
    op.drop_index("attempts_ended_at_idx", table_name="attempts", schema="poolsql")
    op.drop_table("attempts", schema="poolsql")
