"""Several processes that do the same as fast as they can: for a time, so many times, or while something goes on."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

WARM_UP_CYCLES = 20
"""For connections and prepared statements, before any time is taken."""
WARM_UP_SECONDS = 5.0
"""After which warming up ends in any case: a cycle of some contender may take seconds."""

SLOWEST_CYCLE = 120.0
"""Seconds for which nobody waits longer than the clients should take."""

Cycle = Callable[[], object]
Client = Callable[..., AbstractContextManager[Cycle]]


class Until(Protocol):
    """When a client stops. Goes to its process."""

    def reached(self, number: int, elapsed: float) -> bool:
        """Whether it stops after so many cycles in so many seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Seconds:
    """After a time."""

    seconds: float

    def reached(self, number: int, elapsed: float) -> bool:
        """See `Until`."""
        return elapsed >= self.seconds


@dataclass(frozen=True, slots=True)
class Cycles:
    """After so many cycles of each client."""

    cycles: int

    def reached(self, number: int, elapsed: float) -> bool:
        """See `Until`."""
        return number >= self.cycles


@dataclass(frozen=True, slots=True)
class Told:
    """Once the flag is set."""

    flag: Any
    """A byte that all processes share."""

    def reached(self, number: int, elapsed: float) -> bool:
        """See `Until`."""
        return bool(self.flag.value)


def cycles_per_second(client: Client, arguments: tuple[Any, ...], *, clients: int, seconds: float) -> float:
    """How many cycles all clients together do in a second.

    Args:
        client: Called in each process; gives, for a ``with`` block, what one cycle is.
        arguments: For `client`; must be picklable, as it must be.
    """
    return _rate(client, arguments, clients, Seconds(seconds), lambda: time.sleep(seconds))


def rate_of(cycles: int, client: Client, arguments: tuple[Any, ...], *, clients: int) -> float:
    """The same over so many cycles of all clients together, however long they take."""
    return _rate(client, arguments, clients, Cycles(cycles // clients), lambda: None, patience=cycles)


def rate_during(work: Callable[[], object], client: Client, arguments: tuple[Any, ...], *, clients: int) -> float:
    """The same while this process works: from when the clients are ready until the work is done."""
    flag = multiprocessing.get_context("spawn").RawValue("b", 0)

    def work_and_tell() -> None:
        try:
            work()
        finally:
            flag.value = 1

    return _rate(client, arguments, clients, Told(flag), work_and_tell)


def _rate(
    client: Client,
    arguments: tuple[Any, ...],
    clients: int,
    until: Until,
    meanwhile: Callable[[], object],
    *,
    patience: float = 0,
) -> float:
    spawn = multiprocessing.get_context("spawn")
    ready, counts = spawn.Barrier(clients + 1), spawn.Queue()
    processes = [spawn.Process(target=_run, args=(client, arguments, ready, counts, until)) for _ in range(clients)]
    for process in processes:
        process.start()
    try:
        ready.wait(timeout=SLOWEST_CYCLE)
        meanwhile()
        done = [counts.get(timeout=patience + SLOWEST_CYCLE) for _ in processes]
    finally:
        for process in processes:
            process.join(timeout=10)
            if process.is_alive():
                process.kill()
    return float(sum(number / elapsed for number, elapsed in done))


def _run(client: Client, arguments: tuple[Any, ...], ready: Any, counts: Any, until: Until) -> None:
    with client(*arguments) as cycle:
        warm_until = time.perf_counter() + WARM_UP_SECONDS
        for _ in range(WARM_UP_CYCLES):
            cycle()
            if time.perf_counter() > warm_until:
                break
        ready.wait(timeout=SLOWEST_CYCLE)
        number = 0
        began = time.perf_counter()
        while not until.reached(number, elapsed := time.perf_counter() - began):
            cycle()
            number += 1
        counts.put((number, elapsed))
