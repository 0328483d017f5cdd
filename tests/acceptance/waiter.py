"""One process of `test_waiting_line`: a crowd that waits for profiles, each in a way of its own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from poolsql import Fleet, NoProfileAvailableError, Pool
from poolsql.clocks import elapsed_clock
from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.settings import load_settings

PATIENT, IMPATIENT, CANCELLED = 32, 4, 4
"""Waiters of each kind in a process."""

CYCLES = 2
"""How often each patient one waits and is served."""

HOLD = 0.02
"""Seconds for which each lease is kept."""

IMPATIENCE = 1.0
"""Seconds that an impatient one waits."""

TIME = 100.0
"""Seconds that everybody else waits at most."""

ARRIVE_EVERY = 0.02
"""Seconds between two arrivals, so that not all connect at once."""


WISHES = 5


def wish(number: int, named: int) -> Mapping[str, Any]:
    """What a waiter asks for, by its number: of each set of criteria there are several priorities."""
    criteria: list[dict[str, Any]] = [
        {},
        {"tags": ["de"]},
        {"without_tags": ["de"]},
        {"host": "shop.test"},
        {"profile_id": named},
    ]
    assert len(criteria) == WISHES
    return {**criteria[number % WISHES], "priority": number // WISHES % 3 - 1}


def wait_in_line(url: str, pool: str, name: str, named: int, cancel: Path, journal: Path) -> None:
    """Let everybody wait, and write down what becomes of them."""
    # Nobody of them is to start one.
    no_browser = journal.parent / "no browser"
    settings = load_settings(machine="here", data_dir=journal.parent, chromium=no_browser)
    database = Database(database_address(url), settings, pool_size=8)
    with Fleet(database, settings) as fleet, journal.open("w", encoding="utf-8", buffering=1) as lines:
        crowd = _Crowd(fleet.pool(pool), name, named, lines)
        threads = [threading.Thread(target=crowd.patient, args=(number,)) for number in range(PATIENT)]
        threads += [threading.Thread(target=crowd.impatient, args=(number,)) for number in range(IMPATIENT)]
        pause = threading.Event()
        for thread in threads:
            thread.start()
            pause.wait(ARRIVE_EVERY)
        asyncio.run(crowd.cancelled(cancel))
        for thread in threads:
            thread.join()
    database.close()


class _Crowd:
    def __init__(self, pool: Pool, name: str, named: int, lines: TextIO) -> None:
        self._pool = pool
        self._name = name
        self._named = named
        self._lines = lines

    def patient(self, number: int) -> None:
        """Waits, keeps what it gets for a moment, and gives it back; again and again."""
        pause = threading.Event()
        for cycle in range(CYCLES):
            task = f"{self._name} patient {number} {cycle}"
            lease = self._pool.checkout(task=task, wait=TIME, **wish(number, self._named))
            began = elapsed_clock()
            pause.wait(HOLD)
            ended = elapsed_clock()
            lease.release()
            self._note(task, lease=lease.id, profile=lease.profile.id, began=began, ended=ended)

    def impatient(self, number: int) -> None:
        """Waits for so short a time that it gets nothing."""
        task = f"{self._name} impatient {number}"
        began = elapsed_clock()
        try:
            self._pool.checkout(task=task, wait=IMPATIENCE, **wish(number, self._named))
        except NoProfileAvailableError:
            self._note(task, waited=elapsed_clock() - began)

    async def cancelled(self, cancel: Path) -> None:
        """Wait in async code until they are told, by a file, to wait no longer."""
        waiting = []
        for number in range(CANCELLED):
            waiting.append(asyncio.create_task(self._borrow(number)))
            await asyncio.sleep(ARRIVE_EVERY)
        while not cancel.exists():  # noqa: ASYNC110, ASYNC240 - another process makes it, at no cost
            await asyncio.sleep(ARRIVE_EVERY)
        for task in waiting:
            task.cancel()
        for number, error in enumerate(await asyncio.gather(*waiting, return_exceptions=True)):
            self._note(f"{self._name} cancelled {number}", error=type(error).__name__)

    async def _borrow(self, number: int) -> None:
        task = f"{self._name} cancelled {number}"
        async with self._pool.browser(task=task, wait=TIME, **wish(number, self._named)):
            pass

    def _note(self, task: str, **facts: object) -> None:
        self._lines.write(json.dumps({"task": task, **facts}) + "\n")
