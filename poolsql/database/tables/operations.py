"""What the program keeps about itself."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, SmallInteger, Table, text

from poolsql.database.tables.definitions import metadata, words

schema_information = Table(
    "schema_information",
    metadata,
    Column("only_row", SmallInteger, primary_key=True, server_default=text("1"), autoincrement=False),
    words("compatible_from", nullable=False),
    CheckConstraint("only_row = 1", name="only_row"),
    comment="The oldest revision whose code can still work with these tables.",
)
