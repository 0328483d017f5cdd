"""``poolsql host``."""

from __future__ import annotations

import pytest

from poolsql.leasing.outcomes import Outcome
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def listed(calls: Calls, host: str) -> dict[str, object]:
    (one,) = [row for row in calls("host", "list", "--json").json if row["name"] == host]
    assert isinstance(one, dict)
    return one


def test_a_host_that_nobody_knows_can_be_paused_and_is_not_loaded_from(calls: Calls, desk: Desk) -> None:
    mark = last_audit(desk)
    line = calls("host", "pause", f"https://{desk.host.upper()}/", "--for", "2h", "--reason", "sale").line
    assert line == f"host {desk.host} is paused for 2h"
    assert desk.grant(host=desk.host) is None
    told = listed(calls, desk.host)
    assert (told["state"], told["pause_reason"], told["stopped_at"]) == ("paused", "sale", None)
    assert audited_since(desk, mark) == [("ann@here", "host pause", desk.host, "sale")]


def test_a_pause_is_made_longer_but_never_cut_short(calls: Calls, desk: Desk) -> None:
    mark = last_audit(desk)
    calls("host", "pause", desk.host, "--for", "2h")
    assert calls("host", "pause", desk.host, "--for", "1m").line == f"host {desk.host} is paused for 2h already"
    told = calls("host", "pause", desk.host, "--for", "1d", "--json").json
    assert (told["changed"], round(told["host"]["paused_for"])) == (True, 86400)
    assert [entry[1] for entry in audited_since(desk, mark)] == ["host pause"] * 2


def test_a_host_is_stopped_and_resumed_once_and_audited(calls: Calls, desk: Desk) -> None:
    mark = last_audit(desk)
    assert calls("host", "stop", desk.host, "--reason", "asked to").line == f"host {desk.host} is stopped"
    assert calls("host", "stop", desk.host).line == f"host {desk.host} is stopped already"
    assert desk.grant(host=desk.host) is None
    heading, *rows = calls("host", "list").table
    (row,) = [dict(zip(heading, row, strict=True)) for row in rows if row[0] == desk.host]
    assert (row["STATE"], row["STOPPED BECAUSE"]) == ("stopped", "asked to")
    assert calls("host", "resume", desk.host, "--who", "eva").line == f"host {desk.host} is open"
    assert calls("host", "resume", desk.host).line == f"host {desk.host} is open already"
    assert desk.grant(host=desk.host) is not None
    assert audited_since(desk, mark) == [
        ("ann@here", "host stop", desk.host, "asked to"),
        ("eva", "host resume", desk.host, None),
    ]


def test_resuming_forgets_what_made_pauses_grow_and_leaves_cooldowns(calls: Calls, desk: Desk) -> None:
    desk.go(Outcome.BLOCKED, host=desk.host)
    before = listed(calls, desk.host)
    assert (before["state"], before["pause_reason"], before["blocks_in_a_row"]) == ("paused", "blocked", 1)
    told = calls("host", "resume", desk.host, "--json").json["host"]
    assert (told["state"], told["blocks_in_a_row"], told["pause_reason"], told["cooling"]) == ("open", 0, None, 1)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["pause", "shop example", "--for", "1h"], "holds a blank"),
        (["stop", "shop.example/page"], "is no host"),
        (["pause", "shop.example", "--for", "soon"], "--for: 'soon' is not a duration"),
        (["pause", "shop.example", "--for", "0s"], "a pause of 0 is none"),
    ],
)
def test_what_cannot_be_right_changes_nothing(calls: Calls, desk: Desk, arguments: list[str], line: str) -> None:
    mark = last_audit(desk)
    refused = calls("host", *arguments)
    assert line in refused.refusal
    assert audited_since(desk, mark) == []


def test_a_host_that_was_never_seen_cannot_be_resumed(calls: Calls, desk: Desk) -> None:
    calls("host", "stop", desk.host)
    refusal = calls("host", "resume", f"x{desk.host}").refusal
    assert refusal.startswith(f"there is no host 'x{desk.host}'; did you mean '")
