"""Keeping leases (I6): the own clock only ever gives up early; the database decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
import pytest

from poolsql import clocks
from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Parameters
from poolsql.errors import LeaseLostError
from poolsql.leasing import checkout, keeper, lease, waiting
from poolsql.leasing.keeper import Keeper
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import RENEW
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk, FaultyDatabase

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


@dataclass
class Clock:
    """The clock of a machine that can be suspended: what it shows jumps, and nobody ran meanwhile."""

    ahead: float = 0.0

    def read(self) -> float:
        return clocks.elapsed_clock() + self.ahead

    def suspend(self, seconds: float, *keepers: Keeper) -> None:
        """Let time pass on this machine; the keepers would wake within a second by themselves."""
        self.ahead += seconds
        for each in keepers:
            with each._changed:
                each._changed.notify()

    def settled(self, keeper: Keeper) -> bool:
        """Whether the keeper has done its work and waits for the next renewal."""
        return keeper._next_renewal > self.read() and not keeper._renewing.locked()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The own clock of everything that holds leases."""
    made = Clock()
    for module in (checkout, keeper, lease, waiting):
        monkeypatch.setattr(module, "elapsed_clock", made.read)
    return made


class Told:
    """A callback that keeps when and where it was called."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.event = threading.Event()

    def __call__(self) -> None:
        self.threads.append(threading.current_thread().name)
        self.event.set()


@pytest.fixture
def faulty_desk(desk: Desk, faulty: FaultyDatabase) -> Desk:
    """A desk whose keeper's database fails as the test says."""
    desk.keeper = Keeper(faulty, desk.worker)
    return desk


def test_the_own_clock_counts_the_time_of_a_suspend() -> None:
    first = clocks.elapsed_clock()
    assert clocks.elapsed_clock() >= first


def test_leases_are_renewed_in_the_background_by_one_statement(
    new_desk: Callable[..., Desk], clock: Clock, faulty: FaultyDatabase
) -> None:
    desk = new_desk(profiles=3)
    desk.keeper = Keeper(faulty, desk.worker)
    leases = [desk.lease() for _ in desk.profile_ids]
    before = [each.expires_at for each in leases]
    clock.suspend(30, desk.keeper)
    until(lambda: all(each.expires_at > old for each, old in zip(leases, before, strict=True)))
    assert faulty.ran == [RENEW]
    desk.keeper.close()


def test_a_renewed_lease_is_trusted_from_the_time_of_asking_with_a_margin_i6(desk: Desk, clock: Clock) -> None:
    lease = desk.lease()
    clock.suspend(20)
    asked_after = clock.read()
    lease.renew()
    assert asked_after + 80.9 <= lease.trusted_until <= clock.read() + 81


def test_a_lease_is_never_trusted_beyond_its_longest_time_i6(new_desk: Callable[..., Desk], clock: Clock) -> None:
    desk = new_desk(ttl="60s", renew="10s", max_lease="60s")
    lease = desk.lease()
    clock.suspend(30)
    lease.renew()
    assert lease.trusted_until <= clock.read() + 30


def test_after_a_suspend_a_lease_that_is_still_held_is_renewed_first_and_goes_on_i6(desk: Desk, clock: Clock) -> None:
    lease = desk.lease()
    told = Told()
    lease.when_lost(told)
    before = lease.expires_at
    desk.expire(lease.id)
    clock.suspend(600, desk.keeper)
    until(lambda: lease.expires_at > before)
    lease.check()
    assert lease.lost is None
    assert lease.release() is not None
    assert told.threads == []


def test_after_a_suspend_a_check_asks_before_it_answers_i6(desk: Desk, clock: Clock) -> None:
    lease = desk.lease()
    desk.expire(lease.id)
    clock.suspend(600)
    lease.check()
    assert lease.expires_at == desk.lease_row(lease.id).expires_at
    desk.reap(lease.id)
    clock.suspend(600)
    with pytest.raises(LeaseLostError, match="no longer knows it as live"):
        lease.check()


def test_a_renewal_that_gets_no_answer_keeps_no_lease_beyond_its_time_i6(
    faulty_desk: Desk, faulty: FaultyDatabase, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "ANSWER_SECONDS", 0.2)
    asked, answered = threading.Event(), threading.Event()

    def hang(_: Parameters) -> Sequence[Row]:
        asked.set()
        answered.wait(30)
        raise psycopg.OperationalError("timed out, says the test")

    faulty.instead_of_next(RENEW, hang)
    lease = faulty_desk.lease()
    told = Told()
    lease.when_lost(told)
    clock.suspend(600, faulty_desk.keeper)
    assert asked.wait(timeout=10)
    assert told.event.wait(timeout=10)
    assert lease.lost == "it could not be renewed in time"
    answered.set()
    faulty_desk.keeper.close()


def test_after_a_suspend_a_lease_that_was_reaped_is_lost_i6(desk: Desk, clock: Clock) -> None:
    lease = desk.lease()
    told = Told()
    lease.when_lost(told)
    desk.reap(lease.id)
    clock.suspend(600, desk.keeper)
    assert told.event.wait(timeout=10)
    assert lease.lost == "the database no longer knows it as live"
    with pytest.raises(LeaseLostError):
        lease.check()
    until(lambda: desk.refused(lease.id))
    assert [report.kind for report in desk.refused(lease.id)] == ["renew"]


def test_while_the_database_is_away_a_lease_is_trusted_until_it_may_be_given_away_i6(
    faulty_desk: Desk, faulty: FaultyDatabase, clock: Clock
) -> None:
    desk = faulty_desk
    lease = desk.lease()
    told = Told()
    lease.when_lost(told)
    faulty.down = True
    clock.suspend(31, desk.keeper)
    until(lambda: RENEW in faulty.ran)
    lease.check()
    assert told.threads == [], "there is time left"
    clock.suspend(51, desk.keeper)
    assert told.event.wait(timeout=10)
    assert lease.lost == "it could not be renewed in time"
    desk.keeper.close()
    assert desk.lease_row(lease.id).state == "held", "only the holder has given up"


def test_a_check_in_doubt_without_an_answer_raises_i6(faulty_desk: Desk, faulty: FaultyDatabase, clock: Clock) -> None:
    lease = faulty_desk.lease()
    faulty.down = True
    clock.suspend(600)
    with pytest.raises(LeaseLostError, match=r"could not be renewed in time|is lost"):
        lease.check()
    faulty_desk.keeper.close()


def test_a_renewal_that_fails_is_tried_again_and_nothing_is_lost(
    faulty_desk: Desk, faulty: FaultyDatabase, clock: Clock
) -> None:
    desk = faulty_desk
    lease = desk.lease()
    before = lease.expires_at
    faulty.down = True
    clock.suspend(31, desk.keeper)
    until(lambda: faulty.ran and clock.settled(desk.keeper))
    faulty.down = False
    clock.suspend(1.1, desk.keeper)
    until(lambda: lease.expires_at > before)
    assert lease.lost is None
    desk.keeper.close()


def test_a_renewal_whose_answer_was_lost_is_made_again_i6(
    faulty_desk: Desk, faulty: FaultyDatabase, clock: Clock
) -> None:
    desk = faulty_desk
    lease = desk.lease()
    faulty.lose_answer_of(RENEW)
    clock.suspend(31, desk.keeper)
    until(lambda: faulty.ran and clock.settled(desk.keeper))
    clock.suspend(1.1, desk.keeper)
    until(lambda: faulty.ran.count(RENEW) >= 2)
    lease.check()
    assert lease.release() is not None
    assert desk.refused(lease.id) == []
    desk.keeper.close()


def test_everybody_is_told_once_of_a_loss_in_a_thread_of_its_own(desk: Desk) -> None:
    lease = desk.lease()
    told, failing, late = Told(), threading.Event(), Told()

    def fail() -> None:
        failing.set()
        raise ValueError("a callback may fail")

    lease.when_lost(fail)
    lease.when_lost(told)
    desk.reap(lease.id)
    for _ in range(2):
        with pytest.raises(LeaseLostError):
            lease.renew()
    assert told.event.wait(timeout=10)
    lease.lose("again")
    lease.when_lost(late)
    assert failing.is_set()
    assert told.threads == ["poolsql-lost"]
    assert late.threads == [threading.current_thread().name], "at once, for it is lost already"
    assert lease.lost == "the database no longer knows it as live", "the first reason stays"


def test_nobody_is_told_of_a_loss_after_a_release(desk: Desk) -> None:
    lease = desk.lease()
    told = Told()
    lease.when_lost(told)
    lease.release()
    lease.lose("too late")
    assert (lease.lost, told.threads) == (None, [])


def test_a_lost_lease_does_not_take_the_others_along(new_desk: Callable[..., Desk], clock: Clock) -> None:
    desk = new_desk(profiles=2)
    lost, kept = desk.lease(), desk.lease()
    desk.reap(lost.id)
    clock.suspend(31, desk.keeper)
    until(lambda: lost.lost and clock.settled(desk.keeper))
    kept.check()
    before = kept.expires_at
    clock.suspend(31, desk.keeper)
    until(lambda: kept.expires_at > before)
    assert kept.lost is None


def test_no_renewal_follows_a_release(faulty_desk: Desk, faulty: FaultyDatabase, clock: Clock) -> None:
    desk = faulty_desk
    (other,) = desk.add_profiles(1)
    kept, released = desk.lease(), desk.lease()
    released.release()
    for _ in range(3):
        renewals = faulty.ran.count(RENEW)
        clock.suspend(31, desk.keeper)
        until(lambda renewals=renewals: faulty.ran.count(RENEW) > renewals)  # type: ignore[misc]
        until(lambda: clock.settled(desk.keeper))
    assert desk.refused(released.id) == []
    assert other in {kept.profile.id, released.profile.id}
    desk.keeper.close()


def test_a_release_waits_for_a_renewal_under_way(faulty_desk: Desk, faulty: FaultyDatabase, clock: Clock) -> None:
    """Else the renewal would meet its own lease gone, and be recorded as refused."""
    desk = faulty_desk
    lease = desk.lease()
    with desk.opened() as locking:
        locking.execute("SELECT FROM poolsql.leases WHERE id = %s FOR UPDATE", [lease.id])
        clock.suspend(31, desk.keeper)
        desk.wait_until_blocked()
        releasing = threading.Thread(target=lease.release, args=(Outcome.SUCCESS,))
        releasing.start()
        until(lambda: desk.keeper._leases == {})
        assert releasing.is_alive()
        assert desk.attempts() == []
    releasing.join(timeout=10)
    assert desk.attempt(lease.id).outcome == "success"
    assert desk.refused(lease.id) == []
    desk.keeper.close()


def test_a_closed_keeper_renews_nothing_and_its_thread_has_ended(desk: Desk) -> None:
    lease = desk.lease()
    thread = desk.keeper._thread
    assert thread is not None
    assert thread.daemon
    desk.keeper.close()
    assert not thread.is_alive()
    assert isinstance(lease, Lease)


def test_a_keeper_without_leases_ends_its_thread_and_starts_another(
    desk: Desk, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "IDLE_SECONDS", 0.01)
    first = desk.lease()
    thread = desk.keeper._thread
    assert thread is not None
    first.release()
    thread.join(timeout=10)
    assert not thread.is_alive()
    second = desk.lease()
    assert desk.keeper._thread is not thread
    second.release()


def test_a_lease_found_again_is_renewed_at_once_i6(desk: Desk, faulty: FaultyDatabase) -> None:
    faulty.lose_answer_of(checkout.CHECKOUT)
    granted = checkout.checkout(faulty, desk.worker, desk.request())
    assert granted is not None
    lease = desk.hold(granted)
    until(lambda: lease.trusted_until > clocks.elapsed_clock())
    assert lease.lost is None
