"""What all tables share: the schema, the naming of constraints, and the column kinds."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, DateTime, Identity, Interval, MetaData, Text, text

SCHEMA = "poolsql"

metadata = MetaData(
    schema=SCHEMA,
    naming_convention={
        "pk": "%(table_name)s_pk",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
        "fk": "%(table_name)s_%(column_0_N_name)s_fk",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    },
)

# Hot tables: room on each page for HOT updates, and a vacuum that does not wait for a fifth of the table.
HOT_STORAGE = {
    "fillfactor": "70",
    "autovacuum_vacuum_scale_factor": "0.02",
    "autovacuum_vacuum_threshold": "200",
    "autovacuum_vacuum_cost_delay": "0",
}


def identity() -> Column[int]:
    """A bigint key that only the database hands out."""
    return Column("id", BigInteger, Identity(always=True), primary_key=True)


def moment(name: str, *, nullable: bool = True, now: bool = False) -> Column[object]:
    """A timestamp with time zone; `now` makes the database's clock the default."""
    default = text("clock_timestamp()") if now else None
    return Column(name, DateTime(timezone=True), nullable=nullable and not now, server_default=default)


def duration(name: str, *, nullable: bool = False) -> Column[object]:
    """An interval."""
    return Column(name, Interval, nullable=nullable)


def words(name: str, *, nullable: bool = True) -> Column[str]:
    """Text."""
    return Column(name, Text, nullable=nullable)


def declared() -> Column[bool]:
    """Whether the row stands in fleet.toml; others, such as imported profiles, are none of its business."""
    return Column("declared", Boolean, nullable=False, server_default=text("false"))
