"""What fleet.toml says becomes what the database says, once, and undoes nothing that an operator did."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from poolsql.configuration.applying import apply_plan
from poolsql.database.engine import transaction_on
from poolsql.database.locks import Lock, wait_for_transaction_lock
from poolsql.errors import DatabaseError
from poolsql.leasing import registry
from poolsql.leasing.retirement import change_state
from tests.fixtures.locks import watched
from tests.integration.configuration.conftest import Declared

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

SHOP = """
[pools.shop]
ttl = "90s"
[launchers.chromium]
headless = true
[proxies.isp1]
server = "http://198.51.100.7:8000"
[proxies.isp2]
server = "http://198.51.100.8:8000"
[[profiles]]
pool = "shop"
launcher = "chromium"
id = "a"
proxy = "isp1"
tags = ["win11", "de"]
[[profiles]]
pool = "shop"
launcher = "chromium"
id = "b"
proxy = "isp2"
state = "new"
[hosts."shop.example"]
delay = "2s"
[jobs.prices]
pool = "shop"
schedule = { every = "10m" }
targets = { list = ["https://shop.example/p/1"] }
extract = { title = "h1" }
"""


def test_a_new_fleet_is_written_whole(declared: Declared) -> None:
    assert declared.apply(SHOP, reason="first") == [
        "+ pool shop",
        "+ launcher chromium",
        "+ proxy isp1",
        "+ proxy isp2",
        "+ host shop.example",
        "+ profile chromium/a",
        "+ profile chromium/b (new: it waits for profile activate)",
        "+ job prices",
    ]
    rows = declared.all(
        "SELECT key, state, tags, proxy_id = exclusive_proxy_id AS pinned, declared FROM poolsql.profiles ORDER BY key"
    )
    assert [tuple(row) for row in rows] == [
        ("a", "active", ["de", "win11"], True, True),
        ("b", "new", [], True, True),
    ]
    assert [row.tag for row in declared.all("SELECT tag FROM poolsql.profile_tags ORDER BY tag")] == ["de", "win11"]
    for table in ("pools", "launchers", "proxies", "hosts", "jobs"):
        assert declared.one(f"SELECT bool_and(declared) AS all FROM poolsql.{table}").all is True
    job = declared.one("SELECT * FROM poolsql.jobs")
    assert job.schedule == {"every": 600}
    assert job.definition == {"targets": {"list": ["https://shop.example/p/1"]}, "extract": {"title": "h1"}}
    audited = declared.one("SELECT who, action, subject, reason FROM poolsql.audit")
    assert (audited.who, audited.action, audited.reason) == ("ann@here", "apply", "first")
    assert audited.subject.startswith("fleet.toml: 8 added; + pool shop; + launcher chromium;")


def test_applying_twice_changes_no_row(declared: Declared) -> None:
    declared.apply(SHOP)
    before = declared.picture()
    planned = declared.plan(SHOP)
    assert (planned.lines(), planned.summary()) == ([], "nothing to change")
    apply_plan(declared.database, declared.settings, planned, who="ann@here")
    assert declared.picture() == before


def test_planning_changes_nothing(declared: Declared) -> None:
    before = declared.picture()
    assert len(declared.plan(SHOP).lines()) == 8
    assert declared.picture() == before


def test_each_difference_is_named_and_written(declared: Declared) -> None:
    declared.apply(SHOP)
    changed = (
        SHOP.replace('ttl = "90s"', 'ttl = "2m"\nretire_after = "off"')
        .replace("headless = true", 'headless = false\nmachines = ["here"]')
        .replace("198.51.100.8:8000", "198.51.100.9:8000")
        .replace('tags = ["win11", "de"]', 'tags = ["de", "linux"]\nseed = "7"\nheadless = false')
        .replace('delay = "2s"', "")
        .replace('{ every = "10m" }', '"0 6 * * *"')
        .replace('title = "h1"', 'title = "h2"')
    )
    assert declared.apply(changed) == [
        "~ pool shop: ttl 1m30s → 2m, retire_after 5 → none",
        '~ launcher chromium: machines none → ["here"], headless true → false',
        "~ proxy isp2: server http://198.51.100.8:8000 → http://198.51.100.9:8000",
        "~ host shop.example: delay 2s → none",
        '~ profile chromium/a: tags ["de", "win11"] → ["de", "linux"], seed none → 7, headless none → false',
        '~ job prices: schedule every 10m → cron 0 6 * * * (UTC), extract {"title": "h1"} → {"title": "h2"}',
    ]
    assert declared.plan(changed).summary() == "nothing to change"
    tags = declared.all("SELECT tag FROM poolsql.profile_tags ORDER BY tag")
    assert [row.tag for row in tags] == ["de", "linux"]


def test_two_profiles_can_change_places_behind_their_proxies(declared: Declared) -> None:
    declared.apply(SHOP)
    swapped = SHOP.replace('"isp1"\n', '"isp0"\n').replace('"isp2"\n', '"isp1"\n').replace('"isp0"\n', '"isp2"\n')
    assert declared.apply(swapped) == [
        "~ profile chromium/a: proxy isp1 → isp2",
        "~ profile chromium/b: proxy isp2 → isp1",
    ]
    rows = declared.all(
        "SELECT key, name FROM poolsql.profiles JOIN poolsql.proxies ON proxies.id = exclusive_proxy_id ORDER BY key"
    )
    assert [tuple(row) for row in rows] == [("a", "isp2"), ("b", "isp1")]


def test_a_proxy_can_become_shared_and_pinned_again(declared: Declared) -> None:
    declared.apply(SHOP)
    pins = "SELECT count(exclusive_proxy_id) AS pinned FROM poolsql.profiles"
    shared = SHOP.replace('198.51.100.7:8000"', '198.51.100.7:8000"\nshared = true')
    declared.apply(shared.replace('proxy = "isp2"', 'proxy = "isp1"'))
    assert declared.one(pins).pinned == 0
    declared.apply(SHOP)
    assert declared.one(pins).pinned == 2


def test_what_an_operator_did_to_a_profile_stays(declared: Declared) -> None:
    declared.apply(SHOP)
    ids = {row.key: row.id for row in declared.all("SELECT id, key FROM poolsql.profiles")}
    change_state(declared.database, ids["a"], "retire", who="bob", reason="worn")
    change_state(declared.database, ids["b"], "activate", who="bob")
    planned = declared.plan(SHOP.replace('tags = ["win11", "de"]', 'tags = ["x"]'))
    assert planned.notes == ["a is retired and will stay so: poolsql profile restore"]
    apply_plan(declared.database, declared.settings, planned, who="ann")
    rows = declared.all("SELECT state, state_reason, state_changed_by, tags FROM poolsql.profiles ORDER BY key")
    assert [tuple(row) for row in rows] == [("retired", "worn", "bob", ["x"]), ("active", None, "bob", [])]


def test_a_job_keeps_its_pause_and_its_place_in_time(declared: Declared) -> None:
    declared.apply(SHOP)
    declared.execute("UPDATE poolsql.jobs SET paused_at = clock_timestamp(), pause_reason = 'holiday'")
    before = declared.one("SELECT id, fired_through, paused_at, created_at FROM poolsql.jobs")
    declared.apply(SHOP.replace('title = "h1"', 'title = "h2"'))
    after = declared.one("SELECT id, fired_through, paused_at, created_at FROM poolsql.jobs")
    assert after == before
    declared.apply(SHOP.replace('"10m"', '"20m"'))
    assert declared.one("SELECT fired_through FROM poolsql.jobs").fired_through > before.fired_through


def test_what_is_gone_from_the_file_is_listed_and_kept(declared: Declared) -> None:
    declared.apply(SHOP)
    before = declared.picture()
    planned = declared.plan("")
    assert planned.lines() == [
        "- job prices (not in the file; --prune removes it)",
        "- profile chromium/a (not in the file; --prune retires it)",
        "- profile chromium/b (not in the file; --prune retires it)",
        "- host shop.example (not in the file; --prune forgets it)",
        "- proxy isp1 (not in the file; --prune removes it)",
        "- proxy isp2 (not in the file; --prune removes it)",
        "- launcher chromium (not in the file; --prune removes it)",
        "- pool shop (not in the file; --prune removes it)",
    ]
    assert planned.summary() == "nothing to change; 8 not in the file"
    apply_plan(declared.database, declared.settings, planned, who="ann")
    assert declared.picture() == before


def test_pruning_removes_what_nothing_refers_to(declared: Declared) -> None:
    lonely = '[pools.empty]\n[launchers.idle]\n[proxies.spare]\nserver = "http://192.0.2.1:1"\n'
    declared.apply(SHOP + lonely)
    assert declared.apply("", prune=True) == [
        "- job prices (fires no more; its results stay)",
        "- profile chromium/a (retired)",
        "- profile chromium/b (retired)",
        "- host shop.example (its delay is the usual one again)",
        "- proxy isp1 (kept, but not declared any more: 1 profile refers to it)",
        "- proxy isp2 (kept, but not declared any more: 1 profile refers to it)",
        "- proxy spare (deleted)",
        "- launcher chromium (kept, but not declared any more: 2 profiles refer to it)",
        "- launcher idle (deleted)",
        "- pool empty (deleted)",
        "- pool shop (kept, but not declared any more: 2 profiles and 1 job refer to it)",
    ]
    rows = declared.all(
        "SELECT key, state, state_reason, state_changed_by, declared FROM poolsql.profiles ORDER BY key"
    )
    assert [tuple(row) for row in rows] == [
        (key, "retired", "not in fleet.toml", "ann@here", False) for key in ("a", "b")
    ]
    assert declared.one("SELECT removed_at IS NOT NULL AS removed FROM poolsql.jobs").removed is True
    assert tuple(declared.one("SELECT declared, delay FROM poolsql.hosts")) == (False, None)
    assert [row.name for row in declared.all("SELECT name FROM poolsql.pools")] == ["shop"]
    assert [row.name for row in declared.all("SELECT name FROM poolsql.launchers")] == ["chromium"]
    assert [row.name for row in declared.all("SELECT name FROM poolsql.proxies ORDER BY 1")] == ["isp1", "isp2"]
    assert declared.plan("", prune=True).summary() == "nothing to change"


def test_a_job_that_was_pruned_can_come_back(declared: Declared) -> None:
    declared.apply(SHOP)
    declared.apply(SHOP[: SHOP.index("[jobs.prices]")], prune=True)
    assert "+ job prices" in declared.apply(SHOP)
    assert declared.one("SELECT removed_at FROM poolsql.jobs").removed_at is None


def test_a_proxy_is_deleted_when_its_profile_has_got_another(declared: Declared) -> None:
    declared.apply(SHOP)
    without = SHOP.replace('[proxies.isp2]\nserver = "http://198.51.100.8:8000"\n', "").replace('proxy = "isp2"\n', "")
    assert declared.apply(without, prune=True) == ["~ profile chromium/b: proxy isp2 → none", "- proxy isp2 (deleted)"]
    assert [row.name for row in declared.all("SELECT name FROM poolsql.proxies")] == ["isp1"]


def test_what_was_never_declared_is_none_of_its_business(declared: Declared) -> None:
    pool = registry.define_pool(declared.database, "by-hand", declared.plan(SHOP).file.pools["shop"].policy)
    registry.define_launcher(declared.database, "other", kind="local", pins_machine=True, options={}, machines=None)
    registry.add_profile(declared.database, pool, "x", launcher="other")
    declared.execute("INSERT INTO poolsql.hosts (name, delay) VALUES ('else.example', interval '9 s')")
    declared.apply(SHOP)
    assert declared.plan(SHOP, prune=True).lines() == []


def test_what_was_there_before_is_adopted_when_the_file_names_it(declared: Declared) -> None:
    file = declared.plan(SHOP).file
    pool = registry.define_pool(declared.database, "shop", file.pools["shop"].policy)
    registry.define_launcher(
        declared.database, "chromium", kind="local", pins_machine=True, options={"headless": True}, machines=None
    )
    registry.add_profile(declared.database, pool, "a", launcher="chromium", tags=["de", "win11"])
    lines = declared.apply(SHOP)
    assert "~ pool shop (stands in the file now)" in lines
    assert "~ launcher chromium (stands in the file now)" in lines
    assert "~ profile chromium/a: proxy none → isp1 (stands in the file now)" in lines
    assert declared.plan(SHOP).summary() == "nothing to change"


def test_a_file_may_refer_to_what_only_the_database_has(declared: Declared) -> None:
    declared.apply(SHOP)
    declared.execute("UPDATE poolsql.pools SET declared = false")
    declared.execute("UPDATE poolsql.launchers SET declared = false")
    assert "+ profile chromium/c" in declared.apply('[[profiles]]\npool = "shop"\nlauncher = "chromium"\nid = "c"\n')


def test_two_at_once_do_not_meet(declared: Declared, threads: ThreadPoolExecutor) -> None:
    planned = declared.plan(SHOP)
    done = list(
        threads.map(
            lambda number: apply_plan(declared.database, declared.settings, planned, who=f"ann {number}"), range(4)
        )
    )
    assert sorted(len(one.changes) for one in done) == [0, 0, 0, 8]
    assert declared.one("SELECT count(*) FROM poolsql.audit").count == 1


def test_another_that_does_not_end_is_told(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poolsql.configuration.applying.PATIENCE", 0.3)
    planned = declared.plan(SHOP)
    with declared.database.connect() as connection, transaction_on(connection):
        wait_for_transaction_lock(connection, Lock.APPLY, patience=0)
        with pytest.raises(DatabaseError, match=r"holding the lock APPLY for over 0.3 s"):
            apply_plan(declared.database, declared.settings, planned, who="ann")
    assert declared.one("SELECT count(*) FROM poolsql.pools").count == 0


def test_the_lock_is_held_until_all_of_it_is_committed(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    declared.apply(SHOP)
    pruned = declared.plan('[pools.shop]\nttl = "60s"\n', prune=True)
    with watched(declared.database, Lock.APPLY, monkeypatch) as watch:
        apply_plan(declared.database, declared.settings, pruned, who="ann")
    changes = watch.check()
    watch.check_that_the_holder_does_the_work()
    for table in ("pools", "profiles", "jobs", "audit"):
        assert any(f"poolsql.{table}" in change for change in changes), table
    assert changes[-1].startswith("COMMIT")


def test_many_profiles_are_told_in_one_line_and_applied_in_a_moment(declared: Declared) -> None:
    ids = ", ".join(f'"p{number}"' for number in range(3000))
    file = SHOP + f'[[profiles]]\npool = "shop"\nlauncher = "chromium"\nids = [{ids}]\ntags = ["x", "y"]\n'
    assert "+ 3,001 profiles of launcher chromium in pool shop" in declared.apply(file)
    assert declared.plan(file).summary() == "nothing to change"
    assert declared.one("SELECT count(*) FROM poolsql.profile_tags WHERE tag = 'y'").count == 3000
