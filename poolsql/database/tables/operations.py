"""What the program keeps about itself."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, SmallInteger, Table, Text, Uuid, text

from poolsql.database.tables.definitions import metadata, moment, words

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
    Column("loop", Text, primary_key=True),
    Column("worker_id", Uuid, primary_key=True),
    moment("at", nullable=False),
    words("note"),
    comment="When each loop of each process last went round.",
)
