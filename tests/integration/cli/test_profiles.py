"""``poolsql profile``."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from poolsql.leasing import registry
from poolsql.leasing.outcomes import Outcome
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def key_of(desk: Desk, profile_id: int | None = None) -> str:
    return str(desk.profile(profile_id if profile_id is not None else desk.only).key)


def test_profiles_are_listed_with_what_each_waits_for(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=3)
    free, leased, cooling = desk.profile_ids
    desk.granted(profile_id=leased)
    desk.go(Outcome.BLOCKED, profile_id=cooling)
    listed = calls("profile", "list", "--pool", desk.pool.name)
    assert listed.code == 0
    heading, *rows = listed.table
    assert heading[:6] == ["ID", "POOL", "PROFILE", "LAUNCHER", "STATE", "BACK IN"]
    by_id = {row[0]: dict(zip(heading, row, strict=True)) for row in rows}
    assert {number: row["STATE"] for number, row in by_id.items()} == {
        str(free): "available",
        str(leased): "leased",
        str(cooling): "cooling",
    }
    assert by_id[str(free)]["BACK IN"] == by_id[str(leased)]["BACK IN"] == "-"
    assert by_id[str(cooling)]["BACK IN"].startswith("1")
    assert by_id[str(cooling)]["LAST"] == "blocked"

    told = {row["id"]: row for row in calls("profile", "list", "--pool", desk.pool.name, "--json").json}
    assert told[cooling]["reason"] == "cooling"
    assert 890 < told[cooling]["free_in"] < 1200
    assert told[cooling]["free_at"].endswith("Z")
    assert (told[free]["state"], told[free]["free_at"], told[free]["tags"]) == ("active", None, [])


def test_a_list_can_be_narrowed(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    plain, retired = desk.profile_ids
    (tagged,) = desk.add_profiles(1, tags=["de", "win11"])
    desk.execute("UPDATE poolsql.profiles SET state = 'retired' WHERE id = :id", id=retired)

    def ids(*options: str) -> set[int]:
        return {row["id"] for row in calls("profile", "list", "--pool", desk.pool.name, "--json", *options).json}

    assert ids() == {plain, tagged, retired}
    assert ids("--tag", "de") == ids("--tag", "win11", "--tag", "de") == {tagged}
    assert ids("--state", "retired") == ids("--reason", "retired") == {retired}
    assert ids("--launcher", desk.launcher, "--reason", "available") == {plain, tagged}
    assert calls("profile", "list", "--pool", desk.pool.name, "--tag", "fr").line == "no profiles"
    assert calls("profile", "list", "--launcher", desk.launcher[:-1]).refusal.endswith(
        f"did you mean {desk.launcher!r}?"
    )


def test_a_profile_is_shown_with_cooldowns_and_attempts(calls: Calls, desk: Desk) -> None:
    attempt = desk.go(Outcome.BLOCKED, host=desk.host)
    shown = calls("profile", "show", key_of(desk))
    assert shown.code == 0
    facts, cooldowns, attempts = shown.out.split("\n\n")
    assert facts.startswith("id ")
    assert cooldowns.startswith("COOLS DOWN ON")
    assert attempts.startswith("LEASE")
    assert f"key                   {key_of(desk)}\n" in shown.out
    assert any(line.startswith(desk.host) and "blocked" in line for line in shown.out.splitlines())
    told = calls("profile", "show", desk.only, "--json").json
    assert told["profile"]["id"] == desk.only
    assert [cooldown["host"] for cooldown in told["cooldowns"]] == [desk.host]
    assert [one["lease_id"] for one in told["attempts"]] == [attempt.lease_id]


def test_every_change_of_state_is_made_once_and_audited(calls: Calls, desk: Desk) -> None:
    name, mark = f"{desk.launcher}/{key_of(desk)}", last_audit(desk)
    desk.execute("UPDATE poolsql.profiles SET state = 'new' WHERE id = :id", id=desk.only)
    for verb, state in (
        ("activate", "active"),
        ("pause", "paused"),
        ("resume", "active"),
        ("retire", "retired"),
        ("restore", "active"),
    ):
        assert calls("profile", verb, desk.only, "--reason", f"to {verb}").line == f"profile {name} is {state}"
        assert desk.profile(desk.only).state == state
        assert calls("profile", verb, key_of(desk)).line == f"profile {name} is {state} already"
        again = calls("profile", verb, name, "--json").json
        assert again == {"id": desk.only, "profile": name, "state": state, "changed": False}
    assert audited_since(desk, mark) == [
        ("ann@here", f"profile {verb}", key_of(desk), f"to {verb}")
        for verb in ("activate", "pause", "resume", "retire", "restore")
    ]


def test_a_change_that_does_not_fit_is_refused(calls: Calls, desk: Desk) -> None:
    calls("profile", "retire", desk.only)
    assert calls("profile", "pause", desk.only).refusal.startswith(f"pause: profile {key_of(desk)} is retired; only")


@pytest.mark.parametrize("verb", ["show", "why", "activate", "pause", "resume", "retire", "restore"])
def test_a_profile_that_does_not_exist(calls: Calls, desk: Desk, verb: str) -> None:
    key = key_of(desk)
    mark = last_audit(desk)
    refusal = calls("profile", verb, key[:-1]).refusal
    assert refusal.startswith(f"there is no profile {key[:-1]!r}; did you mean 'p-")
    assert audited_since(desk, mark) == []


def test_a_key_of_two_launchers_has_to_be_told_apart(calls: Calls, desk: Desk) -> None:
    other = f"{desk.launcher}-2"
    registry.define_launcher(desk.database, other, kind="local", pins_machine=True, options={}, machines=None)
    second = registry.add_profile(desk.database, desk.pool, key_of(desk), launcher=other)
    refusal = calls("profile", "pause", key_of(desk)).refusal
    assert f"{desk.launcher}/{key_of(desk)} (id {desk.only}), {other}/{key_of(desk)} (id {second})" in refusal
    assert calls("profile", "pause", f"{other}/{key_of(desk)}").code == 0
    assert desk.profile(second).state == "paused"
    assert desk.profile(desk.only).state == "active"


def test_a_key_that_is_the_id_of_another_has_to_be_told_apart(calls: Calls, desk: Desk) -> None:
    second = registry.add_profile(desk.database, desk.pool, str(desk.only), launcher=desk.launcher)
    assert "could be any of" in calls("profile", "why", desk.only).refusal
    assert calls("profile", "why", second).code == calls("profile", "why", f"{desk.launcher}/{desk.only}").code == 0


def test_profiles_are_imported_from_a_list_of_ids(calls: Calls, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    mark, to = last_audit(desk), ("--pool", desk.pool.name, "--launcher", desk.launcher)

    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    given("one\ntwo # the second\n")
    line = calls("profile", "import", *to, "--tag", "de", "--new").line
    assert line == f"2 profiles were added to pool {desk.pool.name}"
    given("two\nthree\n")
    assert calls("profile", "import", "-", *to, "--json").json == {"added": 1, "already_there": 1}
    rows = desk.all(
        "SELECT key, state, tags FROM poolsql.profiles WHERE pool_id = :pool ORDER BY id", pool=desk.pool.id
    )
    assert [tuple(row) for row in rows[1:]] == [
        ("one", "new", ["de"]),
        ("two", "new", ["de"]),
        ("three", "active", []),
    ]
    assert [entry[:2] for entry in audited_since(desk, mark)] == [("ann@here", "profile import")] * 2
    given("one\n")
    assert (
        "did you mean" in calls("profile", "import", "--pool", desk.pool.name, "--launcher", desk.launcher[1:]).refusal
    )
