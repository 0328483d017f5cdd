"""Waiting in line, presence of workers, and sticky keys.

Revision: 0003
Follows: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# The oldest revision whose code can still work with the tables that this one leaves.
COMPATIBLE_FROM = "0001"

HOT_STORAGE = {
    "fillfactor": "70",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_threshold": "200",
    "autovacuum_vacuum_cost_delay": "0",
}


def upgrade() -> None:
    op.add_column(
        "workers",
        sa.Column("lock_key", sa.Integer(), sa.Identity(always=True, cycle=True), nullable=False),
        schema="poolsql",
    )
    op.add_column("workers", sa.Column("present_at", sa.DateTime(timezone=True), nullable=True), schema="poolsql")
    op.add_column("workers", sa.Column("waiting_seen_at", sa.DateTime(timezone=True), nullable=True), schema="poolsql")
    op.add_column(
        "leases",
        sa.Column("unclaimed", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        schema="poolsql",
    )
    op.create_table(
        "waiters",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("request_id", sa.Uuid(), nullable=False),
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("listens", sa.Boolean(), nullable=False),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("without_tags", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("profile_id", sa.BigInteger(), nullable=True),
        sa.Column("criteria", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.DateTime(timezone=True), nullable=False),
        sa.Column("arrived_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("gives_up_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("waiters_pk")),
        sa.UniqueConstraint("request_id", name=op.f("waiters_request_id_key")),
        schema="poolsql",
        comment="Checkouts that wait for a profile, each with its place in the line.",
        postgresql_with=HOT_STORAGE,
    )
    op.create_index("waiters_pool_id_rank_idx", "waiters", ["pool_id", "rank", "id"], unique=False, schema="poolsql")
    op.create_index("waiters_criteria_rank_idx", "waiters", ["criteria", "rank", "id"], unique=False, schema="poolsql")
    op.create_table(
        "sticky_keys",
        sa.Column("pool_id", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("profile_id", sa.BigInteger(), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.ForeignKeyConstraint(["pool_id"], ["poolsql.pools.id"], name=op.f("sticky_keys_pool_id_fk")),
        sa.ForeignKeyConstraint(["profile_id"], ["poolsql.profiles.id"], name=op.f("sticky_keys_profile_id_fk")),
        sa.PrimaryKeyConstraint("pool_id", "key", name=op.f("sticky_keys_pk")),
        schema="poolsql",
        comment="Which profile served a caller's key last, for checkouts that want the same one again.",
    )
    op.add_column(
        "misses",
        sa.Column("without_tags", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'"), nullable=False),
        schema="poolsql",
    )
    set_compatible_from(COMPATIBLE_FROM)


def downgrade() -> None:
    op.drop_column("misses", "without_tags", schema="poolsql")
    op.drop_table("sticky_keys", schema="poolsql")
    op.drop_table("waiters", schema="poolsql")
    op.drop_column("leases", "unclaimed", schema="poolsql")
    op.drop_column("workers", "waiting_seen_at", schema="poolsql")
    op.drop_column("workers", "present_at", schema="poolsql")
    op.drop_column("workers", "lock_key", schema="poolsql")
    set_compatible_from("0001")


def set_compatible_from(oldest: str) -> None:
    statement = sa.text("UPDATE poolsql.schema_information SET compatible_from = :oldest")
    op.execute(statement.bindparams(oldest=oldest))
