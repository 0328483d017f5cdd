"""A fleet that grew by hand can be written down, and what was written down changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from poolsql.configuration.changes import ADOPTED, Action
from poolsql.configuration.showing import fleet_toml
from poolsql.leasing import registry
from poolsql.leasing.policy import PoolPolicy
from poolsql.operations.importing import import_profiles
from poolsql.scheduling.jobs import define_job
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.schedules import parse_schedule
from tests.integration.configuration.conftest import Declared
from tests.integration.configuration.test_apply import SHOP

EXTRACT: dict[str, Any] = {"title": {"css": 'h1[title="a\\"b"]', "required": False}}
LIST = {"list": ["https://a.test/1", {"url": "https://b.test:8443/", "parameters": {"n": 1.5, "on": True, "é\n": ""}}]}
SCHEDULES: dict[str, Any] = {
    "cron": "*/5 * * * *",
    "zoned": "30 2 * * *",
    "every": {"every": 90061.5},
    "once": {"once": "2999-01-01T00:00:00Z"},
    "by hand": None,
}


def grow(declared: Declared) -> None:
    """Define a fleet by code, with a bit of everything."""
    policy = PoolPolicy.from_values(ttl="95.25s", rest="1ms", retire_after=None, retire_rate=0.5, max_age="400d")
    shop = registry.define_pool(declared.database, "shop", policy)
    registry.define_pool(declared.database, 'plain "pool"', PoolPolicy())
    local: dict[str, Any] = {"kind": "local", "pins_machine": True}
    registry.define_launcher(declared.database, "one", **local, options={"headless": False}, machines=["a b"])
    registry.define_launcher(declared.database, "two", **local, options={"args": [], "sandbox": None}, machines=None)
    server = {"server": "http://p.test:1", "username": "ü", "secret": "env:PROXY_OF_TESTS"}
    registry.define_proxy(declared.database, "pinned", **server, shared=False)
    registry.define_proxy(declared.database, "common", **server, shared=True)
    registry.add_profile(declared.database, shop, "a", launcher="one", proxy="pinned", seed="7", tags=["z", "a"])
    registry.add_profile(declared.database, shop, "b", launcher="one", proxy="common", options={"headless": True})
    registry.add_profile(declared.database, shop, "c", launcher="one", new=True)
    registry.add_profile(declared.database, shop, "d", launcher="two")
    import_profiles(declared.database, [f"i{n}" for n in range(50)], pool="shop", launcher="two", tags=["x"], who="me")
    declared.execute("UPDATE poolsql.profiles SET state = 'paused' WHERE key = 'i7'")
    declared.execute("INSERT INTO poolsql.hosts (name, delay) VALUES ('a.test', interval '2.5 s'), ('c.test', NULL)")
    with declared.database.transaction() as connection:
        for name, schedule in SCHEDULES.items():
            define_job(
                connection,
                name,
                pool_id=shop.id,
                schedule=parse_schedule(schedule, zone="Europe/Berlin" if name == "zoned" else "UTC"),
                definition={"targets": LIST, "extract": EXTRACT, "task_timeout": "90s", "launch": {"headless": True}},
                overlap=name == "cron",
                misfire=Misfire.ALL if name == "every" else Misfire.LATEST,
                misfire_grace=timedelta(hours=1) if name == "every" else None,
            )


def test_a_fleet_that_was_written_down_is_the_same(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_OF_TESTS", "secret-of-tests-3")
    grow(declared)
    written = fleet_toml(declared.database)
    planned = declared.plan(written)
    assert [str(change) for change in planned.changes if change.action is not Action.CHANGE or change.differences] == [
        "+ host b.test:8443"
    ]
    assert {change.note for change in planned.changes} == {"", ADOPTED}
    assert len(planned.changes) == 2 + 2 + 2 + 2 + 54 + 5
    declared.apply(written)
    assert declared.plan(written, prune=True).lines() == []
    assert fleet_toml(declared.database) == written


def test_a_fleet_that_was_declared_reads_like_its_file(declared: Declared) -> None:
    declared.apply(SHOP)
    written = fleet_toml(declared.database)
    assert declared.plan(written, prune=True).lines() == []
    assert "[pools.shop]\n\n" in written
    assert '[hosts."shop.example"]\ndelay = "2s"\n' in written
    assert 'schedule = { every = "10m" }' in written


def test_many_profiles_that_are_alike_share_a_table(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROXY_OF_TESTS", "secret-of-tests-3")
    grow(declared)
    written = fleet_toml(declared.database)
    assert written.count("[[profiles]]") == 5
    assert "secret-of-tests-3" not in written


def test_retired_profiles_are_left_out(declared: Declared) -> None:
    declared.apply(SHOP)
    declared.execute("UPDATE poolsql.profiles SET state = 'retired' WHERE key = 'a'")
    written = fleet_toml(declared.database)
    assert written.count("[[profiles]]") == 1
    assert declared.plan(written, prune=True).lines() == []


def test_what_only_retired_profiles_had_is_left_out_unless_a_file_declares_it(declared: Declared) -> None:
    declared.apply(SHOP)
    declared.execute("UPDATE poolsql.profiles SET state = 'retired'")
    assert "[launchers.chromium]" in fleet_toml(declared.database)
    declared.execute("UPDATE poolsql.launchers SET declared = false")
    declared.execute("UPDATE poolsql.proxies SET declared = (name = 'isp1')")
    written = fleet_toml(declared.database)
    assert "launchers" not in written
    assert "[proxies.isp1]" in written
    assert "[proxies.isp2]" not in written


def test_an_empty_database_is_an_empty_file(declared: Declared) -> None:
    assert fleet_toml(declared.database) == ""
