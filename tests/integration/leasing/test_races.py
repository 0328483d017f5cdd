"""What happens at the same moment: I1 (one lease a profile), I2 (late reports change nothing), I4 (no free moment)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from poolsql import Fleet
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import LeaseLostError, NoProfileAvailableError
from poolsql.leasing import checkout
from poolsql.leasing.checkout import CHECKOUT
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reaper import EXPIRE_FREE, EXPIRE_STARTED
from poolsql.leasing.reports import PLAIN_SUCCESS, RELEASE, RENEW, release_parameters, renew
from tests.fixtures.fleets import Desk, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


# I1


def test_the_second_of_two_sessions_skips_the_last_profile_i1(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk()
    other = new_desk(pool=desk.pool, profiles=0)
    with desk.opened() as first:
        assert first.run(CHECKOUT, desk.request().parameters(desk.worker)), "the first one has it, not yet committed"
        assert other.grant() is None, "skips it at once, waiting for nobody"
        first.roll_back()
        granted = other.grant()
        assert granted is not None, "it was never leased"
        other.release(granted)
        assert first.run(CHECKOUT, desk.request().parameters(desk.worker))
        first.commit()
    assert other.grant() is None
    assert [row.worker_id for row in desk.leases()] == [desk.worker.id]


def test_a_race_for_the_last_profile_has_one_winner_i1(
    new_desk: Callable[..., Desk], threads: ThreadPoolExecutor
) -> None:
    desk = new_desk()
    runners = [new_desk(pool=desk.pool, profiles=0) for _ in range(6)]
    ready = threading.Barrier(len(runners))

    def run(runner: Desk) -> object:
        ready.wait(timeout=10)
        return runner.grant()

    for _ in range(20):
        winners = [granted for granted in threads.map(run, runners) if granted is not None]
        assert len(winners) == 1
        assert len(desk.leases()) == 1
        runners[0].release(winners[0])  # type: ignore[arg-type]  # on purpose


def test_many_holders_never_share_a_profile_i1(new_desk: Callable[..., Desk], threads: ThreadPoolExecutor) -> None:
    desk = new_desk(profiles=3)
    users = {profile_id: threading.Lock() for profile_id in desk.profile_ids}
    together: list[int] = []

    def borrow(_: int) -> int:
        done = 0
        while done < 30:
            granted = desk.grant()
            if granted is None:
                continue
            if users[granted.profile.id].acquire(blocking=False):
                users[granted.profile.id].release()
            else:
                together.append(granted.profile.id)
            with users[granted.profile.id]:
                done += 1
            desk.release(granted)
        return done

    assert sum(threads.map(borrow, range(8))) == 240
    assert together == []
    attempts = desk.attempts()
    assert len(attempts) == 240
    assert max(Counter(attempt.lease_id for attempt in attempts).values()) == 1, "one attempt a lease"
    assert desk.leases() == []


@pytest.mark.parametrize("public", [False, True], ids=["the statement", "the public door"])
def test_a_checkout_that_loses_all_it_saw_to_others_tries_again_while_profiles_are_free(
    new_desk: Callable[..., Desk],
    new_fleet: Callable[..., Fleet],
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    public: bool,
) -> None:
    """Each profile is leased and given back between its snapshot and its look: never more than one is away."""
    desk = new_desk(profiles=3)
    fleet = new_fleet(machine="here")
    monkeypatch.setattr(fleet._runtime, "reap_if_due", lambda: False)
    take = fleet.pool(desk.pool.name).checkout if public else desk.wait().try_once
    with desk.opened() as gatekeeper:
        gatekeeper.execute(f"SELECT pg_advisory_xact_lock({GATE})")
        with monkeypatch.context() as doctored:
            doctored.setattr(checkout, "CHECKOUT", gated(CHECKOUT))
            late = threads.submit(take)
            desk.wait_until_blocked()
        for profile_id in desk.profile_ids:
            desk.release(desk.granted(profile_id=profile_id))
        gatekeeper.commit()
        got = late.result(timeout=10)
    assert (got is not None) is public, "the statement alone can't have it"
    assert len(desk.leases()) == (1 if public else 0)
    assert desk.all("SELECT FROM poolsql.misses WHERE pool_id = :pool", pool=desk.pool.id) == [], "it was none"


def test_a_miss_is_told_when_tries_in_a_row_fail_though_a_profile_is_free(new_desk: Callable[..., Desk]) -> None:
    desk, other = new_desk(), new_desk(profiles=0)
    with other.opened() as operating:
        operating.execute("SELECT FROM poolsql.profiles WHERE id = %s FOR UPDATE", [desk.only])
        wait = desk.wait()
        assert wait.try_once() is None
        with pytest.raises(NoProfileAvailableError, match=r"\(1 available\)"):
            wait.last_try()
    assert [row.counts for row in desk.all("SELECT counts FROM poolsql.misses WHERE pool_id = :pool", pool=desk.pool.id)
            ] == [{"available": 1}]  # fmt: skip
    assert desk.grant() is not None


# I2: a row lock decides who was first, and the other one looks again


@pytest.mark.parametrize("ending", [PLAIN_SUCCESS, RELEASE], ids=["short", "long"])
def test_a_renewal_that_meets_an_unfinished_release_is_refused_i2(
    desk: Desk, threads: ThreadPoolExecutor, ending: Statement
) -> None:
    granted = desk.granted()
    with desk.opened() as releasing:
        releasing.run(ending, release_parameters(name_of(granted), outcome=Outcome.SUCCESS))
        renewing = threads.submit(renew, desk.database, desk.worker, [name_of(granted)], patience=5.0)
        desk.wait_until_blocked()
        releasing.commit()
        assert renewing.result(timeout=10) == {}
    assert [report.kind for report in desk.refused(granted.lease_id)] == ["renew"]


def test_a_renewal_locks_its_leases_by_id_whatever_order_it_names_them_in(
    new_desk: Callable[..., Desk], threads: ThreadPoolExecutor
) -> None:
    desk = new_desk(profiles=3)
    granted = sorted((desk.granted() for _ in range(3)), key=lambda each: each.lease_id)
    lock = "SELECT FROM poolsql.leases WHERE id = %s FOR UPDATE NOWAIT"
    with desk.opened() as other:
        other.execute(lock, [granted[0].lease_id])
        names = [name_of(each) for each in reversed(granted)]
        renewing = threads.submit(renew, desk.database, desk.worker, names, patience=5.0)
        desk.wait_until_blocked()
        # It waits for the first and holds none of the others; otherwise these two would deadlock.
        for each in granted[1:]:
            other.execute(lock, [each.lease_id])
        other.commit()
        assert set(renewing.result(timeout=10)) == {each.lease_id for each in granted}


def test_a_renewal_that_meets_an_unfinished_expiry_is_refused_i2(desk: Desk, threads: ThreadPoolExecutor) -> None:
    granted = desk.granted()
    desk.start_browser(granted)
    desk.expire(granted.lease_id)
    with desk.opened() as reaping:
        reaping.run(EXPIRE_STARTED, {"dead_workers": [], "batch": 10, **LINE})
        renewing = threads.submit(renew, desk.database, desk.worker, [name_of(granted)], patience=5.0)
        desk.wait_until_blocked()
        reaping.commit()
        assert renewing.result(timeout=10) == {}
    assert desk.lease_row(granted.lease_id).state == "reclaiming"


@pytest.mark.parametrize("browser", [False, True], ids=["without browser", "with browser"])
def test_a_lease_that_is_being_renewed_is_not_reaped_i2(desk: Desk, browser: bool) -> None:
    granted = desk.granted()
    if browser:
        desk.start_browser(granted)
    desk.expire(granted.lease_id)
    with desk.opened() as renewing:
        names = {"lease_ids": [granted.lease_id], "tokens": [granted.token], "worker_id": desk.worker.id}
        renewing.run(RENEW, names)
        assert desk.reaper().run_once().expired == 0
        renewing.commit()
    assert desk.reaper().run_once().expired == 0
    assert desk.lease_row(granted.lease_id).state == "held"


def test_a_release_that_meets_an_unfinished_expiry_is_refused_i2(desk: Desk, threads: ThreadPoolExecutor) -> None:
    granted = desk.granted()
    desk.expire(granted.lease_id)
    with desk.opened() as reaping:
        reaping.run(EXPIRE_FREE, {"dead_workers": [], "batch": 10, **LINE})
        releasing = threads.submit(desk.release, granted, Outcome.BLOCKED)
        desk.wait_until_blocked()
        reaping.commit()
        with pytest.raises(LeaseLostError, match="ended by the reaper as lease_expired"):
            releasing.result(timeout=10)
    assert desk.attempt(granted.lease_id).outcome == "lease_expired"
    assert [report.kind for report in desk.refused(granted.lease_id)] == ["release"]


def test_a_release_keeps_what_an_operator_changes_meanwhile(desk: Desk, threads: ThreadPoolExecutor) -> None:
    granted = desk.granted()
    with desk.opened() as operating:
        operating.execute(
            "UPDATE poolsql.profiles SET state = 'paused', state_reason = 'by hand' WHERE id = %s", [desk.only]
        )
        releasing = threads.submit(desk.release, granted, Outcome.SUCCESS)
        desk.wait_until_blocked()
        operating.commit()
        releasing.result(timeout=10)
    profile = desk.profile(desk.only)
    assert (profile.state, profile.state_reason, profile.uses) == ("paused", "by hand", 1)
    assert profile.available_at is not None


# I4


GATE = 7_000_001
"""Key of the advisory lock at which a doctored checkout waits with its snapshot taken."""


def gated(statement: Statement, *, mutate: bool = False) -> Statement:
    """A checkout that stops between its snapshot and its look at the profiles; perhaps with the rule broken."""
    query = statement.query
    start = "WITH asked AS MATERIALIZED ("
    assert query.startswith(start)
    gate = f"WITH gate AS MATERIALIZED (SELECT pg_advisory_xact_lock_shared({GATE})), asked AS MATERIALIZED ("
    query = query.replace(start, gate).replace(
        "WHERE pools.id = %(pool_id)s", "WHERE pools.id = %(pool_id)s AND (SELECT count(*) FROM gate) = 1"
    )
    rule = "profiles.available_at < statement_timestamp()"
    assert query.count(rule) == 1
    if mutate:
        query = query.replace(rule, "profiles.available_at < clock_timestamp()")
    return Statement(f"gated {statement.name}", query)


@pytest.mark.parametrize("outcome", [Outcome.CAPTCHA, Outcome.BLOCKED, Outcome.SESSION_LOST, Outcome.RATE_LIMITED])
def test_a_checkout_older_than_a_release_does_not_take_its_profile_i4(
    desk: Desk, threads: ThreadPoolExecutor, outcome: Outcome
) -> None:
    assert _race(desk, threads, gated(CHECKOUT), outcome) == 0
    assert desk.leases() == []
    assert desk.cooldown(desk.only).outcome == outcome


def test_that_race_would_be_lost_without_the_rule_i4(desk: Desk, threads: ThreadPoolExecutor) -> None:
    """The same race, with `clock_timestamp()` in the comparison: the failing profile is leased, for the very host."""
    assert _race(desk, threads, gated(CHECKOUT, mutate=True), Outcome.CAPTCHA) == 1
    assert [row.host for row in desk.leases()] == [desk.host]


def _race(desk: Desk, threads: ThreadPoolExecutor, statement: Statement, outcome: Outcome) -> int:
    """An old checkout waits with its snapshot while the profile is leased, fails and is released."""
    parameters = desk.request(host=desk.host).parameters(desk.worker)
    with desk.opened() as gatekeeper:
        gatekeeper.execute(f"SELECT pg_advisory_xact_lock({GATE})")
        old = threads.submit(desk.database.run, statement, parameters)
        desk.wait_until_blocked()
        desk.release(desk.granted(host=desk.host), outcome)
        gatekeeper.commit()
        return len(old.result(timeout=10))


@pytest.mark.parametrize("named", [True, False], ids=["on the host", "of the whole profile"])
def test_a_failing_profile_is_never_free_in_between_i4(
    new_desk: Callable[..., Desk], threads: ThreadPoolExecutor, database: Database, named: bool
) -> None:
    """Many checkouts hammer while profiles fail: each is leased once, and no more within its cooldown."""
    desk = new_desk(profiles=8)
    host = desk.host if named else None
    hammers = 6
    failed = threading.Event()
    granted_to: list[int] = []

    def hammer(_: int) -> None:
        misses_after_all_failed = 0
        while misses_after_all_failed < 10:
            granted = desk.grant(host=host)
            if granted is None:
                misses_after_all_failed += failed.is_set()
                continue
            granted_to.append(granted.profile.id)
            # It blames the profile and pauses no host, which would keep everybody out for another reason.
            desk.release(granted, Outcome.SESSION_LOST)
            if len(granted_to) >= len(desk.profile_ids):
                failed.set()

    list(threads.map(hammer, range(hammers)))
    assert sorted(granted_to) == sorted(desk.profile_ids)
    assert len(desk.attempts()) == len(desk.profile_ids)
