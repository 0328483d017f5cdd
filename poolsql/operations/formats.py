"""The formats of exports; a module that imports nothing, since the command line knows them before it runs anything."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """How results are written."""

    JSONL = "jsonl"
    """One JSON object a line."""
    CSV = "csv"
    """A table with a column for each field of the results."""
