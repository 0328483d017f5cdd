"""From a release to the return of the checkout that waited for it, and in which order those who wait are served."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from statistics import mean, quantiles
from typing import Any

from benchmarks.fleets import address, filled_pool
from benchmarks.report import AtMost, Case
from benchmarks.rounds import Figures
from poolsql import Fleet, connect

PROFILES = 20
PROCESSES = 8
THREADS = 25
HOLD = 0.1
"""Seconds."""
WARM_UP = 0.3
"""Share of the time whose waits do not count: at first everybody comes at once."""

GOALS = (
    AtMost("handover_p99_ms", 20.0),
    AtMost("overtaken_percent", 10.0),
    AtMost("longest_to_mean", 1.5),
)

Wait = tuple[float, float, int, float]
"""When it began, when it got its lease, of which profile, and when it began to give it back."""


def run(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """One case: 200 waiters."""
    yield measure(fleet, rounds=rounds, seconds=max(seconds, 6.0), processes=PROCESSES, threads=THREADS)


def measure(fleet: Fleet, *, rounds: int, seconds: float, processes: int, threads: int) -> Case:
    """So many rounds of so many waiters."""
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        pool = filled_pool(fleet, profiles=PROFILES, busy=0)
        waits = _waits(address(fleet), pool.name, processes=processes, threads=threads, seconds=seconds)
        for name, value in judge(waits).items():
            found[name].append(value)
    return Case(
        name="handover",
        given={"profiles": PROFILES, "waiters": processes * threads, "clients": processes},
        unit="",
        figures={name: Figures(tuple(values)) for name, values in found.items()},
        limits=GOALS,
    )


def _waits(url: str, pool: str, *, processes: int, threads: int, seconds: float) -> list[Wait]:
    spawn = multiprocessing.get_context("spawn")
    ready, results = spawn.Barrier(processes), spawn.Queue()
    arguments = (ready, results, url, pool, (threads, seconds))
    running = [spawn.Process(target=_process, args=arguments) for _ in range(processes)]
    for process in running:
        process.start()
    waits = [wait for _ in running for wait in results.get(timeout=seconds + 120)]
    for process in running:
        process.join()
    return waits


def _process(ready: Any, results: Any, url: str, pool: str, asked: tuple[int, float]) -> None:
    threads, seconds = asked
    waits: list[Wait] = []
    with connect(url, machine="here") as fleet:
        shop = fleet.pool(pool)
        fleet.worker  # noqa: B018 - registers it
        ready.wait(timeout=120)
        stops_at = time.monotonic() + seconds

        def work() -> None:
            while (began := time.monotonic()) < stops_at:
                lease = shop.checkout(wait=60)
                served = time.monotonic()
                time.sleep(HOLD)
                waits.append((began, served, lease.profile.id, time.monotonic()))
                lease.release()

        working = [threading.Thread(target=work) for _ in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
    results.put(waits)


def judge(waits: list[Wait]) -> dict[str, float]:
    """What the waits of a round tell: times in milliseconds, who was overtaken, and how even the waiting was."""
    first, last = min(wait[0] for wait in waits), max(wait[0] for wait in waits)
    since = first + WARM_UP * (last - first)
    by_profile: dict[int, list[Wait]] = defaultdict(list)
    for wait in waits:
        by_profile[wait[2]].append(wait)
    handed = [
        1000 * (later[1] - earlier[3])
        for found in by_profile.values()
        for earlier, later in pairwise(sorted(found, key=lambda wait: wait[1]))
        if later[0] < earlier[3] and later[0] >= since
    ]
    counted = sorted(wait for wait in waits if wait[0] >= since)
    overtaken, soonest = 0, float("inf")
    for _, served, *_ in reversed(counted):
        overtaken += soonest < served
        soonest = min(soonest, served)
    lengths = [served - began for began, served, *_ in counted]
    percentiles = quantiles(handed, n=100)
    return {
        "handover_p50_ms": percentiles[49],
        "handover_p99_ms": percentiles[98],
        "overtaken_percent": 100 * overtaken / len(counted),
        "longest_to_mean": max(lengths) / mean(lengths),
    }
