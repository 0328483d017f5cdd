"""From ``kill -9`` of a worker with a real browser to its profile being leased again, its browser gone."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import quantiles
from uuid import uuid4

from sqlalchemy import text

from benchmarks.crashing import (
    HERE,
    THERE,
    Victim,
    browser_processes,
    daemon,
    launcher_of_all_machines,
    launcher_of_this_machine,
    place_for_browsers,
    victims,
)
from benchmarks.report import AtMost, Case
from benchmarks.rounds import Figures
from poolsql import Fleet, Pool
from tests.fixtures.conditions import until

KILLS = 40
"""In each round; all rounds together give the percentiles."""
AT_ONCE = 8
"""Workers that are killed at about the same time."""
SPREAD = 2.0
"""Seconds within which they are killed, so that some wait for the stop of others' browsers."""
GIVE_UP = 120.0
"""Seconds after which a profile that has not come back is a failure, not a figure."""

BACK = "SELECT id FROM poolsql.profiles WHERE id = ANY (:ids) AND available_at <= clock_timestamp()"
OLD_ENOUGH = "SELECT clock_timestamp() > pg_postmaster_start_time() + CAST(:ttl AS interval)"


@dataclass(frozen=True)
class Circumstances:
    """Where worker and daemon are, and by when a profile is to be back."""

    machines: int
    worker: str
    launcher: Callable[[Fleet, Path], AbstractContextManager[str]]
    p99_ms: float


TOGETHER = Circumstances(1, HERE, launcher_of_this_machine, 3_000.0)
APART = Circumstances(2, THERE, launcher_of_all_machines, 15_000.0)
"""Worker and daemon on machines of their own, which both reach the product that starts the browsers."""


def together(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """Worker and daemon on one machine; `KILLS` for each round."""
    del seconds  # it takes as long as it takes
    yield measure(fleet, TOGETHER, kills=rounds * KILLS, at_once=AT_ONCE)


def apart(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """The same on two machines."""
    del seconds
    yield measure(fleet, APART, kills=rounds * KILLS, at_once=AT_ONCE)


def measure(
    fleet: Fleet, circumstances: Circumstances, *, kills: int, at_once: int, ttl: timedelta = timedelta(seconds=90)
) -> Case:
    """Kill so many workers, some at a time.

    Raises:
        RuntimeError: A profile was offered while something of its browser still ran, or did not come back.
    """
    found: list[float] = []
    with (
        place_for_browsers() as place,
        circumstances.launcher(fleet, place) as launcher,
        daemon(fleet, place),
    ):
        pool = fleet.define_pool(f"crash-{uuid4().hex[:8]}", ttl=ttl, lost_cooldown=0)
        for number in range(at_once):
            pool.add_profile(f"p{number}", launcher=launcher)
        if circumstances.machines > 1:
            # So soon after its start a server that has no lock of a worker proves nothing about that worker.
            until(lambda: _server_is_older_than(fleet, ttl), seconds=2 * ttl.total_seconds())
        while len(found) < kills:
            print(f"\r{len(found)} of {kills} killed ", end="", file=sys.stderr, flush=True)  # noqa: T201
            held = victims(
                fleet, pool.name, place, machine=circumstances.worker, count=min(at_once, kills - len(found))
            )
            found += _kill(fleet, pool, place, held)
    print("\r" + " " * 50 + "\r", end="", file=sys.stderr)  # noqa: T201
    return Case(
        name="crash",
        given={"machines": circumstances.machines, "profiles": at_once, "clients": at_once, "kills": kills},
        unit="ms",
        figures=judge(found),
        limits=(AtMost("back_p99", circumstances.p99_ms),),
    )


def judge(seconds: list[float]) -> dict[str, Figures]:
    """The percentiles of all kills, and the longest; milliseconds."""
    percentiles = quantiles(seconds, n=100, method="inclusive")
    told = {"back_p50": percentiles[49], "back_p99": percentiles[98], "back_longest": max(seconds)}
    return {name: Figures((1000 * value,)) for name, value in told.items()}


def _kill(fleet: Fleet, pool: Pool, place: Path, held: list[Victim]) -> list[float]:
    """Kill all within `SPREAD`; the seconds until each one's profile could be leased again."""
    for victim in held:
        if not browser_processes(place, victim.key):
            raise RuntimeError(f"profile {victim.key}: no browser of it runs, so its end would prove nothing")
    due = sorted(random.uniform(0, SPREAD) for _ in held)  # noqa: S311 - not a secret
    began = time.monotonic()
    killed: dict[int, tuple[Victim, float]] = {}
    found: list[float] = []
    while len(found) < len(held):
        now = time.monotonic()
        if due and now - began >= due[0]:
            victim = held[len(held) - len(due)]
            due.pop(0)
            victim.kill()
            killed[victim.profile_id] = victim, now
        for profile_id in _back(fleet, list(killed)):
            victim, at = killed.pop(profile_id)
            left = browser_processes(place, victim.key)
            lease = pool.checkout(profile_id=profile_id)
            found.append(time.monotonic() - at)
            if left:
                raise RuntimeError(f"profile {victim.key} was offered while its browser ran: processes {left}")
            lease.release()
        if now - began > GIVE_UP:
            raise RuntimeError(f"profiles {[victim.key for victim, _ in killed.values()]} did not come back")
        time.sleep(0.005)
    for victim in held:
        victim.process.join(timeout=10)
    return found


def _back(fleet: Fleet, profile_ids: list[int]) -> list[int]:
    with fleet.database.connect() as connection:
        return list(connection.execute(text(BACK), {"ids": profile_ids}).scalars())


def _server_is_older_than(fleet: Fleet, ttl: timedelta) -> bool:
    with fleet.database.connect() as connection:
        return bool(connection.execute(text(OLD_ENOUGH), {"ttl": ttl}).scalar_one())
