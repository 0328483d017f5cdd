"""What the program keeps about itself."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, SmallInteger, Table, Text, Uuid, text

from poolsql.database.tables.definitions import HOT_STORAGE, duration, metadata, moment, words

schema_information = Table(
    "schema_information",
    metadata,
    Column("only_row", SmallInteger, primary_key=True, server_default=text("1"), autoincrement=False),
    words("compatible_from", nullable=False),
    CheckConstraint("only_row = 1", name="only_row"),
    comment="The oldest revision whose code can still work with these tables.",
)

loop_stamps = Table(
    "loop_stamps",
    metadata,
    Column("worker_id", Uuid, primary_key=True),
    Column("loop", Text, primary_key=True),
    words("machine", nullable=False),
    # How often the loop stamps at least; one that is long over it has died or hangs.
    duration("every"),
    moment("stamped_at", now=True),
    moment("failing_since"),
    words("note"),
    comment="When each loop of a daemon last came round: none dies silently.",
    postgresql_with=HOT_STORAGE,
)
