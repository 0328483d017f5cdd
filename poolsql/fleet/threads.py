"""Blocking work of async callers: in threads of our own, and never half done because the caller was cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")

THREADS = 64
"""Enough that a release never queues behind browsers that start; asyncio's own pool has few threads on few cores."""


class Threads:
    """Threads that are made when they are needed."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None

    def forget(self) -> None:
        """After a fork: the threads are the parent's."""
        self._executor = None

    def close(self) -> None:
        """Wait for the work under way and end the threads."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None

    async def run(self, work: Callable[[], Result], *, undo: Callable[[Result], None] | None = None) -> Result:
        """Run blocking work in a thread, always to its end.

        When the caller is cancelled meanwhile, the work is waited for, its result is given to `undo` (in a thread
        too), and only then is the cancellation raised.
        """
        result, cancelled = await self._to_the_end(work)
        if cancelled:
            if undo is not None:
                finished = result
                await self._to_the_end(lambda: undo(finished))
            raise asyncio.CancelledError
        return result

    async def _to_the_end(self, work: Callable[[], Result]) -> tuple[Result, bool]:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="poolsql")
        running = asyncio.get_running_loop().run_in_executor(self._executor, work)
        cancelled = False
        while not running.done():
            try:
                await asyncio.wait([running])
            except asyncio.CancelledError:
                cancelled = True
        return running.result(), cancelled
