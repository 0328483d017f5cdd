"""``poolsql profile why``: one line that names the reason and its end."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from poolsql.leasing.outcomes import Outcome
from tests.fixtures.fleets import Desk
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

HOUR = "clock_timestamp() + interval '1 hour'"

STORED = {
    "new": (
        (
            "UPDATE poolsql.profiles SET state = 'new', state_changed_at = clock_timestamp() - interval '2 hours' "
            "WHERE id = :profile"
        ),
        "new 2h ago, waits to be activated",
        False,
    ),
    "paused": (
        (
            "UPDATE poolsql.profiles SET state = 'paused', state_reason = 'looks odd', state_changed_by = 'eva', "
            "state_changed_at = clock_timestamp() - interval '2 hours' WHERE id = :profile"
        ),
        "paused 2h ago by eva: looks odd",
        False,
    ),
    "retired": (
        (
            "UPDATE poolsql.profiles SET state = 'retired', state_reason = 'used 5 times', "
            "state_changed_by = 'poolsql', state_changed_at = clock_timestamp() - interval '3 days' WHERE id = :profile"
        ),
        "retired 3d ago by poolsql: used 5 times",
        False,
    ),
    "breaker": (
        (
            f"UPDATE poolsql.launchers SET breaker_open_until = {HOUR}, breaker_reason = 'check the base URL' "
            "WHERE name = :launcher"
        ),
        "launcher LAUNCHER starts nothing, back in 1h: check the base URL",
        True,
    ),
    "held": (
        (
            f"UPDATE poolsql.profiles SET available_at = {HOUR}, waits_for = 'hold', last_outcome = 'proxy_failed' "
            "WHERE id = :profile"
        ),
        "held back after proxy_failed, back in 1h",
        True,
    ),
    "resting": (
        (
            f"UPDATE poolsql.profiles SET available_at = {HOUR}, waits_for = 'rest', last_outcome = 'success' "
            "WHERE id = :profile"
        ),
        "resting after success, back in 1h",
        True,
    ),
    "cooling": (
        (
            f"UPDATE poolsql.profiles SET available_at = {HOUR}, waits_for = 'cooldown', "
            "last_outcome = 'session_lost', needs_person_since = clock_timestamp() WHERE id = :profile"
        ),
        "cooling after session_lost, back in 1h; its login is gone and needs a person",
        True,
    ),
    "pool_paused": (
        (
            "UPDATE poolsql.pools SET paused_at = clock_timestamp() - interval '5 minutes', pause_reason = 'deploy' "
            "WHERE id = :pool"
        ),
        "its pool POOL was paused 5m ago: deploy",
        False,
    ),
}

ON_HOST = {
    "cooling": (
        (
            "INSERT INTO poolsql.cooldowns (profile_id, host, until, in_a_row, outcome, set_at) "
            f"VALUES (:profile, :host, {HOUR}, 1, 'captcha', clock_timestamp())"
        ),
        "cooling on HOST after captcha, back in 1h",
        True,
    ),
    "host_paused": (
        f"INSERT INTO poolsql.hosts (name, paused_until, pause_reason) VALUES (:host, {HOUR}, 'rate_limited')",
        "host HOST is paused for 1h more: rate_limited",
        True,
    ),
    "host_stopped": (
        (
            "INSERT INTO poolsql.hosts (name, stopped_at, stop_reason) "
            "VALUES (:host, clock_timestamp() - interval '2 days', 'they asked us to')"
        ),
        "host HOST was stopped 2d ago: they asked us to",
        False,
    ),
}


def store(desk: Desk, statement: str) -> None:
    facts = {"profile": desk.only, "pool": desk.pool.id, "host": desk.host, "launcher": desk.launcher}
    desk.execute(statement, **{name: value for name, value in facts.items() if f":{name}" in statement})


def expected(desk: Desk, text: str) -> str:
    text = text.replace("LAUNCHER", desk.launcher).replace("HOST", desk.host).replace("POOL", desk.pool.name)
    return f"{desk.launcher}/{desk.profile(desk.only).key}: {text}"


@pytest.mark.parametrize("reason", STORED)
def test_it_names_the_reason_and_its_end(calls: Calls, desk: Desk, reason: str) -> None:
    statement, text, ends = STORED[reason]
    store(desk, statement)
    assert calls("profile", "why", desk.only).line == expected(desk, text)
    told = calls("profile", "why", desk.only, "--json").json
    assert (told["id"], told["reason"], told["until"] is not None) == (desk.only, reason, ends)
    assert f"{told['profile']}: {told['text']}" == expected(desk, text)


@pytest.mark.parametrize("reason", ON_HOST)
def test_it_names_what_keeps_it_from_one_host(calls: Calls, desk: Desk, reason: str) -> None:
    statement, text, ends = ON_HOST[reason]
    store(desk, statement)
    assert calls("profile", "why", desk.only).line == expected(desk, "available")
    assert calls("profile", "why", desk.only, "--host", f"https://{desk.host.upper()}/page").line == expected(
        desk, text
    )
    told = calls("profile", "why", desk.only, "--host", desk.host, "--json").json
    assert (told["reason"], told["until"] is not None) == (reason, ends)


def test_a_leased_one_names_its_holder(calls: Calls, desk: Desk) -> None:
    granted = desk.granted(task="sku-1")
    line = calls("profile", "why", desk.only).line
    pattern = rf"leased by process {desk.worker.pid} on here for sku-1 since [\d.]+m?s \(lease {granted.lease_id}\)"
    assert re.search(f": {pattern}$", line)
    store(desk, STORED["pool_paused"][0])
    assert calls("profile", "why", desk.only).line.endswith(f"; its pool {desk.pool.name} is paused too")


def test_a_reclaiming_one_names_what_its_stop_waits_for(calls: Calls, desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted, machine="far")
    desk.expire(granted.lease_id)
    desk.reaper().run_once()
    desk.execute(
        "UPDATE poolsql.leases SET reclaim_tries = 3, reclaim_note = 'its API is away', "
        "reclaim_since = clock_timestamp() - interval '1 hour' WHERE id = :id",
        id=granted.lease_id,
    )
    assert calls("profile", "why", desk.only).line == expected(
        desk, "reclaiming since 1h: its browser on far is not proven stopped after 3 tries: its API is away"
    )


def test_where_it_can_be_driven(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk()
    desk.execute("UPDATE poolsql.profiles SET machine = 'a' WHERE id = :id", id=desk.only)
    assert calls("profile", "why", desk.only).line == expected(desk, "available, on a only")
    assert calls("profile", "why", desk.only, "--machine", "a").line == expected(desk, "available")
    told = calls("profile", "why", desk.only, "--machine", "b").line
    assert told == expected(desk, "machine b cannot drive it, on a only")


def test_after_a_real_failure(calls: Calls, desk: Desk) -> None:
    desk.go(Outcome.BLOCKED, host=desk.host)
    line = calls("profile", "why", desk.only, "--host", desk.host).line
    assert re.search(r": host \S+ is paused for 1[45]m[\d]*s? more: blocked$", line)


@pytest.mark.parametrize("host", ["shop.example/page", "shop example", "", "me:secret@shop.example"])
def test_what_is_no_host(calls: Calls, desk: Desk, host: str) -> None:
    refused = calls("profile", "why", desk.only, "--host", host)
    assert refused.refusal
    assert "secret" not in refused.errors
