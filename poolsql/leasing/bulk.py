"""Adding and changing many profiles at a time, each function a part of the caller's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    any_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upsert

from poolsql.database.tables import profile_tags, profiles
from poolsql.leasing.checks import checked_names
from poolsql.leasing.states import ProfileState

_KEYS_AT_ONCE = 10_000
"""Profiles that one statement adds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileDefinition:
    """What is declared of a profile; all of it checked."""

    pool_id: int
    launcher_id: int
    key: str
    proxy_id: int | None = None
    tags: Sequence[str] = ()
    """Sorted, each once."""
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: str | None = None
    new: bool = False
    """It is not offered before somebody activates it; matters only when it is added."""


def add_profiles(connection: Connection, definitions: Sequence[ProfileDefinition]) -> None:
    """Add profiles that stand in fleet.toml; their proxies are pinned by `registry.pin_proxies` afterwards.

    Raises:
        IntegrityError: A launcher has such a profile already.
    """
    if not definitions:
        return
    rows = [
        _columns(one)
        | {
            "pool_id": one.pool_id,
            "launcher_id": one.launcher_id,
            "key": one.key,
            "state": (ProfileState.NEW if one.new else ProfileState.ACTIVE).value,
        }
        for one in definitions
    ]
    inserting = insert(profiles).returning(profiles.c.id, sort_by_parameter_order=True)
    ids = connection.execute(inserting, rows).scalars().all()
    _insert_tags(connection, dict(zip(ids, definitions, strict=True)))


def change_profiles(connection: Connection, definitions: Mapping[int, ProfileDefinition]) -> None:
    """Give existing profiles, locked and by their ids, what fleet.toml says of them, except pool, launcher, key, state.

    None of them has a pinned proxy afterwards, so that two can change places: `registry.pin_proxies` pins them.
    """
    if not definitions:
        return
    changing = update(profiles).where(profiles.c.id == bindparam("profile_id"))
    rows = [{**_columns(one), "profile_id": profile_id} for profile_id, one in definitions.items()]
    connection.execute(
        changing.values({name: bindparam(name) for name in _columns(next(iter(definitions.values())))}), rows
    )
    connection.execute(delete(profile_tags).where(profile_tags.c.profile_id == any_of(list(definitions))))
    _insert_tags(connection, definitions)


def lock_profiles(connection: Connection, profile_ids: Sequence[int], *, of_proxies: Sequence[int] = ()) -> None:
    """Lock rows of profiles, and of all that have certain proxies, in the order in which everybody does."""
    wanted = or_(profiles.c.id == any_of(profile_ids), profiles.c.proxy_id == any_of(of_proxies))
    connection.execute(select(profiles.c.id).where(wanted).order_by(profiles.c.id).with_for_update())


def any_of(ids: Sequence[int]) -> ColumnElement[Any]:
    """To compare an id with; `in_` would send each as a parameter of its own, of which there are 65,535 at most."""
    return any_(literal(list(ids), ARRAY(BigInteger)))


def _columns(definition: ProfileDefinition) -> dict[str, Any]:
    return {
        "proxy_id": definition.proxy_id,
        "exclusive_proxy_id": None,
        "tags": list(definition.tags),
        "options": dict(definition.options),
        "seed": definition.seed,
        "declared": True,
    }


def _insert_tags(connection: Connection, definitions: Mapping[int, ProfileDefinition]) -> None:
    rows = [{"tag": tag, "profile_id": number} for number, one in definitions.items() for tag in one.tags]
    if rows:
        connection.execute(insert(profile_tags), rows)


def add_keys(
    connection: Connection,
    *,
    pool_id: int,
    launcher_id: int,
    keys: Sequence[str],
    tags: Sequence[str] = (),
    new: bool = False,
) -> int:
    """Add many profiles that differ in their keys alone.

    Keys that the launcher has already are left alone, whichever their pool.

    Args:
        keys: Checked, each once.

    Returns:
        How many were added.

    Raises:
        BadInputError: A tag cannot be kept.
    """
    wanted = sorted(set(checked_names(tags, "tag")))
    state = (ProfileState.NEW if new else ProfileState.ACTIVE).value
    added = 0
    for start in range(0, len(keys), _KEYS_AT_ONCE):
        key = func.unnest(literal(list(keys[start : start + _KEYS_AT_ONCE]), ARRAY(Text))).column_valued("key")
        chosen = select(
            *(literal(pool_id), literal(launcher_id), key, literal(wanted, ARRAY(Text)), literal(state)),
        )
        ids = (
            connection.execute(
                upsert(profiles)
                .from_select(["pool_id", "launcher_id", "key", "tags", "state"], chosen)
                .on_conflict_do_nothing(index_elements=["launcher_id", "key"])
                .returning(profiles.c.id)
            )
            .scalars()
            .all()
        )
        added += len(ids)
        if wanted and ids:
            pairs = select(func.unnest(profiles.c.tags), profiles.c.id).where(profiles.c.id == any_of(ids))
            connection.execute(insert(profile_tags).from_select(["tag", "profile_id"], pairs))
    return added
