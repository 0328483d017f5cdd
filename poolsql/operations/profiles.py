"""Profiles as an operator sees and changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.sql import func

from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Statement
from poolsql.database.tables import cooldowns, launchers, profiles
from poolsql.errors import BadInputError
from poolsql.leasing import retirement
from poolsql.leasing.states import ProfileState
from poolsql.leasing.status import NO_REQUEST
from poolsql.operations.attempts import AttemptLine, list_attempts
from poolsql.operations.names import ProfileName, find_pool_id, find_profile, unknown_name
from poolsql.text import clean_text

PROFILES = Statement.load("poolsql.leasing", "judged", end=("poolsql.operations", "profiles"))

ATTEMPTS_SHOWN = 10
"""The last attempts of a profile that are shown with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileLine:
    """A profile, and why it is not offered."""

    id: int
    pool: str
    launcher: str
    key: str
    proxy: str | None
    tags: Sequence[str]
    machine: str | None
    seed: str | None
    state: ProfileState
    state_reason: str | None
    state_changed_at: datetime
    state_changed_by: str | None
    reason: str
    """``available``, or why it is not; one of the reasons of `PoolStatus.counts`."""
    free_at: datetime | None
    """When it is expected back; None: now, or nobody knows."""
    free_in: timedelta | None
    consecutive_failures: int
    uses: int
    last_outcome: str | None
    last_released_at: datetime | None
    last_success_at: datetime | None
    needs_person_since: datetime | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CooldownLine:
    """A host that a profile is not offered for."""

    host: str
    until: datetime
    free_in: timedelta
    outcome: str
    in_a_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDetails:
    """All about one profile."""

    profile: ProfileLine
    cooldowns: Sequence[CooldownLine]
    """Those that are on."""
    attempts: Sequence[AttemptLine]
    """The newest first."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What came of a change that an operator asked for."""

    profile: ProfileName
    state: ProfileState
    """As it is now."""
    changed: bool
    """False: it was so already, and nothing was written."""


def list_profiles(
    database: Database,
    *,
    pool: str | None = None,
    launcher: str | None = None,
    tags: Sequence[str] = (),
    state: ProfileState | None = None,
    reason: str | None = None,
) -> list[ProfileLine]:
    """Profiles by pool, launcher and key.

    Args:
        pool: Only those of this pool.
        launcher: Only those of this launcher.
        tags: Only those that carry all of these.
        state: Only those in this state.
        reason: Only those that are ``available``, ``leased``, ``cooling`` and so on.

    Raises:
        UnknownNameError: There is no such pool or launcher.
    """
    with database.connect() as connection:
        pool_id = find_pool_id(connection, pool) if pool is not None else None
        if launcher is not None:
            known = connection.execute(select(launchers.c.name)).scalars().all()
            if launcher not in known:
                raise unknown_name("launcher", launcher, known)
    filters = {
        "pool_id": pool_id,
        "wanted_tags": [clean_text(tag) for tag in tags],
        "launcher": launcher,
        "state": state.value if state is not None else None,
        "reason": clean_text(reason) if reason is not None else None,
        "only": None,
    }
    return [_line(row) for row in database.run(PROFILES, {**NO_REQUEST, **filters})]


def show_profile(database: Database, name: str) -> ProfileDetails:
    """A profile by id, key or ``launcher/key``, with its cooldowns and last attempts.

    Raises:
        UnknownNameError: There is no such profile.
        BadInputError: The name fits several.
    """
    with database.connect() as connection:
        found = find_profile(connection, name)
        left = cooldowns.c.until - func.clock_timestamp()
        query = (
            select(
                cooldowns.c.host,
                cooldowns.c.until,
                left.label("free_in"),
                cooldowns.c.outcome,
                cooldowns.c.in_a_row,
            )
            .where(cooldowns.c.profile_id == found.id, cooldowns.c.until > func.clock_timestamp())
            .order_by(cooldowns.c.until.desc())
        )
        cooling = [CooldownLine(**row) for row in connection.execute(query).mappings()]
    filters: dict[str, Any] = {"wanted_tags": [], "launcher": None, "state": None, "reason": None, "only": found.id}
    (row,) = database.run(PROFILES, {**NO_REQUEST, **filters, "pool_id": found.pool_id})
    attempts = list_attempts(database, profile=str(found), limit=ATTEMPTS_SHOWN)
    return ProfileDetails(profile=_line(row), cooldowns=cooling, attempts=attempts)


def change_profile(database: Database, name: str, action: str, *, who: str, reason: str | None = None) -> Changed:
    """``activate``, ``pause``, ``resume``, ``retire`` or ``restore`` a profile, as `retirement.change_state` does.

    Raises:
        UnknownNameError: There is no such profile.
        BadInputError: Its state does not allow it, the name fits several, or there is no such action.
    """
    with database.connect() as connection:
        found = find_profile(connection, name)
    try:
        retirement.change_state(database, found.id, action, who=who, reason=reason)
    except BadInputError:
        wanted = retirement.CHANGES.get(action)
        with database.connect() as connection:
            state = connection.execute(select(profiles.c.state).where(profiles.c.id == found.id)).scalar()
        if wanted is None or state != wanted[1]:
            raise
        return Changed(found, wanted[1], changed=False)
    return Changed(found, retirement.CHANGES[action][1], changed=True)


def _line(row: Row) -> ProfileLine:
    return ProfileLine(**{**row._asdict(), "state": ProfileState(row.state)})
