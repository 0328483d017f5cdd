"""Pools, launchers, proxies and profiles are rows; what cannot be right is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from poolsql.database.engine import Database
from poolsql.errors import BadInputError, ConflictError, UnknownNameError
from poolsql.leasing import registry
from poolsql.leasing.policy import PoolPolicy
from tests.fixtures.fleets import Desk

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

BAD_NAMES = ["", "   ", "a\x00b", "half \ud800 a pair", "x" * 501]


def test_a_pool_keeps_its_policy(database: Database) -> None:
    policy = PoolPolicy.from_values(
        ttl="2m", renew="20s", max_lease="1h", rest="5s", retire_after=None, max_uses=9, max_age="30d", target_size=4
    )
    defined = registry.define_pool(database, "kept", policy)
    assert registry.find_pool(database, "kept") == defined
    assert defined.policy == policy


def test_a_pool_can_be_given_another_policy(database: Database) -> None:
    first = registry.define_pool(database, "changed", PoolPolicy())
    second = registry.define_pool(database, "changed", PoolPolicy.from_values(ttl="2m"))
    assert second.id == first.id
    assert registry.find_pool(database, "changed").policy.ttl.total_seconds() == 120


def test_an_unknown_pool_names_those_that_there_are(database: Database) -> None:
    registry.define_pool(database, "aardvark", PoolPolicy())
    with pytest.raises(UnknownNameError, match="there is no pool 'shop'; known are aardvark"):
        registry.find_pool(database, "shop")


def _define_launcher(desk: Desk, name: str, kind: str = "local") -> None:
    registry.define_launcher(desk.database, name, kind=kind, pins_machine=True, options={}, machines=None)


def _define_proxy(database: Database, name: str, *, shared: bool) -> None:
    registry.define_proxy(database, name, server="http://p.test:1", username=None, secret=None, shared=shared)


NAMED: dict[str, Callable[[Desk, str], object]] = {
    "pool": lambda desk, name: registry.define_pool(desk.database, name, PoolPolicy()),
    "launcher": _define_launcher,
    "proxy": lambda desk, name: _define_proxy(desk.database, name, shared=False),
    "profile": lambda desk, name: registry.add_profile(desk.database, desk.pool, name, launcher=desk.launcher),
    "tag": lambda desk, name: desk.add_profiles(1, tags=["good", name]),
}


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize(("kind", "define"), NAMED.items(), ids=NAMED.keys())
def test_a_name_that_cannot_be_right_is_refused_and_changes_nothing(
    desk: Desk, kind: str, define: Callable[[Desk, str], object], name: str
) -> None:
    tables = ("pools", "launchers", "proxies", "profiles", "profile_tags")
    before = [desk.all(f"SELECT * FROM poolsql.{table} AS row ORDER BY row") for table in tables]
    with pytest.raises(BadInputError, match=rf"^{kind} "):
        define(desk, name)
    assert [desk.all(f"SELECT * FROM poolsql.{table} AS row ORDER BY row") for table in tables] == before


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_cannot_be_right_is_unknown(desk: Desk, name: str) -> None:
    with pytest.raises(UnknownNameError, match="there is no pool"):
        registry.find_pool(desk.database, name)
    with pytest.raises(UnknownNameError, match="there is no launcher"):
        registry.find_launcher(desk.database, name)
    with pytest.raises(UnknownNameError, match="there is no launcher"):
        registry.add_profile(desk.database, desk.pool, "p", launcher=name)


def test_a_launcher_can_be_changed_but_not_its_kind(desk: Desk) -> None:
    registry.define_launcher(
        desk.database, desk.launcher, kind="local", pins_machine=True, options={"headless": True}, machines=["here"]
    )
    row = registry.find_launcher(desk.database, desk.launcher)
    assert (row.kind, row.options) == ("local", {"headless": True})
    with pytest.raises(ConflictError, match="of another kind than 'rest'"):
        _define_launcher(desk, desk.launcher, "rest")
    assert registry.find_launcher(desk.database, desk.launcher) == row


# Proxies: one profile each, unless declared shared


def test_a_proxy_belongs_to_one_profile(desk: Desk) -> None:
    proxy = desk.add_proxy(shared=False)
    desk.add_profiles(1, proxy=proxy)
    with pytest.raises(ConflictError, match="pinned to another profile and not declared shared"):
        desk.add_profiles(1, proxy=proxy)
    assert len(desk.all("SELECT FROM poolsql.profiles WHERE pool_id = :pool", pool=desk.pool.id)) == 2


def test_a_shared_proxy_belongs_to_as_many_as_like(desk: Desk) -> None:
    proxy = desk.add_proxy(shared=True)
    assert len(desk.add_profiles(3, proxy=proxy)) == 3


def test_a_race_for_a_proxy_has_one_winner(desk: Desk, threads: ThreadPoolExecutor) -> None:
    proxy = desk.add_proxy(shared=False)

    def add(_: int) -> bool:
        try:
            desk.add_profiles(1, proxy=proxy)
        except ConflictError:
            return False
        return True

    assert sum(threads.map(add, range(4))) == 1


def test_a_proxy_can_become_shared_and_back_while_only_one_profile_has_it(desk: Desk) -> None:
    proxy = desk.add_proxy(shared=False)
    desk.add_profiles(1, proxy=proxy)
    _define_proxy(desk.database, proxy, shared=True)
    (second,) = desk.add_profiles(1, proxy=proxy)
    with pytest.raises(ConflictError, match="belongs to several profiles"):
        _define_proxy(desk.database, proxy, shared=False)
    assert desk.one("SELECT shared FROM poolsql.proxies WHERE name = :name", name=proxy).shared
    desk.execute("DELETE FROM poolsql.profiles WHERE id = :id", id=second)
    _define_proxy(desk.database, proxy, shared=False)
    with pytest.raises(ConflictError):
        desk.add_profiles(1, proxy=proxy)


def test_a_lease_names_its_proxy(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=0)
    proxy = f"isp-{uuid4().hex[:8]}"
    registry.define_proxy(
        desk.database, proxy, server="http://198.51.100.7:8000", username="u", secret="env:ISP", shared=False
    )
    desk.add_profiles(1, proxy=proxy)
    proxy_id = desk.granted().profile.proxy_id
    assert proxy_id is not None
    row = registry.find_proxy(desk.database, proxy_id)
    assert (row.name, row.server, row.username, row.secret) == (proxy, "http://198.51.100.7:8000", "u", "env:ISP")


# Profiles


def test_a_launcher_has_each_key_once(desk: Desk) -> None:
    registry.add_profile(desk.database, desk.pool, "twin", launcher=desk.launcher)
    with pytest.raises(ConflictError, match="already has a profile 'twin', in pool"):
        registry.add_profile(desk.database, desk.pool, "twin", launcher=desk.launcher)


def test_a_profile_that_exists_stays_as_it_is_when_that_is_asked_for(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=0)
    (known,) = desk.add_profiles(1, tags=["de"])
    key = desk.profile(known).key
    again = registry.add_profile(
        desk.database, desk.pool, key, launcher=desk.launcher, tags=["fr"], new=True, exist_ok=True
    )
    assert (again, desk.profile(known).tags, desk.profile(known).state) == (known, ["de"], "active")
    elsewhere = new_desk(profiles=0)
    with pytest.raises(ConflictError, match=f"in pool '{desk.pool.name}'"):
        registry.add_profile(desk.database, elsewhere.pool, key, launcher=desk.launcher, exist_ok=True)


@pytest.mark.parametrize("unknown", [{"launcher": "nobody"}, {"proxy": "nobody"}])
def test_a_profile_of_something_unknown_is_refused(desk: Desk, unknown: dict[str, Any]) -> None:
    with pytest.raises(UnknownNameError, match="'nobody'; define it first"):
        registry.add_profile(desk.database, desk.pool, "p", **{"launcher": desk.launcher, **unknown})


def test_a_new_profile_waits_to_be_activated(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=0)
    (profile_id,) = desk.add_profiles(1, new=True)
    assert desk.profile(profile_id).state == "new"
    assert desk.grant() is None


def test_tags_are_kept_twice_and_always_equal(desk: Desk) -> None:
    (profile_id,) = desk.add_profiles(1, tags=["de", "win11", "de"])

    def kept() -> tuple[list[str], list[str]]:
        rows = desk.all("SELECT tag FROM poolsql.profile_tags WHERE profile_id = :id ORDER BY tag", id=profile_id)
        return desk.profile(profile_id).tags, [row.tag for row in rows]

    assert kept() == (["de", "win11"], ["de", "win11"])
    with desk.database.transaction() as connection:
        registry.set_tags(connection, profile_id, ["fr"])
    assert kept() == (["fr"], ["fr"])
    with desk.database.transaction() as connection:
        registry.set_tags(connection, profile_id, [])
    assert kept() == ([], [])


def test_one_directory_of_a_machine_belongs_to_one_profile(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    first, second = desk.lease(), desk.lease()
    first.browser_starting({"pid": 1}, machine="here", directory="/data/a")
    with pytest.raises(ConflictError, match="another profile has it on machine here"):
        second.browser_starting({"pid": 2}, machine="here", directory="/data/a")
    assert desk.lease_row(second.id).browser_state == "none"
