"""Declaring what a fleet consists of: pools, launchers, proxies and profiles are rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Connection, Table, any_, case, delete, insert, literal, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.exc import IntegrityError

from poolsql.database.engine import Database
from poolsql.database.tables import launchers, pools, profile_tags, profiles, proxies
from poolsql.errors import ConflictError, UnknownNameError
from poolsql.leasing.checks import checked_name, checked_names, checked_proxy_server, checked_secret
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.states import ProfileState
from poolsql.text import clean_text


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool as the database knows it."""

    id: int
    name: str
    policy: PoolPolicy


@dataclass(frozen=True, slots=True)
class LauncherRow:
    """A launcher as the database knows it."""

    name: str
    kind: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProxyRow:
    """A proxy as the database knows it; the secret is a reference."""

    name: str
    server: str
    username: str | None
    secret: str | None


def define_pool(database: Database, name: str, policy: PoolPolicy) -> PoolRow:
    """Create a pool, or give an existing one this policy.

    Raises:
        BadInputError: The name cannot be kept.
    """
    with database.connect() as connection:
        return PoolRow(define_pool_on(connection, name, policy), name, policy)


def define_pool_on(connection: Connection, name: str, policy: PoolPolicy, *, declared: bool = False) -> int:
    """`define_pool` as a part of the caller's work; returns the pool's id.

    Args:
        declared: It stands in fleet.toml. False leaves an existing one as it is in that respect; so do the others.
    """
    values = policy.columns() | _declaration(declared)
    return int(
        connection.execute(
            upsert(pools)
            .values(name=checked_name(name, "pool"), **values)
            .on_conflict_do_update(index_elements=["name"], set_=values)
            .returning(pools.c.id)
        ).scalar_one()
    )


def find_pool(database: Database, name: str) -> PoolRow:
    """Look a pool up.

    Raises:
        UnknownNameError: There is no such pool; the message names those that there are.
    """
    policy_columns = [pools.c[column] for column in PoolPolicy.__dataclass_fields__]
    with database.connect() as connection:
        row = (
            connection.execute(select(pools.c.id, *policy_columns).where(pools.c.name == clean_text(name)))
            .mappings()
            .first()
        )
        if row is None:
            known = connection.execute(select(pools.c.name).order_by(pools.c.name).limit(20)).scalars().all()
            raise UnknownNameError(
                f"there is no pool {name!r}; " + (f"known are {', '.join(known)}" if known else "none is defined yet")
            )
    values = dict(row)
    return PoolRow(values.pop("id"), name, PoolPolicy(**values))


def define_launcher(
    database: Database,
    name: str,
    *,
    kind: str,
    pins_machine: bool,
    options: Mapping[str, Any],
    machines: Sequence[str] | None,
) -> None:
    """Create a launcher, or change an existing one of the same kind.

    Raises:
        ConflictError: A launcher of that name has another kind.
        BadInputError: A name cannot be kept.
    """
    with database.connect() as connection:
        define_launcher_on(connection, name, kind=kind, pins_machine=pins_machine, options=options, machines=machines)


def define_launcher_on(
    connection: Connection,
    name: str,
    *,
    kind: str,
    pins_machine: bool,
    options: Mapping[str, Any],
    machines: Sequence[str] | None,
    declared: bool = False,
) -> int:
    """`define_launcher` as a part of the caller's work; returns the launcher's id."""
    offered_to = list(checked_names(machines, "machine")) if machines is not None else None
    values = {"options": dict(options), "machines": offered_to} | _declaration(declared)
    found = connection.execute(
        upsert(launchers)
        .values(name=checked_name(name, "launcher"), kind=kind, pins_machine=pins_machine, **values)
        .on_conflict_do_update(index_elements=["name"], set_=values, where=launchers.c.kind == kind)
        .returning(launchers.c.id)
    ).scalar()
    if found is None:
        raise ConflictError(f"launcher {name!r} exists and is of another kind than {kind!r}; choose another name")
    return int(found)


def find_launcher(database: Database, name: str) -> LauncherRow:
    """Look a launcher up.

    Raises:
        UnknownNameError: There is no such launcher.
    """
    query = select(launchers.c.name, launchers.c.kind, launchers.c.options)
    with database.connect() as connection:
        row = connection.execute(query.where(launchers.c.name == clean_text(name))).one_or_none()
    if row is None:
        raise UnknownNameError(f"there is no launcher {name!r}")
    return LauncherRow(*row)


def define_proxy(
    database: Database, name: str, *, server: str, username: str | None, secret: str | None, shared: bool
) -> None:
    """Create a proxy, or change an existing one.

    Raises:
        ConflictError: It is pinned to several profiles, so it can't stop being shared.
        BadInputError: A name cannot be kept, the server holds credentials, or the secret is no reference.
    """
    with database.transaction() as connection:
        proxy_id = define_proxy_on(connection, name, server=server, username=username, secret=secret, shared=shared)
        with _conflict(f"proxy {name!r} belongs to several profiles; declare it shared or give each its own"):
            pin_proxies(connection, [proxy_id])


def define_proxy_on(
    connection: Connection,
    name: str,
    *,
    server: str,
    username: str | None,
    secret: str | None,
    shared: bool,
    declared: bool = False,
) -> int:
    """`define_proxy` as a part of the caller's transaction, which ends it with `pin_proxies`; returns its id."""
    values = {
        "server": checked_proxy_server(server, proxy=name),
        "username": checked_name(username, "username") if username is not None else None,
        "secret": checked_secret(secret, proxy=name) if secret is not None else None,
        "shared": shared,
    } | _declaration(declared)
    return int(
        connection.execute(
            upsert(proxies)
            .values(name=checked_name(name, "proxy"), **values)
            .on_conflict_do_update(index_elements=["name"], set_=values)
            .returning(proxies.c.id)
        ).scalar_one()
    )


def pin_proxies(connection: Connection, proxy_ids: Sequence[int]) -> None:
    """Pin proxies to the profiles that have them, or unpin those that are shared now.

    Raises:
        IntegrityError: One that is not shared belongs to several profiles.
    """
    pinned = case((proxies.c.shared, None), else_=proxies.c.id)
    connection.execute(
        update(profiles)
        .where(
            profiles.c.proxy_id == proxies.c.id,
            proxies.c.id == any_(literal(list(proxy_ids), ARRAY(BigInteger))),
            profiles.c.exclusive_proxy_id.is_distinct_from(pinned),
        )
        .values(exclusive_proxy_id=pinned)
    )


def find_proxy(database: Database, proxy_id: int) -> ProxyRow:
    """The proxy of a profile."""
    query = select(proxies.c.name, proxies.c.server, proxies.c.username, proxies.c.secret)
    with database.connect() as connection:
        return ProxyRow(*connection.execute(query.where(proxies.c.id == proxy_id)).one())


def add_profile(
    database: Database,
    pool: PoolRow,
    key: str,
    *,
    launcher: str,
    proxy: str | None = None,
    tags: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    seed: str | None = None,
    new: bool = False,
    exist_ok: bool = False,
) -> int:
    """Add a profile to a pool; returns its id.

    Args:
        key: The launcher's own name of the profile.
        new: True: it is not offered before somebody activates it.
        exist_ok: True: a profile of that key in this pool stays as it is, and its id is returned.

    Raises:
        UnknownNameError: The launcher or proxy does not exist.
        ConflictError: The launcher has a profile of that key, or the proxy is pinned to another profile.
        BadInputError: The key, the seed or a tag cannot be kept.
    """
    with database.transaction() as connection:
        launcher_id = _id_of(connection, launchers, launcher, "launcher")
        existing = connection.execute(
            select(profiles.c.id, profiles.c.pool_id, pools.c.name)
            .join(pools, pools.c.id == profiles.c.pool_id)
            .where(profiles.c.launcher_id == launcher_id, profiles.c.key == clean_text(key))
        ).one_or_none()
        if existing is not None:
            if exist_ok and existing.pool_id == pool.id:
                return int(existing.id)
            raise ConflictError(f"launcher {launcher!r} already has a profile {key!r}, in pool {existing.name!r}")
        proxy_id, shared = None, True
        if proxy is not None:
            proxy_id = _id_of(connection, proxies, proxy, "proxy")
            shared = connection.execute(select(proxies.c.shared).where(proxies.c.id == proxy_id)).scalar_one()
        with _conflict(
            f"profile {key!r}: proxy {proxy!r} is pinned to another profile and not declared shared"
            if proxy is not None
            else f"launcher {launcher!r} already has a profile {key!r}"
        ):
            profile_id = connection.execute(
                insert(profiles)
                .values(
                    pool_id=pool.id,
                    launcher_id=launcher_id,
                    proxy_id=proxy_id,
                    exclusive_proxy_id=None if shared else proxy_id,
                    key=checked_name(key, "profile"),
                    options=dict(options or {}),
                    seed=checked_name(seed, "seed") if seed is not None else None,
                    state=(ProfileState.NEW if new else ProfileState.ACTIVE).value,
                )
                .returning(profiles.c.id)
            ).scalar_one()
        set_tags(connection, profile_id, tags)
    return int(profile_id)


def set_tags(connection: Connection, profile_id: int, tags: Sequence[str]) -> None:
    """Give a profile these tags, in its own row and in the table that finds the rare ones.

    Raises:
        BadInputError: A tag cannot be kept.
    """
    wanted = sorted(set(checked_names(tags, "tag")))
    connection.execute(update(profiles).where(profiles.c.id == profile_id).values(tags=wanted))
    connection.execute(delete(profile_tags).where(profile_tags.c.profile_id == profile_id))
    if wanted:
        connection.execute(insert(profile_tags), [{"tag": tag, "profile_id": profile_id} for tag in wanted])


def ids_by_name(connection: Connection, table: Table) -> dict[str, int]:
    """The ids of all pools, launchers or proxies."""
    return {row.name: row.id for row in connection.execute(select(table.c.name, table.c.id))}


def _id_of(connection: Connection, table: Table, name: str, kind: str) -> int:
    found = connection.execute(select(table.c.id).where(table.c.name == clean_text(name))).scalar()
    if found is None:
        raise UnknownNameError(f"there is no {kind} {name!r}; define it first")
    return int(found)


@contextmanager
def _conflict(message: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise ConflictError(message) from None


def _declaration(declared: bool) -> dict[str, bool]:
    return {"declared": True} if declared else {}
