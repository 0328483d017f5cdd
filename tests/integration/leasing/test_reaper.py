"""The reaper: leases come back from holders that are gone, and no profile before its browser has stopped (I3)."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

from poolsql.errors import LeaseLostError, StopNotProvenError
from poolsql.leasing import reports
from poolsql.leasing.checkout import record_miss
from poolsql.leasing.fencing import fence
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reaper import CLAIM_RECLAIM, EXPIRE_FREE, FINISH_RECLAIM
from poolsql.leasing.worker import Worker, holders_on, register, sign_off
from tests.fixtures.fleets import Desk, FaultyDatabase, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def refuse_to_stop(_: Mapping[str, Any]) -> str:
    raise StopNotProvenError("pid 1 is still there")


@pytest.fixture(autouse=True)
def no_other_leases(database: Any) -> None:
    """Reapers look at all leases of a database, so a test must not see those of another."""
    with database.connect() as connection:
        connection.exec_driver_sql("TRUNCATE poolsql.leases")
        connection.exec_driver_sql(
            "UPDATE poolsql.profiles SET available_at = clock_timestamp() WHERE available_at IS NULL"
        )


# Expiry


def test_a_live_lease_is_left_alone(desk: Desk) -> None:
    granted = desk.granted()
    reaped = desk.reaper().run_once()
    assert (reaped.expired, reaped.attempts, reaped.stuck) == (0, [], 0)
    assert desk.lease_row(granted.lease_id).state == "held"


def test_an_expired_lease_without_a_browser_is_free_at_once(desk: Desk) -> None:
    granted = desk.granted()
    desk.expire(granted.lease_id)
    reaped = desk.reaper().run_once()
    assert (reaped.expired, [attempt.lease_id for attempt in reaped.attempts]) == (1, [granted.lease_id])
    assert desk.attempt(granted.lease_id).ended_by == "reaper"
    desk.granted()


@pytest.mark.parametrize("browser", [True, False], ids=["with a browser", "without"])
def test_the_leases_of_a_dead_worker_need_not_expire_first(new_desk: Callable[..., Desk], browser: bool) -> None:
    dead = new_desk(profiles=2)
    alive = new_desk(pool=dead.pool, profiles=0)
    lost, kept = dead.granted(), alive.granted()
    if browser:
        dead.start_browser(lost)
        alive.start_browser(kept)
    reaped = alive.reaper(dead_workers=lambda: [dead.worker.id]).run_once()
    assert [(attempt.lease_id, attempt.outcome) for attempt in reaped.attempts] == [
        (lost.lease_id, Outcome.WORKER_LOST)
    ]
    assert [row.id for row in alive.leases()] == [kept.lease_id]


def test_the_workers_of_a_machine_that_hold_leases_are_known(new_desk: Callable[..., Desk]) -> None:
    here, there, idle = new_desk(), new_desk(machine="there"), new_desk()
    here.granted()
    there.granted()
    assert holders_on(here.database, "here") == [here.worker]
    idle.start_browser(granted := idle.granted())
    assert set(holders_on(here.database, "here")) == {here.worker, idle.worker}
    reports.begin_reclaim(idle.database, name_of(granted), detail="gone", patience=1)
    assert holders_on(here.database, "here") == [here.worker]


def test_a_worker_is_written_down_once_and_signs_off(desk: Desk) -> None:
    worker = Worker(machine="m", pid=1, process_started="x", version="1")
    register(desk.database, worker)
    register(desk.database, worker)
    sign_off(desk.database, worker)
    row = desk.one("SELECT * FROM poolsql.workers WHERE id = :id", id=worker.id)
    assert (row.machine, row.pid, row.process_started, row.version) == ("m", 1, "x", "1")
    assert row.ended_at is not None


def test_batches_go_on_until_one_is_short(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=7)
    granted = [desk.granted() for _ in desk.profile_ids]
    for each in granted[:4]:
        desk.start_browser(each)
    desk.expire(*(each.lease_id for each in granted))
    reaped = desk.reaper(batch=2).run_once()
    assert reaped.expired == 7
    assert {attempt.lease_id for attempt in reaped.attempts} == {each.lease_id for each in granted}
    assert desk.leases() == []


def test_a_profile_that_somebody_is_changing_is_left_for_the_next_round(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    granted = [desk.granted() for _ in desk.profile_ids]
    desk.expire(*(each.lease_id for each in granted))
    with desk.opened() as operating:
        operating.execute("SELECT FROM poolsql.profiles WHERE id = %s FOR UPDATE", [granted[0].profile.id])
        reaped = desk.reaper().run_once()
        assert [attempt.lease_id for attempt in reaped.attempts] == [granted[1].lease_id]
    assert desk.reaper().run_once().expired == 1


def test_two_reapers_end_each_lease_once(new_desk: Callable[..., Desk], threads: ThreadPoolExecutor) -> None:
    desk = new_desk(profiles=40)
    granted = [desk.granted() for _ in desk.profile_ids]
    for each in granted[::2]:
        desk.start_browser(each)
    desk.expire(*(each.lease_id for each in granted))
    stopped: list[int] = []
    ready = threading.Barrier(3)

    def stop(browser: Mapping[str, Any]) -> str:
        stopped.append(browser["pid"])
        return "term"

    def reap(_: int) -> list[int]:
        ready.wait(timeout=10)
        return [attempt.lease_id for attempt in desk.reaper(batch=3, stop_browser=stop).run_once().attempts]

    ended = [lease_id for each in threads.map(reap, range(3)) for lease_id in each]
    ended += [attempt.lease_id for attempt in desk.reaper(batch=3, stop_browser=stop).run_once().attempts]
    assert Counter(ended) == Counter(each.lease_id for each in granted)
    assert len(stopped) == 20
    assert Counter(attempt.lease_id for attempt in desk.attempts()) == Counter(ended)


def test_a_round_whose_answer_was_lost_loses_no_lease(desk: Desk, faulty: FaultyDatabase) -> None:
    granted = desk.granted()
    desk.expire(granted.lease_id)
    faulty.lose_answer_of(EXPIRE_FREE)
    reaper = desk.reaper()
    reaper._database = faulty
    assert reaper.run_once().expired == 0, "the first try did it, and nobody heard"
    assert desk.attempt(granted.lease_id).outcome == "lease_expired"


# The browser is stopped, and proven stopped, first (I3)


Ending = Callable[[Desk, int], object]


def _expire(desk: Desk, lease_id: int) -> None:
    desk.expire(lease_id)


def _give_up(desk: Desk, lease_id: int) -> None:
    name = reports.LeaseName(lease_id, desk.lease_row(lease_id).token)
    reports.begin_reclaim(desk.database, name, detail="it froze", patience=1)


ENDINGS: dict[str, Ending] = {"expired": _expire, "worker died": lambda *_: None, "given up by its holder": _give_up}


@pytest.mark.parametrize(("how", "end"), ENDINGS.items(), ids=ENDINGS.keys())
def test_a_profile_is_not_offered_before_its_browser_has_stopped_i3(desk: Desk, how: str, end: Ending) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    end(desk, granted.lease_id)
    offered: list[object] = []

    def stop(browser: Mapping[str, Any]) -> str:
        offered.append(desk.grant())
        assert desk.lease_row(granted.lease_id).state == "reclaiming"
        assert browser["pid"] == 1
        return "kill"

    dead = [desk.worker.id] if how == "worker died" else []
    reaped = desk.reaper(stop_browser=stop, dead_workers=lambda: dead).run_once()
    assert offered == [None]
    attempt = desk.attempt(granted.lease_id)
    assert [each.lease_id for each in reaped.attempts] == [granted.lease_id]
    assert (attempt.stop_rung, attempt.browser_started, attempt.ended_by) == ("kill", True, "reaper")
    desk.free_all()
    desk.granted()


def test_from_expiry_on_the_holder_is_refused_i2_i3(desk: Desk) -> None:
    lease = desk.lease()
    lease.browser_starting({"pid": 1}, machine=None, directory=None)
    desk.expire(lease.id)
    reaper = desk.reaper(stop_browser=refuse_to_stop)
    assert reaper.run_once().stuck == 1
    with pytest.raises(LeaseLostError, match="is being reclaimed"):
        lease.release(Outcome.SUCCESS, stop_rung="term")
    assert desk.lease_row(lease.id).state == "reclaiming"
    desk.reaper(stop_browser=refuse_to_stop).run_once()
    assert desk.attempts() == []


def test_what_a_holder_gave_up_is_told_by_its_visits_i3(desk: Desk) -> None:
    granted = desk.granted(host=desk.host)
    desk.start_browser(granted)
    desk.visit(granted, Outcome.CAPTCHA)
    reports.begin_reclaim(desk.database, name_of(granted), detail="it froze", patience=1)
    desk.reaper().run_once()
    attempt = desk.attempt(granted.lease_id)
    assert (attempt.outcome, attempt.detail, attempt.visits, attempt.counted) == ("captcha", "it froze", 1, True)


def test_a_lease_that_was_given_up_without_a_visit_blames_nobody(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    reports.begin_reclaim(desk.database, name_of(granted), detail="it froze", patience=1)
    desk.reaper().run_once()
    assert (desk.attempt(granted.lease_id).outcome, desk.visits(granted.lease_id)) == ("success", [])


def test_giving_up_a_lease_that_is_not_ones_own_changes_nothing_i2(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    before = desk.picture()
    reports.begin_reclaim(desk.database, reports.LeaseName(granted.lease_id, uuid4()), detail="mine now", patience=1)
    assert desk.picture() == before


ENDS = {
    "lease_expired": ("UPDATE poolsql.leases SET expires_at = clock_timestamp() WHERE id = :id", "not renewed"),
    "deadline_exceeded": (
        "UPDATE poolsql.leases SET expires_at = clock_timestamp(), deadline_at = clock_timestamp() WHERE id = :id",
        "longer than max_lease",
    ),
    "worker_lost": ("SELECT :id", "process is gone"),
}


@pytest.mark.parametrize("browser", [True, False], ids=["browser", "no browser"])
@pytest.mark.parametrize("outcome", ENDS)
def test_history_says_why_a_lease_was_taken_back(desk: Desk, outcome: str, browser: bool) -> None:
    granted = desk.granted()
    if browser:
        desk.start_browser(granted)
    end, why = ENDS[outcome]
    desk.execute(end, id=granted.lease_id)
    dead = [desk.worker.id] if outcome == "worker_lost" else []
    desk.reaper(dead_workers=lambda: dead).run_once()
    (visit,) = desk.all("SELECT outcome, detail FROM poolsql.visits WHERE lease_id = :id", id=granted.lease_id)
    attempt = desk.attempt(granted.lease_id)
    assert attempt.outcome == visit.outcome == outcome
    assert attempt.detail == visit.detail
    assert why in attempt.detail


@pytest.mark.parametrize("error", [StopNotProvenError("pid 1 is still there"), OSError("no such disk \x00")])
def test_a_browser_that_does_not_stop_keeps_its_profile_out_with_a_note_i3(desk: Desk, error: Exception) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    desk.expire(granted.lease_id)

    def stop(_: Mapping[str, Any]) -> str:
        raise error

    waits = []
    for tried in range(1, 8):
        reaped = desk.reaper(stop_browser=stop, claim_seconds=10).run_once()
        assert (reaped.stuck, reaped.attempts) == (1, [])
        assert desk.reaper(stop_browser=stop).run_once().stuck == 0, "not again before its time"
        row = desk.one(
            "SELECT *, extract(epoch FROM reclaim_next_at - clock_timestamp())::float8 AS wait "
            "FROM poolsql.leases WHERE id = :id",
            id=granted.lease_id,
        )
        assert (row.state, row.reclaim_tries) == ("reclaiming", tried)
        assert str(error).split("\x00")[0].strip() in row.reclaim_note
        waits.append(round(row.wait))
        assert desk.grant() is None
        desk.execute("UPDATE poolsql.leases SET reclaim_next_at = clock_timestamp()")
    assert waits == [10, 20, 40, 80, 160, 320, 320]
    miss = record_miss(desk.database, desk.worker, desk.request(), waited=0)
    assert miss.counts == {"reclaiming": 1}
    assert len(desk.reaper().run_once().attempts) == 1, "it stopped at last"


def test_a_lease_whose_browser_does_not_stop_blocks_no_other_i3(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=5)
    granted = [desk.granted() for _ in desk.profile_ids]
    for number, each in enumerate(granted):
        reports.browser_starting(
            desk.database, desk.worker, name_of(each), browser={"pid": number}, machine=None, directory=None
        )
    desk.expire(*(each.lease_id for each in granted))

    def stop(browser: Mapping[str, Any]) -> str:
        if browser["pid"] == 0:
            raise StopNotProvenError("still there")
        if browser["pid"] == 1:
            raise KeyError("surprise")
        return "term"

    reaped = desk.reaper(stop_browser=stop).run_once()
    assert (reaped.stuck, {attempt.lease_id for attempt in reaped.attempts}) == (
        2,
        {each.lease_id for each in granted[2:]},
    )


def test_the_database_clock_tells_for_how_long_a_lease_has_been_reclaiming_i6(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = desk.lease()
    lease.browser_starting({"pid": 1, "reclaiming_for": None}, machine=None, directory=None)
    lease.release()
    told: list[float] = []

    def refuse_to_stop(browser: Mapping[str, Any]) -> str:
        told.append(browser["reclaiming_for"])
        raise StopNotProvenError("still there, says the test")

    # Whatever the clock of this machine says.
    monkeypatch.setattr(time, "time", lambda: 0.0)
    reaper = desk.reaper(stop_browser=refuse_to_stop)
    assert reaper.run_once().stuck == 1
    desk.execute(
        "UPDATE poolsql.leases SET reclaim_since = reclaim_since - interval '100 s', reclaim_next_at = "
        "clock_timestamp() WHERE id = :id",
        id=lease.id,
    )
    assert reaper.run_once().stuck == 1
    least, then = told
    assert least >= 0
    assert 100 < then - least < 1000, "in seconds"


def test_a_browser_is_stopped_on_its_own_machine_only_i3(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    pinned, loose = desk.granted(), desk.granted()
    desk.start_browser(pinned, machine="here")
    desk.start_browser(loose)
    desk.expire(pinned.lease_id, loose.lease_id)
    reaped = desk.reaper(machine="there").run_once()
    assert reaped.expired == 2
    assert [attempt.lease_id for attempt in reaped.attempts] == [loose.lease_id]
    assert desk.lease_row(pinned.lease_id).state == "reclaiming"
    assert [attempt.lease_id for attempt in desk.reaper().run_once().attempts] == [pinned.lease_id]


def test_a_reaper_that_dies_while_it_stops_a_browser_leaves_it_to_another(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    desk.expire(granted.lease_id)

    def die(_: Mapping[str, Any]) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        desk.reaper(stop_browser=die, claim_seconds=30).run_once()
    assert desk.database.run(CLAIM_RECLAIM, {"machine": "here", "claim_seconds": 30}) == [], "claimed for its time"
    desk.execute("UPDATE poolsql.leases SET reclaim_next_at = clock_timestamp()")
    assert len(desk.reaper().run_once().attempts) == 1


def test_a_stop_that_took_longer_than_its_claim_ends_the_lease_once(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    desk.expire(granted.lease_id)

    def stop_slowly(_: Mapping[str, Any]) -> str:
        desk.execute("UPDATE poolsql.leases SET reclaim_next_at = clock_timestamp()")
        assert len(desk.reaper().run_once().attempts) == 1, "another reaper took over and was faster"
        return "kill"

    assert desk.reaper(stop_browser=stop_slowly).run_once().attempts == []
    assert desk.attempt(granted.lease_id).stop_rung == "term"


@pytest.mark.parametrize("own", [True, False], ids=["its own token", "a foreign token"])
def test_a_lease_that_is_held_cannot_be_ended_as_reclaimed_i2(desk: Desk, own: bool) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    if not own:
        reports.begin_reclaim(desk.database, name_of(granted), detail="it froze", patience=1)
    before = desk.picture()
    end = {"lease_id": granted.lease_id, "stop_rung": "term", **LINE}
    assert desk.database.run(FINISH_RECLAIM, {**end, "token": granted.token if own else uuid4()}) == []
    assert desk.picture() == before


def test_a_profile_is_pinned_once_and_only_its_directory_moves_and_on_its_machine(desk: Desk) -> None:
    def start(machine: str | None, directory: str | None) -> tuple[str | None, str | None]:
        granted = desk.granted()
        reports.browser_starting(
            desk.database, desk.worker, name_of(granted), browser={}, machine=machine, directory=directory
        )
        desk.release(granted, stop_rung="term")
        profile = desk.profile(desk.only)
        return profile.machine, profile.directory

    assert start(None, None) == (None, None)
    assert start("here", None) == ("here", None)
    assert start("there", "/data/pinned") == ("here", "/data/pinned")
    assert start("there", "/data/moved") == ("here", "/data/pinned")
    assert start("here", None) == ("here", "/data/pinned")
    assert start("here", "/data/moved") == ("here", "/data/moved")


def test_a_browser_of_an_earlier_lease_says_nothing_about_the_next_i3(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    desk.release(granted, stop_rung="close")
    again = desk.granted()
    desk.release(again)
    assert not desk.attempt(again.lease_id).browser_started


# After a restore or a failover (I2)


def test_a_fenced_lease_is_ended_by_the_reaper_also_without_a_browser_i2(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=2)
    with_browser, without = desk.lease(), desk.lease()
    with_browser.browser_starting({"pid": 1}, machine=None, directory=None)
    assert fence(desk.database, who="eva", reason="failover") == 2
    for lease in (with_browser, without):
        with pytest.raises(LeaseLostError, match="is being reclaimed"):
            lease.release(stop_rung="term")
    stopped: list[int] = []

    def stop(browser: Mapping[str, Any]) -> str:
        stopped.append(browser["pid"])
        return "term"

    reaped = desk.reaper(stop_browser=stop).run_once()
    assert (reaped.stuck, {attempt.lease_id for attempt in reaped.attempts}) == (0, {with_browser.id, without.id})
    assert stopped == [1]
    assert desk.attempt(without.id).stop_rung is None
