"""What holders believe: nobody believes in its lease any more when the next one on its profile begins (I1, I6).

Each holder is a worker of its own, with its own connection and keeper. One that is cut off from the database goes by
its own clock alone; meanwhile a reaper takes its lease back and somebody else gets the profile.
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

import pytest
from sqlalchemy.engine import URL

from poolsql.clocks import elapsed_clock
from poolsql.errors import LeaseLostError
from poolsql.leasing.keeper import Keeper
from poolsql.leasing.lease import Lease
from poolsql.leasing.reports import renew
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk, FaultyDatabase, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

NewDesk = Callable[..., Desk]

HOLDERS = 6
TURNS = 4
"""Leases of each holder."""


@dataclass(frozen=True)
class Belief:
    """When, on `elapsed_clock`, a holder believed that a profile was its own."""

    began: float
    ended: float
    reaped: bool


@pytest.fixture
def reaping(desk: Desk) -> Iterator[None]:
    """A reaper that is always at it."""
    over = threading.Event()

    def reap() -> None:
        reaper = desk.reaper()
        while not over.wait(0.005):
            reaper.run_once()

    reaping = threading.Thread(target=reap)
    reaping.start()
    yield
    over.set()
    reaping.join()


@pytest.mark.usefixtures("reaping")
def test_who_lost_its_lease_stopped_believing_before_the_next_one_began(
    new_desk: NewDesk, database_url: URL, settings: Settings, threads: ThreadPoolExecutor
) -> None:
    desk = new_desk(profiles=2, ttl=0.5, renew=0.1)
    beliefs: dict[int, list[Belief]] = defaultdict(list)

    def hold(number: int) -> None:
        chance = random.Random(number)
        mine = new_desk(pool=desk.pool, profiles=0)
        with ExitStack() as stack:
            database = FaultyDatabase(database_url, settings)
            stack.callback(database.close)
            keeper = Keeper(database, mine.worker)
            stack.callback(keeper.close)
            for _ in range(TURNS):
                granted = until(mine.grant)
                assert granted is not None
                lease = Lease(database, mine.worker, keeper, granted, host=None)
                began = elapsed_clock()
                cut_off = chance.random() < 0.5
                if cut_off:
                    database.down = True
                    until(lambda lease=lease: lease.lost)  # type: ignore[misc]
                    ended = lease.trusted_until
                    database.down = False
                else:
                    threading.Event().wait(chance.uniform(0, 0.2))
                    ended = min(elapsed_clock(), lease.trusted_until)
                    try:
                        lease.release()
                    except LeaseLostError:
                        cut_off = True  # this machine was too slow
                beliefs[granted.profile.id].append(Belief(began, ended, reaped=cut_off))

    list(threads.map(hold, range(HOLDERS)))
    everybody = [belief for believed in beliefs.values() for belief in believed]
    assert len(everybody) == HOLDERS * TURNS
    assert sum(belief.reaped for belief in everybody) >= TURNS
    for believed in beliefs.values():
        ordered = sorted(believed, key=lambda belief: belief.began)
        for earlier, later in pairwise(ordered):
            assert earlier.ended <= later.began, f"{later.began - earlier.ended:.3f} s: {earlier}, {later}"
    until(lambda: not desk.leases())
    outcomes = [attempt.outcome for attempt in desk.attempts()]
    assert len(outcomes) == HOLDERS * TURNS
    assert set(outcomes) <= {"success", "lease_expired"}


@pytest.mark.usefixtures("reaping")
def test_a_lease_that_is_renewed_and_reaped_at_the_same_moment_has_one_fate_i2(
    new_desk: NewDesk, threads: ThreadPoolExecutor
) -> None:
    """Renewals come when the leases have just expired, and meet a reaper: each one wins or is refused, never both."""
    leases = 60
    desk = new_desk(profiles=leases, ttl=0.05, renew=0.01)
    granted = [desk.granted() for _ in range(leases)]
    renewed_until: dict[int, datetime] = {}
    refused_at: dict[int, int] = defaultdict(int)
    chance = random.Random(4)

    def renew_late(mine: list[int]) -> None:
        names = {granted[number].lease_id: name_of(granted[number]) for number in mine}
        while names:
            asked = list(names)
            threading.Event().wait(chance.uniform(0.03, 0.06))
            answers = renew(desk.database, desk.worker, list(names.values()), patience=5.0)
            for lease_id in asked:
                if lease_id in answers:
                    renewed_until[lease_id] = answers[lease_id].expires_at
                else:
                    refused_at[lease_id] += 1
                    del names[lease_id]

    list(threads.map(renew_late, [list(range(start, leases, 6)) for start in range(6)]))
    until(lambda: not desk.leases())
    attempts = {attempt.lease_id: attempt for attempt in desk.attempts()}
    assert len(attempts) == leases
    assert renewed_until, "no renewal won"
    for lease_id, attempt in attempts.items():
        assert attempt.outcome == "lease_expired"
        assert refused_at[lease_id] == 1
        assert [report.kind for report in desk.refused(lease_id)] == ["renew"]
        if lease_id in renewed_until:
            assert renewed_until[lease_id] <= attempt.ended_at, "it was promised for longer"
