"""``poolsql pool``."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from poolsql.cli import pool as pool_commands
from poolsql.leasing.outcomes import Outcome
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_the_status_counts_by_reason_and_names_a_shortfall(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=3, target_size=20)
    desk.granted()
    assert calls("pool", "status", desk.pool.name).line == f"{desk.pool.name}: 2 available, 1 leased; 17 short of 20"
    (told,) = calls("pool", "status", desk.pool.name, "--json").json
    assert told.pop("now")
    assert told == {
        "id": desk.pool.id,
        "name": desk.pool.name,
        "active": 3,
        "target_size": 20,
        "short": 17,
        "counts": {"available": 2, "leased": 1},
        "next_free_at": None,
        "paused_at": None,
        "pause_reason": None,
    }


def test_profiles_that_are_not_in_use_are_no_part_of_the_target(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2, target_size=2)
    desk.execute("UPDATE poolsql.profiles SET state = 'retired' WHERE id = :id", id=desk.profile_ids[0])
    line = calls("pool", "status", desk.pool.name).line
    assert line == f"{desk.pool.name}: 1 available, 1 retired; 1 short of 2"


def test_the_status_tells_when_the_next_is_back_if_none_is_available(calls: Calls, desk: Desk) -> None:
    attempt = desk.go(Outcome.BLOCKED)
    assert calls("pool", "status", desk.pool.name).line.startswith(f"{desk.pool.name}: 1 cooling; next back in 1")
    (told,) = calls("pool", "status", desk.pool.name, "--json").json
    assert datetime.fromisoformat(told["next_free_at"]) == attempt.available_at
    assert told["next_free_at"].endswith("Z")


def test_without_a_name_all_pools_are_told(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    names = sorted(new_desk(profiles=number).pool.name for number in (0, 1))
    told = calls("pool", "status")
    assert told.code == 0
    lines = [line for line in told.out.splitlines() if line.split(":")[0] in names]
    assert [line.split(":")[0] for line in lines] == names
    assert any(line.endswith(": no profiles") for line in lines)
    assert set(names) <= {pool["name"] for pool in calls("pool", "status", "--json").json}


def test_a_pool_is_paused_and_resumed_once_and_audited(calls: Calls, desk: Desk) -> None:
    name, mark = desk.pool.name, last_audit(desk)
    assert calls("pool", "pause", name, "--reason", "deploy").line == f"pool {name} is paused"
    assert desk.grant() is None
    assert calls("pool", "pause", name, "--reason", "other").line == f"pool {name} is paused already"
    line = calls("pool", "status", name).line
    assert line.startswith(f"{name}: 1 pool paused; paused ")
    assert line.endswith(" ago: deploy")
    assert calls("pool", "resume", name, "--who", "eva", "--json").json == {"pool": name, "changed": True}
    assert calls("pool", "resume", name, "--json").json == {"pool": name, "changed": False}
    assert desk.grant() is not None
    assert audited_since(desk, mark) == [
        ("ann@here", "pool pause", name, "deploy"),
        ("eva", "pool resume", name, None),
    ]


@pytest.mark.parametrize("verb", ["status", "pause", "resume", "drain"])
def test_a_pool_that_does_not_exist(calls: Calls, desk: Desk, verb: str) -> None:
    mark = last_audit(desk)
    nearly = desk.pool.name[:-1]
    assert calls("pool", verb, nearly).refusal.startswith(f"there is no pool '{nearly}'; did you mean 'pool-")
    assert audited_since(desk, mark) == []


def test_draining_waits_until_nobody_holds_a_lease(
    calls: Calls, desk: Desk, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_commands, "LOOK_EVERY", 0.01)
    granted, mark = desk.granted(), last_audit(desk)

    def give_back() -> None:
        paused = "SELECT paused_at FROM poolsql.pools WHERE id = :id"
        until(lambda: desk.one(paused, id=desk.pool.id).paused_at)
        desk.release(granted)

    giving_back = threads.submit(give_back)
    drained = calls("pool", "drain", desk.pool.name, "--reason", "move", "--wait", "30s")
    giving_back.result(30)
    assert (drained.code, drained.out) == (0, f"pool {desk.pool.name} is paused, and drained\n")
    assert drained.errors in ("", f"pool {desk.pool.name}: 1 lease is still held\n")
    assert audited_since(desk, mark) == [("ann@here", "pool pause", desk.pool.name, "move")]
    again = calls("pool", "drain", desk.pool.name)
    assert again.line == f"pool {desk.pool.name} is already paused, and drained"


def test_draining_gives_up_in_time_and_leaves_the_pool_paused(calls: Calls, desk: Desk) -> None:
    desk.granted()
    name = desk.pool.name
    late = calls("pool", "drain", name, "--wait", "0s")
    assert (late.code, late.out) == (1, f"pool {name} is paused, but 1 lease is still held after 0s\n")
    (told,) = calls("pool", "status", name, "--json").json
    assert told["paused_at"] is not None
    assert calls("pool", "drain", name, "--wait", "soon").refusal.startswith("--wait: 'soon' is not a duration")
    assert calls("pool", "drain", name, "--wait", "-1s").refusal.startswith("--wait: ")
