"""One process of `test_waiting_line`: threads that wait for profiles, each again and again."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from poolsql import Fleet
from poolsql.clocks import elapsed_clock
from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.settings import load_settings

HOLD = 0.02
"""Seconds for which each lease is kept."""


def wait_in_line(url: str, pool: str, threads: int, cycles: int, journal: Path) -> None:
    """Each thread waits, keeps what it gets for a moment, and gives it back."""
    settings = load_settings(machine="here", data_dir=journal.parent)
    database = Database(database_address(url), settings, pool_size=threads)
    with Fleet(database, settings) as fleet, journal.open("w", encoding="utf-8", buffering=1) as lines:
        waited_for = fleet.pool(pool)
        pause = threading.Event()

        def work(number: int) -> None:
            for _ in range(cycles):
                lease = waited_for.checkout(wait=120, priority=number % 3, host=f"host-{number % 2}.test")
                began = elapsed_clock()
                pause.wait(HOLD)
                ended = elapsed_clock()
                lease.release()
                lines.write(json.dumps([lease.id, lease.profile.id, began, ended]) + "\n")

        working = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
    database.close()
