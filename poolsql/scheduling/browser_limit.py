"""How many browsers one machine runs at once, whatever the jobs ask for."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import DatabaseError, DatabaseUnavailableError
from poolsql.fleet.threads import Threads
from poolsql.scheduling.memory import memory

log = logging.getLogger(__name__)

LOCK_MACHINE = Statement.load("poolsql.scheduling", "lock_machine")
TAKE_SEAT = Statement.load("poolsql.scheduling", "take_seat")
LEAVE_SEAT = Statement.load("poolsql.scheduling", "leave_seat")

MEMORY_PER_BROWSER = 600 * 1024 * 1024
"""Bytes: what a headed browser takes with a heavy page; a headless one takes a third."""

GROWS_FOR = 10.0
"""Seconds after which a browser that got its seat shows in the machine's memory."""

LOOK_AGAIN_AFTER = 0.25
"""Seconds between two looks at a machine that is full: a small part of what a browser takes to start."""


def default_most(total_memory: int | None = None) -> int:
    """How many browsers fit into the memory that this process may use; at least one."""
    total = memory().total if total_memory is None else total_memory
    return max(1, total // MEMORY_PER_BROWSER)


class BrowserLimit:
    """Seats for browsers, taken in order of asking.

    A seat is given when all processes of the machine together have fewer than `most`, and the memory for one more is
    there. Seats stand in the workers' rows, which a machine's processes lock to take one; so the number is exact.
    """

    def __init__(
        self,
        database: Database,
        threads: Threads,
        *,
        machine: str,
        worker_id: UUID,
        most: int,
        available_memory: Callable[[], int] = lambda: memory().available,
    ) -> None:
        self._database = database
        self._threads = threads
        self._mine = {"machine": machine, "worker_id": worker_id, "most": most}
        self._most = most
        self._available_memory = available_memory
        self._seats = asyncio.Semaphore(most)
        self._turn = asyncio.Lock()
        # Held while the number of seats is written, so that the last one written is the last one counted.
        self._counting = asyncio.Lock()
        self._taken = 0
        self._given: deque[float] = deque()
        self._told = ""

    @property
    def taken(self) -> int:
        """Seats in use."""
        return self._taken

    @asynccontextmanager
    async def seat(self) -> AsyncIterator[None]:
        """Wait for a seat and keep it for a block."""
        async with self._seats:
            async with self._turn:
                while (full := await self._take()) is not None:
                    if full != self._told:
                        log.info("no further browser for now: %s", full)
                        self._told = full
                    await asyncio.sleep(LOOK_AGAIN_AFTER)
                self._told = ""
                given_at = self._given[-1]
            try:
                yield
            finally:
                # What it took, or would have taken, is free again.
                with contextlib.suppress(ValueError):
                    self._given.remove(given_at)
                await self._leave()

    async def _take(self) -> str | None:
        """Take a seat; why another browser would be too much, when there is none."""
        while self._given and elapsed_clock() - self._given[0] > GROWS_FOR:
            self._given.popleft()
        if self._taken and self._available_memory() < MEMORY_PER_BROWSER * (1 + len(self._given)):
            return "the machine's memory is nearly used up"
        async with self._counting:
            full = await self._threads.run(self._take_in_database, undo=self._give_back)
            if full is None:
                self._taken += 1
                self._given.append(elapsed_clock())
        return full

    async def _leave(self) -> None:
        async with self._counting:
            self._taken -= 1
            await self._threads.run(partial(self._write, self._taken))

    def _take_in_database(self) -> str | None:
        parameters = {**self._mine, "seats": self._taken}
        try:
            with self._database.transaction() as connection:
                connection.exec_driver_sql(LOCK_MACHINE.query, parameters)
                row = connection.exec_driver_sql(TAKE_SEAT.query, parameters).one()
        except DatabaseUnavailableError:
            return None  # whoever takes the seat needs the database too, and says what is wrong with it
        except DatabaseError as error:
            return f"the machine's seats could not be counted: {error}"
        if row.taken:
            return None
        return f"of the {self._most} that this machine is to run, {self._taken} run here and {row.others} elsewhere"

    def _give_back(self, full: str | None) -> None:
        """The seat that was just taken is not wanted any more."""
        if full is None:
            self._write(self._taken)

    def _write(self, seats: int) -> None:
        try:
            self._database.run(LEAVE_SEAT, {**self._mine, "seats": seats}, patience=0.0)
        except DatabaseError as error:
            log.debug("the number of seats was not written: %s", error)  # the next one that is taken or left is
