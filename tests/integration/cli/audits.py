"""What was written down about the changes of a test."""

from __future__ import annotations

from typing import Any

from tests.fixtures.fleets import Desk

Entry = tuple[str, str, str, str | None]
"""Who, action, subject, reason."""


def last_audit(desk: Desk) -> int:
    """A mark in the audit; see `audited_since`."""
    return int(desk.one("SELECT coalesce(max(id), 0) AS id FROM poolsql.audit").id)


def audited_since(desk: Desk, mark: int) -> list[Entry]:
    """The entries after a mark, in order."""
    query = "SELECT who, action, subject, reason FROM poolsql.audit WHERE id > :mark ORDER BY id"
    rows: list[Any] = desk.all(query, mark=mark)
    return [tuple(row) for row in rows]
