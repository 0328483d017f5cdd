"""Work of async callers that must not be half done because the caller was cancelled: in threads, or on the loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

log = logging.getLogger(__name__)

Result = TypeVar("Result")

THREADS = 64
"""Enough that a release never queues behind browsers that start; asyncio's own pool has few threads on few cores."""


class Threads:
    """Threads that are made when they are needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def forget(self) -> None:
        """After a fork: the threads are the parent's."""
        self._lock = threading.Lock()
        self._executor = None

    def close(self) -> None:
        """Wait for the work under way and end the threads."""
        with self._lock:
            self._closed = True
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown()

    async def run(self, work: Callable[[], Result], *, undo: Callable[[Result], None] | None = None) -> Result:
        """Run blocking work in a thread, always to its end.

        When the caller is cancelled meanwhile, the work is waited for, its result is given to `undo` (in a thread
        too), and then the cancellation is raised, whatever became of the work.
        """
        running = self._start(work)
        if not await _end_of(running):
            return running.result()
        error = running.exception()
        if error is None and undo is not None:
            finished = running.result()
            undoing = self._start(lambda: undo(finished))
            await _end_of(undoing)
            error = undoing.exception()
            if error is not None:
                log.error("what a cancelled task had begun could not be undone: %s", error)
        raise asyncio.CancelledError from error

    def _start(self, work: Callable[[], Result]) -> asyncio.Future[Result]:
        with self._lock:
            if self._executor is None and not self._closed:
                self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="poolsql")
            # What comes after the end, such as leaving a block, is left to asyncio's own threads.
            return asyncio.get_running_loop().run_in_executor(self._executor, work)


async def to_the_end(
    work: Coroutine[Any, Any, Result], *, undo: Callable[[Result], Coroutine[Any, Any, object]] | None = None
) -> Result:
    """Await work of the loop as `Threads.run` does with that of threads."""
    running = asyncio.ensure_future(work)
    if not await _end_of(running):
        return running.result()
    if running.cancelled():
        raise asyncio.CancelledError
    error = running.exception()
    if error is None and undo is not None:
        await _end_of(asyncio.ensure_future(undo(running.result())))
    raise asyncio.CancelledError from error


async def _end_of(running: asyncio.Future[Any]) -> bool:
    """Wait until it is done; whether this task was cancelled meanwhile."""
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
