"""How many browsers one machine runs at once, whatever the jobs ask for."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.errors import PoolsqlError
from poolsql.fleet.threads import Threads
from poolsql.scheduling.memory import memory

log = logging.getLogger(__name__)

BROWSERS_HERE = Statement.load("poolsql.scheduling", "browsers_here")

MEMORY_PER_BROWSER = 600 * 1024 * 1024
"""Bytes: what a headed browser takes with a heavy page; a headless one takes a third."""

GROWS_FOR = 10.0
"""Seconds after which a browser that got its seat shows in the machine's memory."""

LOOK_AGAIN_AFTER = 1.0
"""Seconds between two looks at a machine that is full."""


def default_most(total_memory: int | None = None) -> int:
    """How many browsers fit into the memory that this process may use; at least one."""
    total = memory().total if total_memory is None else total_memory
    return max(1, total // MEMORY_PER_BROWSER)


class BrowserLimit:
    """Seats for browsers, taken in order of asking.

    A seat is given when this process has fewer than `most`, all processes of the machine together too, and the
    memory for one more is there. Other processes' browsers count from their start on, so several daemons of one
    machine that begin at the same moment may exceed its number until the first of their browsers has stopped.
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
        self._others = {"machine": machine, "worker_id": worker_id}
        self._most = most
        self._available_memory = available_memory
        self._seats = asyncio.Semaphore(most)
        self._turn = asyncio.Lock()
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
                while (full := await self._full()) is not None:
                    if full != self._told:
                        log.warning("no further browser for now: %s", full)
                        self._told = full
                    await asyncio.sleep(LOOK_AGAIN_AFTER)
                self._told = ""
                self._taken += 1
                self._given.append(elapsed_clock())
            try:
                yield
            finally:
                self._taken -= 1

    async def _full(self) -> str | None:
        """Why another browser would be too much; None: there is room."""
        while self._given and elapsed_clock() - self._given[0] > GROWS_FOR:
            self._given.popleft()
        if self._taken and self._available_memory() < MEMORY_PER_BROWSER * (1 + len(self._given)):
            return "the machine's memory is nearly used up"
        try:
            others = await self._threads.run(lambda: self._database.run(BROWSERS_HERE, self._others)[0].browsers)
        except PoolsqlError:
            return None  # whoever takes the seat needs the database too, and says what is wrong with it
        if others + self._taken >= self._most:
            return f"other processes run {others} browsers, this one {self._taken}, and {self._most} is the most here"
        return None
