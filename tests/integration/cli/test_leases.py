"""``poolsql lease``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.errors import LeaseLostError
from poolsql.leasing.checkout import Grant
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.worker import Worker, register
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


@pytest.fixture(autouse=True)
def nothing_of_another_test(database: Database) -> Iterator[None]:
    """`--all` is about all leases of a database, and a daemon of a machine about all that is its."""
    yield
    with database.connect() as connection:
        for table in ("leases", "loop_stamps"):
            connection.execute(text(f"DELETE FROM poolsql.{table}"))


def key_of(desk: Desk, profile_id: int) -> str:
    return str(desk.profile(profile_id).key)


def test_leases_are_listed_with_their_holders(calls: Calls, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    held, gone = desk.granted(task="sku-1", host="shop.example"), desk.granted()
    desk.start_browser(gone, machine="far")
    desk.expire(gone.lease_id)
    desk.reaper().run_once()
    desk.execute("UPDATE poolsql.leases SET reclaim_note = 'no answer' WHERE id = :id", id=gone.lease_id)

    heading, first, second = calls("lease", "list", "--pool", desk.pool.name).table
    rows = [dict(zip(heading, row, strict=True)) for row in (first, second)]
    assert [row["ID"] for row in rows] == [str(held.lease_id), str(gone.lease_id)]
    assert [row["STATE"] for row in rows] == ["held", "reclaiming"]
    assert (rows[0]["TASK"], rows[0]["HOST"], rows[0]["MACHINE"]) == ("sku-1", "shop.example", "here")
    assert [row["STILL HERE BECAUSE"] for row in rows] == ["-", "no answer"]

    told = calls("lease", "list", "--worker", str(desk.worker.id)[:13], "--json").json
    assert [row["id"] for row in told] == [held.lease_id, gone.lease_id]
    assert (told[0]["worker_id"], told[0]["profile"]) == (str(desk.worker.id), held.profile.key)
    assert 80 < told[0]["expires_in"] <= 90
    (one,) = calls("lease", "list", "--reclaiming", "--json").json
    assert (one["id"], one["browser_machine"], one["reclaim_outcome"]) == (gone.lease_id, "far", "lease_expired")


def test_a_revoked_lease_is_lost_to_its_holder_and_ended_by_the_reaper(
    calls: Calls, new_desk: Callable[..., Desk]
) -> None:
    desk = new_desk(profiles=2)
    taken, kept = desk.granted(), desk.granted()
    desk.start_browser(taken, machine="here")
    mark, key = last_audit(desk), taken.profile.key
    line = calls("lease", "revoke", taken.lease_id, "--reason", "stuck").line
    assert line == f"lease {taken.lease_id} of profile {key} was taken from worker {desk.worker.id}"
    with pytest.raises(LeaseLostError):
        desk.release(taken, Outcome.SUCCESS)
    assert desk.lease_row(kept.lease_id).state == "held"
    assert calls("lease", "revoke", taken.lease_id).line == f"lease {taken.lease_id} is reclaiming already"
    desk.reaper().run_once()
    attempt = desk.attempt(taken.lease_id)
    assert (attempt.outcome, attempt.detail, attempt.ended_by) == ("cancelled", "revoked: stuck", "reaper")
    ended = calls("lease", "revoke", taken.lease_id, "--json").json
    assert ended == {"taken": [], "already": [f"lease {taken.lease_id} has ended already, as cancelled"]}
    subject = f"lease {taken.lease_id} of profile {key}"
    assert audited_since(desk, mark) == [("ann@here", "lease revoke", subject, "stuck")]


@pytest.mark.parametrize("which", ["pool", "worker", "all"])
def test_many_are_revoked_at_a_time_and_audited_one_by_one(
    calls: Calls, new_desk: Callable[..., Desk], which: str
) -> None:
    desk, other = new_desk(profiles=2), new_desk(profiles=1)
    mine, foreign = [desk.granted().lease_id for _ in range(2)], other.granted().lease_id
    mark = last_audit(desk)
    asked: dict[str, list[object]] = {
        "pool": ["--pool", desk.pool.name],
        "worker": ["--worker", desk.worker.id],
        "all": ["--all", "--yes"],
    }
    told = calls("lease", "revoke", *asked[which], "--json").json
    expected = [*mine, foreign] if which == "all" else mine
    assert [lease["lease_id"] for lease in told["taken"]] == expected
    assert desk.lease_row(foreign).state == ("reclaiming" if which == "all" else "held")
    assert [entry[1] for entry in audited_since(desk, mark)] == ["lease revoke"] * len(expected)
    assert calls("lease", "revoke", *asked[which]).line == "no lease is held; nothing was changed"


def test_all_of_them_only_when_it_is_meant(calls: Calls, desk: Desk) -> None:
    granted, mark = desk.granted(), last_audit(desk)
    assert "add --yes; nothing was changed" in calls("lease", "revoke", "--all").refusal
    assert "say which leases" in calls("lease", "revoke").refusal
    assert "say which leases" in calls("lease", "revoke", granted.lease_id, "--all", "--yes").refusal
    assert desk.lease_row(granted.lease_id).state == "held"
    assert audited_since(desk, mark) == []


def test_names_that_do_not_exist_change_nothing(calls: Calls, desk: Desk) -> None:
    granted, mark = desk.granted(), last_audit(desk)
    assert calls("lease", "revoke", granted.lease_id, 2**40).refusal == (
        f"there is no lease {2**40}; see: poolsql lease list"
    )
    assert "there is no pool 'x'" in calls("lease", "revoke", "--pool", "x").refusal
    assert "there is no worker 'x'" in calls("lease", "revoke", "--worker", "x").refusal
    assert "there is no worker ''" in calls("lease", "list", "--worker", "").refusal
    assert desk.lease_row(granted.lease_id).state == "held"
    assert audited_since(desk, mark) == []


@pytest.fixture
def gone(desk: Desk) -> Grant:
    """A lease of a machine that does not come back, taken from its holder."""
    desk.add_profiles(1)
    granted = desk.granted()
    desk.start_browser(granted, machine="far")
    desk.expire(granted.lease_id)
    desk.reaper().run_once()
    return granted


class TestAPersonsWord:
    """Leases whose browsers nobody can prove stopped any more."""

    def test_ends_a_reclaiming_lease_audited_i3(self, calls: Calls, desk: Desk, gone: Grant) -> None:
        mark, number, key = last_audit(desk), gone.lease_id, gone.profile.key
        desk.reaper(machine="here").run_once()
        assert desk.lease_row(number).state == "reclaiming", "only its machine could prove it"
        refusal = calls("lease", "revoke", number, "--browser-is-stopped", "--reason", "sold").refusal
        assert refusal.startswith(f"lease {number} of profile {key} (no daemon runs on far; nobody has tried ")
        assert refusal.endswith("add --yes; nothing was changed")
        assert "say how you know" in calls("lease", "revoke", number, "--browser-is-stopped", "--yes").refusal
        assert desk.lease_row(number).state == "reclaiming"
        assert audited_since(desk, mark) == []

        said = ["--browser-is-stopped", "--reason", "sold", "--yes"]
        assert calls("lease", "revoke", number, *said).line.startswith(f"lease {number} has ended on your word")
        attempt = desk.attempt(number)
        assert (attempt.outcome, attempt.stop_rung, attempt.machine) == ("lease_expired", "operator", "far")
        assert desk.profile(gone.profile.id).available_at is not None, "it is free when its cooldown is over"
        subject = f"lease {number} of profile {key}: its browser is stopped"
        assert audited_since(desk, mark) == [("ann@here", "lease revoke", subject, "sold")]
        again = calls("lease", "revoke", number, *said, "--json").json
        assert again == {"ended": [], "already": [f"lease {number} has ended already, as lease_expired"]}

    def test_is_not_taken_while_a_daemon_there_has_yet_to_try(self, calls: Calls, desk: Desk, gone: Grant) -> None:
        number = gone.lease_id
        worker = Worker(machine="far", pid=1, process_started="x", version="test")
        register(desk.database, worker)
        desk.execute(
            "INSERT INTO poolsql.loop_stamps (worker_id, loop, machine, every, stamped_at) "
            "VALUES (:id, 'reap', 'far', '5 seconds', clock_timestamp())",
            id=worker.id,
        )
        said = ["lease", "revoke", number, "--browser-is-stopped", "--reason", "sold"]
        assert "a daemon that runs on far is about to stop its browser" in calls(*said, "--yes").refusal
        assert desk.lease_row(number).state == "reclaiming"
        desk.execute(
            "UPDATE poolsql.leases SET reclaim_note = 'no answer', reclaim_tries = 3 WHERE id = :id", id=number
        )
        assert "(a daemon runs on far; tried 3 times: no answer)" in calls(*said).refusal
        assert calls(*said, "--yes", "--json").json == {"ended": [number], "already": []}

    def test_is_said_of_reclaiming_leases_by_their_ids_only(self, calls: Calls, desk: Desk, gone: Grant) -> None:
        held, mark = desk.granted().lease_id, last_audit(desk)
        said = ["--browser-is-stopped", "--reason", "sold", "--yes"]
        assert f"lease {held} is held; take it" in calls("lease", "revoke", gone.lease_id, held, *said).refusal
        assert "there is no lease" in calls("lease", "revoke", 2**40, *said).refusal
        for several in (["--all"], ["--pool", desk.pool.name], []):
            assert "write their ids" in calls("lease", "revoke", *several, *said).refusal
        assert [desk.lease_row(number).state for number in (held, gone.lease_id)] == ["held", "reclaiming"]
        assert audited_since(desk, mark) == []


def test_no_leases(calls: Calls) -> None:
    assert calls("lease", "list").line == "no leases"
    assert calls("lease", "list", "--json").json == []
