"""What a daemon does for the speed of its fleet, for benchmarks that run longer than a moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from poolsql import Fleet
from poolsql.scheduling.daemon import HOUSEKEEPING_EVERY
from poolsql.scheduling.housekeeping import Housekeeping


@contextmanager
def upkeep(fleet: Fleet) -> Iterator[Housekeeping]:
    """The daemon's housekeeping, as often as a daemon does it."""
    housekeeping = Housekeeping(fleet.database)
    ended = threading.Event()
    failures: list[Exception] = []

    def keep() -> None:
        while not ended.wait(HOUSEKEEPING_EVERY):
            try:
                housekeeping.run_once()
            except Exception as error:  # noqa: BLE001 - raised where somebody reads it
                failures.append(error)
                return

    thread = threading.Thread(target=keep, name="upkeep")
    thread.start()
    try:
        yield housekeeping
    finally:
        ended.set()
        thread.join()
    if failures:
        raise failures[0]
