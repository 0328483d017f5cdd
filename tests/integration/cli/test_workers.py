"""``poolsql worker``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from poolsql.launchers.processes import identify
from poolsql.leasing.presence import PRESENCE_CLASS
from poolsql.leasing.worker import Worker, register, sign_off
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def new_worker(desk: Desk, *, machine: str = "here", pid: int | None = None, mark: str | None = None) -> Worker:
    me = identify(os.getpid())
    assert me is not None
    worker = Worker(machine=machine, pid=pid or me.pid, process_started=mark or me.mark, version="test")
    register(desk.database, worker)
    return worker


def stamp(desk: Desk, worker: Worker) -> None:
    """What a daemon leaves behind when one of its loops comes round."""
    desk.execute(
        "INSERT INTO poolsql.loop_stamps (worker_id, loop, machine, every, stamped_at) "
        "VALUES (:id, 'reaper', 'here', '5 seconds', clock_timestamp() - interval '3 minutes')",
        id=worker.id,
    )


def listed(calls: Calls) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in calls("worker", "list", "--json").json}


def test_workers_are_listed_with_their_leases_and_loops(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=1)
    desk.granted()
    mine, far = new_worker(desk), new_worker(desk, machine="far")
    stamp(desk, mine)
    told = listed(calls)
    assert told[str(mine.id)]["alive"] is True
    assert told[str(far.id)]["alive"] is None
    (loop,) = told[str(mine.id)]["loops"]
    assert (loop["loop"], loop["every"], round(loop["age"] / 60)) == ("reaper", 5.0, 3)
    # Its process is not this one, as its mark says, but its lease is still to be taken back.
    holder = told[str(desk.worker.id)]
    assert (holder["alive"], holder["held"], holder["reclaiming"]) == (False, 1, 0)
    heading, *rows = calls("worker", "list").table
    (row,) = [dict(zip(heading, row, strict=True)) for row in rows if row[0] == str(mine.id)]
    assert (row["RUNS"], row["DRAINING"]) == ("yes", "no")
    assert row["LOOPS"].startswith("reaper 3m")


def test_those_that_are_gone_and_hold_nothing_are_not_listed(calls: Calls, desk: Desk) -> None:
    ended, dead, alive = new_worker(desk), new_worker(desk, mark="another"), new_worker(desk)
    sign_off(desk.database, ended)
    assert {str(worker.id) for worker in (ended, dead, alive)} & listed(calls).keys() == {str(alive.id)}


def test_a_worker_is_drained_once_and_audited(calls: Calls, desk: Desk) -> None:
    worker, mark = new_worker(desk), last_audit(desk)
    stamp(desk, worker)
    assert calls("worker", "drain", str(worker.id)[:18], "--reason", "deploy").line == f"worker {worker.id} is draining"
    assert calls("worker", "drain", worker.id).line == f"worker {worker.id} is draining already"
    assert calls("worker", "drain", worker.id, "--json").json == {"id": str(worker.id), "changed": False}
    assert listed(calls)[str(worker.id)]["draining_at"]
    assert audited_since(desk, mark) == [("ann@here", "worker drain", str(worker.id), "deploy")]


def test_a_worker_that_is_no_daemon_cannot_be_drained(calls: Calls, desk: Desk) -> None:
    worker, mark = new_worker(desk, machine="far"), last_audit(desk)
    assert calls("worker", "drain", worker.id).refusal == (
        f"worker {worker.id} is no daemon, so it would go on; end its program itself: process {worker.pid} on far"
    )
    assert listed(calls)[str(worker.id)]["draining_at"] is None
    assert audited_since(desk, mark) == []


def test_a_name_that_fits_none_or_several(calls: Calls, desk: Desk) -> None:
    mark, beginning = last_audit(desk), uuid4().hex[:8]
    for end in "12":
        desk.execute(
            "INSERT INTO poolsql.workers (id, machine, pid, process_started, version) VALUES (:id, 'far', 1, 'x', '1')",
            id=f"{beginning}-0000-0000-0000-00000000000{end}",
        )
    assert f"worker '{beginning}' could be {beginning}-" in calls("worker", "drain", beginning).refusal
    assert calls("worker", "drain", uuid4()).refusal.startswith("there is no worker '")
    assert "there is no worker '%'" in calls("worker", "drain", "%").refusal
    assert audited_since(desk, mark) == []


def test_whether_workers_are_present_is_listed(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=0)
    there, lost, never = new_worker(desk), new_worker(desk), new_worker(desk)
    ids = [there.id, lost.id]
    desk.execute("UPDATE poolsql.workers SET present_at = clock_timestamp() WHERE id = ANY (:ids)", ids=ids)
    (row,) = desk.all("SELECT lock_key FROM poolsql.workers WHERE id = :id", id=there.id)
    with desk.opened() as holder:
        holder.execute("SELECT pg_advisory_xact_lock(%s, %s)", (PRESENCE_CLASS, row.lock_key))
        told = listed(calls)
        heading, *rows = calls("worker", "list").table
    shown = {row[0]: dict(zip(heading, row, strict=True))["PRESENT"] for row in rows}
    assert [told[str(worker.id)]["present"] for worker in (there, lost, never)] == [True, False, None]
    assert [shown[str(worker.id)] for worker in (there, lost, never)] == ["yes", "no", "off"]
