"""Several processes that do the same as fast as they can, for a time."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

WARM_UP_CYCLES = 20
"""For connections and prepared statements, before any time is taken."""
WARM_UP_SECONDS = 5.0
"""After which warming up ends in any case: a cycle of some contender may take seconds."""

Cycle = Callable[[], object]
Client = Callable[..., AbstractContextManager[Cycle]]


def cycles_per_second(client: Client, arguments: tuple[Any, ...], *, clients: int, seconds: float) -> float:
    """How many cycles all clients together do in a second.

    Args:
        client: Called in each process; gives, for a ``with`` block, what one cycle is.
        arguments: For `client`; must be picklable, as it must be.
    """
    spawn = multiprocessing.get_context("spawn")
    ready, counts = spawn.Barrier(clients), spawn.Queue()
    processes = [spawn.Process(target=_run, args=(client, arguments, ready, counts, seconds)) for _ in range(clients)]
    for process in processes:
        process.start()
    try:
        done = [counts.get(timeout=seconds + 120) for _ in processes]
    finally:
        for process in processes:
            process.join(timeout=10)
            if process.is_alive():
                process.kill()
    return float(sum(number / elapsed for number, elapsed in done))


def _run(client: Client, arguments: tuple[Any, ...], ready: Any, counts: Any, seconds: float) -> None:
    with client(*arguments) as cycle:
        warm_until = time.perf_counter() + WARM_UP_SECONDS
        for _ in range(WARM_UP_CYCLES):
            cycle()
            if time.perf_counter() > warm_until:
                break
        ready.wait(timeout=120)
        number = 0
        began = time.perf_counter()
        while (elapsed := time.perf_counter() - began) < seconds:
            cycle()
            number += 1
        counts.put((number, elapsed))
