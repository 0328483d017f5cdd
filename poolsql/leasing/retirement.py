"""Taking profiles out for good, by rule or by hand, and back again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.sql import func

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.database.tables import profiles
from poolsql.errors import BadInputError, UnknownNameError
from poolsql.leasing import audit
from poolsql.leasing.reports import cleaned
from poolsql.leasing.states import ProfileState
from poolsql.text import clean_text

RETIRE_DUE = Statement.load("poolsql.leasing", "retire_due")


@dataclass(frozen=True, slots=True)
class Retired:
    """A profile that met a rule."""

    profile_id: int
    key: str
    reason: str


def retire_due(database: Database, *, batch: int = 500) -> list[Retired]:
    """Retire the free profiles that meet a rule of their pool: failures in a row, uses, age.

    A profile that is used meets the rules when its lease ends, in the same statement; this finds those that a
    changed policy or the mere passing of time has caught.
    """
    retired: list[Retired] = []
    while True:
        rows = database.run(RETIRE_DUE, {"batch": batch})
        retired += [Retired(row.profile_id, row.key, row.reason) for row in rows]
        if len(rows) < batch:
            return retired


CHANGES = {
    "activate": ({ProfileState.NEW}, ProfileState.ACTIVE),
    "pause": ({ProfileState.NEW, ProfileState.ACTIVE}, ProfileState.PAUSED),
    "resume": ({ProfileState.PAUSED}, ProfileState.ACTIVE),
    "retire": ({ProfileState.NEW, ProfileState.ACTIVE, ProfileState.PAUSED}, ProfileState.RETIRED),
    "restore": ({ProfileState.RETIRED}, ProfileState.ACTIVE),
}
"""What an operator may do in which states, and the state that follows. A leased profile keeps its lease; the new state
holds when it comes back."""


def change_state(database: Database, profile_id: int, action: str, *, who: str, reason: str | None = None) -> None:
    """Let an operator pause, resume, activate, retire or restore a profile; audited with who and why.

    A restored profile starts afresh: failures in a row, uses, age and failure rate count from now on; its history
    stays.

    Raises:
        UnknownNameError: There is no such profile.
        BadInputError: The profile's state does not allow it, or there is no such action.
    """
    if action not in CHANGES:
        raise BadInputError(f"there is no action {action!r}; known are {', '.join(CHANGES)}")
    allowed, becomes = CHANGES[action]
    who, reason = clean_text(who), cleaned(reason)
    with database.transaction() as connection:
        row = connection.execute(
            select(profiles.c.key, profiles.c.state).where(profiles.c.id == profile_id).with_for_update()
        ).one_or_none()
        if row is None:
            raise UnknownNameError(f"{action}: there is no profile {profile_id}")
        if row.state not in allowed:
            raise BadInputError(
                f"{action}: profile {row.key} is {row.state}; only {' or '.join(sorted(allowed))} profiles can be"
            )
        now = func.clock_timestamp()
        values: dict[str, Any] = {
            "state": becomes.value,
            "state_reason": reason,
            "state_changed_at": now,
            "state_changed_by": who,
        }
        if action == "restore":
            values |= {"consecutive_failures": 0, "consecutive_crashes": 0, "consecutive_losses": 0}
            values |= {"consecutive_holds": 0, "uses": 0, "judged_from": now, "needs_person_since": None}
        connection.execute(update(profiles).where(profiles.c.id == profile_id).values(values))
        audit.record(connection, who=who, action=f"profile {action}", subject=row.key, reason=reason)
