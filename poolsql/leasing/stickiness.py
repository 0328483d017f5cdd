"""Sticky keys: the same profile again for whoever asks with the same key, so that an identity can be replayed."""

from __future__ import annotations

from dataclasses import dataclass

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import BadInputError, ProfileRetiredError
from poolsql.leasing.checks import checked_name
from poolsql.leasing.states import ProfileState

FIND_STICKY = Statement.load("poolsql.leasing", "find_sticky")
STICK = Statement.load("poolsql.leasing", "stick")


@dataclass(frozen=True, slots=True)
class StickyKey:
    """What a caller asks with to get the same profile again."""

    key: str
    required: bool
    """True: only that profile will do. A key that nobody has used yet is served by any, from then on by that one."""


def checked_sticky_key(*, prefer: str | None, require: str | None, profile_id: int | None) -> StickyKey | None:
    """The key that a checkout gives, if any.

    Raises:
        BadInputError: It can't be kept, or more than one thing says which profile is meant.
    """
    given = [name for name, value in (("prefer", prefer), ("require", require), ("profile_id", profile_id)) if value]
    if len(given) > 1:
        raise BadInputError(f"{' and '.join(given)}: each says which profile is meant; give one of them")
    if prefer is not None:
        return StickyKey(checked_name(prefer, "prefer"), required=False)
    if require is not None:
        return StickyKey(checked_name(require, "require"), required=True)
    return None


def sticky_profile(database: Database, pool_id: int, sticky: StickyKey) -> int | None:
    """The profile that served the key last; None: none did, or it can't be preferred any more.

    Raises:
        ProfileRetiredError: It is required, and it is retired.
        DatabaseUnavailableError: The database could not be reached.
    """
    rows = database.run(FIND_STICKY, {"pool_id": pool_id, "key": sticky.key})
    if not rows:
        return None
    (row,) = rows
    if row.state != ProfileState.RETIRED:
        return int(row.profile_id)
    if not sticky.required:
        return None
    raise ProfileRetiredError(
        f"profile {row.profile_key} of launcher {row.launcher} served the key {sticky.key!r} and is required for it, "
        f"but it is retired ({row.state_reason or 'no reason was given'}); restore it, or ask with another key"
    )


def stick(database: Database, pool_id: int, sticky: StickyKey, profile_id: int) -> int:
    """Write down who serves the key from now on; returns whom the key belongs to.

    That is another profile only where one is required and a concurrent checkout was faster.

    Raises:
        DatabaseUnavailableError: The database could not be reached.
    """
    asked = {"pool_id": pool_id, "key": sticky.key, "required": sticky.required, "profile_id": profile_id}
    (row,) = database.run(STICK, asked)
    return int(row.profile_id)
