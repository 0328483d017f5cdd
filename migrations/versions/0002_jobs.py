"""Jobs, their runs, and what a daemon says of itself.

Revision: 0002
Follows: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The oldest revision whose code can still work with the tables that this one leaves.
COMPATIBLE_FROM = down_revision


def upgrade() -> None:
    op.create_table(
        "loop_stamps",
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("loop", sa.Text(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("every", sa.Interval(), nullable=False),
        sa.Column(
            "stamped_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("worker_id", "loop", name=op.f("loop_stamps_pk")),
        schema="poolsql",
        comment="When each loop of a daemon last came round: none dies silently.",
        postgresql_with={
            "fillfactor": "70",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_threshold": "200",
            "autovacuum_vacuum_cost_delay": "0",
        },
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("schedule", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        sa.Column("definition", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("overlap", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("misfire", sa.Text(), server_default=sa.text("'latest'"), nullable=False),
        sa.Column("misfire_grace", sa.Interval(), nullable=True),
        sa.Column(
            "fired_through", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pause_reason", sa.Text(), nullable=True),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("declared", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "created_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False
        ),
        sa.CheckConstraint("misfire IN ('latest', 'all')", name=op.f("jobs_misfire_check")),
        sa.ForeignKeyConstraint(["pool_id"], ["poolsql.pools.id"], name=op.f("jobs_pool_id_fk")),
        sa.PrimaryKeyConstraint("id", name=op.f("jobs_pk")),
        sa.UniqueConstraint("name", name=op.f("jobs_name_key")),
        schema="poolsql",
        comment="A definition with a schedule. Intervals count from created_at.",
    )
    op.add_column(
        "hosts", sa.Column("declared", sa.Boolean(), server_default=sa.text("false"), nullable=False), schema="poolsql"
    )
    op.add_column(
        "launchers",
        sa.Column("declared", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        schema="poolsql",
    )
    op.add_column(
        "pools", sa.Column("declared", sa.Boolean(), server_default=sa.text("false"), nullable=False), schema="poolsql"
    )
    op.add_column(
        "profiles",
        sa.Column("declared", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        schema="poolsql",
    )
    op.add_column(
        "proxies",
        sa.Column("declared", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        schema="poolsql",
    )
    op.add_column("runs", sa.Column("job_id", sa.BigInteger(), nullable=True), schema="poolsql")
    op.add_column("runs", sa.Column("instant", sa.DateTime(timezone=True), nullable=True), schema="poolsql")
    op.add_column(
        "runs", sa.Column("state", sa.Text(), server_default=sa.text("'running'"), nullable=False), schema="poolsql"
    )
    op.add_column(
        "runs", sa.Column("exclusive", sa.Boolean(), server_default=sa.text("false"), nullable=False), schema="poolsql"
    )
    op.add_column(
        "runs",
        sa.Column("definition", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True),
        schema="poolsql",
    )
    op.add_column("runs", sa.Column("detail", sa.Text(), nullable=True), schema="poolsql")
    op.add_column("runs", sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True), schema="poolsql")
    op.create_index(
        "runs_exclusive_idx",
        "runs",
        ["job_id"],
        unique=True,
        schema="poolsql",
        postgresql_where=sa.text("exclusive AND ended_at IS NULL"),
    )
    op.create_unique_constraint(op.f("runs_job_id_instant_key"), "runs", ["job_id", "instant"], schema="poolsql")
    op.create_index(
        "runs_open_idx", "runs", ["id"], unique=False, schema="poolsql", postgresql_where=sa.text("ended_at IS NULL")
    )
    op.create_foreign_key(
        op.f("runs_job_id_fk"), "runs", "jobs", ["job_id"], ["id"], source_schema="poolsql", referent_schema="poolsql"
    )
    op.add_column(
        "tasks",
        sa.Column(
            "parameters", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False
        ),
        schema="poolsql",
    )
    op.add_column("tasks", sa.Column("visited_by", sa.BigInteger(), nullable=True), schema="poolsql")
    op.add_column("tasks", sa.Column("visited_seed", sa.Text(), nullable=True), schema="poolsql")
    op.create_index("tasks_run_id_idx", "tasks", ["run_id", "id"], unique=False, schema="poolsql")
    op.add_column(
        "workers", sa.Column("seats", sa.Integer(), server_default=sa.text("0"), nullable=False), schema="poolsql"
    )
    op.add_column("workers", sa.Column("draining_at", sa.DateTime(timezone=True), nullable=True), schema="poolsql")
    op.create_check_constraint(
        op.f("runs_state_check"),
        "runs",
        "state IN ('due', 'running', 'done', 'failed', 'cancelled', 'skipped')",
        schema="poolsql",
    )
    # Runs of the version before did not say when they were over.
    op.execute("""
        UPDATE poolsql.runs SET state = 'done', ended_at = last.changed_at
        FROM (SELECT run_id, max(changed_at) AS changed_at FROM poolsql.tasks GROUP BY run_id
              HAVING bool_and(state IN ('done', 'failed'))) AS last
        WHERE runs.id = last.run_id
    """)
    op.create_check_constraint(
        op.f("runs_ended_at_check"), "runs", "(ended_at IS NULL) = (state IN ('due', 'running'))", schema="poolsql"
    )
    set_compatible_from(COMPATIBLE_FROM)


def downgrade() -> None:
    op.drop_column("workers", "seats", schema="poolsql")
    op.drop_column("workers", "draining_at", schema="poolsql")
    op.drop_index("tasks_run_id_idx", table_name="tasks", schema="poolsql")
    op.drop_column("tasks", "visited_seed", schema="poolsql")
    op.drop_column("tasks", "visited_by", schema="poolsql")
    op.drop_column("tasks", "parameters", schema="poolsql")
    op.drop_constraint(op.f("runs_job_id_fk"), "runs", schema="poolsql", type_="foreignkey")
    op.drop_index("runs_open_idx", table_name="runs", schema="poolsql", postgresql_where=sa.text("ended_at IS NULL"))
    op.drop_constraint(op.f("runs_job_id_instant_key"), "runs", schema="poolsql", type_="unique")
    op.drop_index(
        "runs_exclusive_idx",
        table_name="runs",
        schema="poolsql",
        postgresql_where=sa.text("exclusive AND ended_at IS NULL"),
    )
    op.drop_constraint(op.f("runs_ended_at_check"), "runs", schema="poolsql", type_="check")
    op.drop_constraint(op.f("runs_state_check"), "runs", schema="poolsql", type_="check")
    op.drop_column("runs", "ended_at", schema="poolsql")
    op.drop_column("runs", "detail", schema="poolsql")
    op.drop_column("runs", "definition", schema="poolsql")
    op.drop_column("runs", "exclusive", schema="poolsql")
    op.drop_column("runs", "state", schema="poolsql")
    op.drop_column("runs", "instant", schema="poolsql")
    op.drop_column("runs", "job_id", schema="poolsql")
    op.drop_column("proxies", "declared", schema="poolsql")
    op.drop_column("profiles", "declared", schema="poolsql")
    op.drop_column("pools", "declared", schema="poolsql")
    op.drop_column("launchers", "declared", schema="poolsql")
    op.drop_column("hosts", "declared", schema="poolsql")
    op.drop_table("jobs", schema="poolsql")
    op.drop_table("loop_stamps", schema="poolsql")
    set_compatible_from(down_revision)


def set_compatible_from(oldest: str) -> None:
    statement = sa.text("UPDATE poolsql.schema_information SET compatible_from = :oldest")
    op.execute(statement.bindparams(oldest=oldest))
