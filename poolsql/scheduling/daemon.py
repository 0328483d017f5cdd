"""The daemon: fires jobs, works on their runs, reaps and retires, until it is told to stop.

Any number of them can share a database. APScheduler calls the loops that talk to the database, in threads, so that
nothing that happens on the pages' loop can hold the reaper up.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from types import FrameType

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from poolsql.fleet.fleet import Fleet
from poolsql.fleet.threads import Threads
from poolsql.scheduling.browser_limit import BrowserLimit, default_most
from poolsql.scheduling.crew import LOOK_EVERY, Crew
from poolsql.scheduling.firing import Firing
from poolsql.scheduling.housekeeping import Housekeeping
from poolsql.scheduling.loops import Loop, Stamps
from poolsql.scheduling.preparing import prepare_runs
from poolsql.scheduling.upkeep import tidy

log = logging.getLogger(__name__)

FIRE_EVERY = 1.0
REAP_EVERY = 1.0
RETIRE_EVERY = 60.0
TIDY_EVERY = 5.0
HOUSEKEEPING_EVERY = 5.0
"""Seconds between two rounds of each loop."""

OVERDUE_AFTER = 10.0
"""Seconds beyond three rounds after which a loop is called out of turn: the wall clock, by which APScheduler waits,
may have been set back."""

DEFAULT_GRACE = 20.0
"""Seconds that tasks under way get to end by themselves when the daemon is told to stop."""

REPORTS_WITHIN = 15.0
"""Seconds after the grace in which browsers are stopped and reports are written; then nothing is tried again."""

SIGNALS = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGBREAK] if hasattr(signal, "SIGBREAK") else [])

STOPS_AT_ONCE = 3
"""Signals after which the process ends whatever it does."""

ABANDONED_AFTER = 3.0
"""Seconds that what was left on the loop gets to end; a handler that swallows cancellation would keep it for ever."""

KILLED_BY_HAND = 130
"""Exit code of a daemon that was told to stop a third time while browsers were still being stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonOptions:
    """How one daemon behaves."""

    max_browsers: int | None = None
    """Browsers at once on this machine; None: what fits into its memory at 600 MB each."""
    grace: float = DEFAULT_GRACE
    """Seconds that tasks under way get to end by themselves when the daemon is told to stop."""


class Daemon:
    """One daemon on one fleet."""

    def __init__(self, fleet: Fleet, options: DaemonOptions | None = None) -> None:
        self._fleet = fleet
        self._options = options or DaemonOptions()
        self._most = self._options.max_browsers or default_most()
        self._firing = Firing(fleet.database)
        self._scheduler = BackgroundScheduler(
            jobstores={"default": MemoryJobStore()},
            executors={"default": ThreadPoolExecutor(max_workers=8)},
            # A round that comes late is still wanted, several that were missed are one, and none overlaps itself.
            job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1},
            timezone=UTC,
        )
        # It warns whenever a round takes longer than its interval, which an outage of the database makes the rule.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        self._stops = 0
        self._signals_seen = 0
        self._fired: SimpleQueue[int] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()

    def run(self) -> None:
        """Work until a SIGINT, a SIGTERM or `stop`; then take on nothing more, and end cleanly.

        Tasks under way get the grace to end; those that are left are given back, with their browsers stopped. A second
        signal cuts the grace short; a third ends the process at once, and leaves its browsers to the next reaper.
        """
        loop = asyncio.new_event_loop()
        with self._signals():
            try:
                asyncio.set_event_loop(loop)
                loop.run_until_complete(self._main())
            finally:
                _close(loop)

    def stop(self) -> None:
        """Tell it to stop, from any thread; a second time: at once."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stops:
            return
        worker, database = self._fleet.worker, self._fleet.database
        threads = Threads()
        limit = BrowserLimit(
            database, threads, machine=self._fleet.settings.machine, worker_id=worker.id, most=self._most
        )
        stamps = Stamps(database, worker, drain=self._drain)
        machine = self._fleet.settings.machine
        resources = ExitStack()
        housekeeping = Housekeeping(resources.enter_context(database.direct()))
        loops = [
            Loop("fire", self._fire, every=FIRE_EVERY, stamps=stamps),
            Loop("prepare", self._prepare, every=FIRE_EVERY, stamps=stamps),
            Loop("reap", self._fleet.reap, every=REAP_EVERY, stamps=stamps),
            Loop("retire", self._fleet.retire_due, every=RETIRE_EVERY, stamps=stamps),
            Loop("tidy", lambda: tidy(database, machine), every=TIDY_EVERY, stamps=stamps),
            Loop("housekeeping", housekeeping.run_once, every=HOUSEKEEPING_EVERY, stamps=stamps),
        ]
        crew = Crew(self._fleet, limit, threads, stamps=stamps)
        for loop in loops:
            self._scheduler.add_job(
                loop.round, IntervalTrigger(seconds=loop.every), id=loop.name, next_run_time=datetime.now(UTC)
            )
        self._scheduler.start()
        log.info("daemon %s on %s: up to %d browsers", worker.id, worker.machine, self._most)
        work = asyncio.create_task(crew.work(), name="crew")
        watch = asyncio.create_task(self._call_overdue(loops), name="watch")
        try:
            while not self._stopping.is_set():
                work = await self._work_until_stopping(crew, work)
            log.info("stopping: no new tasks; those under way get up to %g s", self._options.grace)
            for name in ("fire", "prepare"):
                self._scheduler.remove_job(name)
            crew.finish()
            await self._end(work)
        finally:
            watch.cancel()
            work.cancel()
            await asyncio.gather(work, watch, return_exceptions=True)
            await asyncio.to_thread(self._scheduler.shutdown)
            resources.close()
            threads.close()
        log.info("daemon %s has ended", worker.id)

    async def _work_until_stopping(self, crew: Crew, work: asyncio.Task[None]) -> asyncio.Task[None]:
        """Wait for the signal; a crew that ends before, through a fault of ours, is started anew."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not work.done() or self._stopping.is_set():
            return work
        error = None if work.cancelled() else work.exception()
        log.error("the crew has ended unexpectedly, starting it anew", exc_info=error)
        await asyncio.sleep(LOOK_EVERY)
        return asyncio.create_task(crew.work(), name="crew")

    async def _end(self, work: asyncio.Task[None]) -> None:
        hurrying = asyncio.ensure_future(self._hurrying.wait())
        await asyncio.wait({work, hurrying}, timeout=self._options.grace, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            log.warning("stopping the browsers of what is still under way; its tasks are given back")
            work.cancel()
            await asyncio.wait({work, hurrying}, timeout=REPORTS_WITHIN, return_when=asyncio.FIRST_COMPLETED)
            # What cannot be written by now is left to the leases' ends: a database that is away must not hold us.
            self._fleet.database.hurry()
        hurrying.cancel()

    async def _call_overdue(self, loops: list[Loop]) -> None:
        while True:
            await asyncio.sleep(OVERDUE_AFTER / 2)
            for loop in loops:
                if loop.idle_for <= OVERDUE_AFTER + 3 * loop.every:
                    continue
                try:
                    if self._scheduler.get_job(loop.name) is not None:
                        log.warning("loop %s is overdue; was the clock set?", loop.name)
                        self._scheduler.modify_job(loop.name, next_run_time=datetime.now(UTC))
                except Exception:
                    log.exception("loop %s is overdue and could not be called", loop.name)

    def _fire(self) -> None:
        for firing in self._firing.fire_due():
            if firing.run_id is not None:
                self._fired.put(firing.run_id)

    def _prepare(self) -> None:
        # Apart from firing: the targets of one job may take long to look up, and no other job has to wait for that.
        own = [self._fired.get_nowait() for _ in range(self._fired.qsize())]
        prepare_runs(self._fleet.database, own=own)

    def _drain(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)

    def _stop(self) -> None:
        self._stops += 1
        if self._stops == 1:
            self._stopping.set()
        else:
            log.warning("told to stop again: stopping the browsers now")
            self._stopping.set()
            self._hurrying.set()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Take the signals that end a process: works on every platform, and before and after the loop runs too."""

        def told(number: int, _: FrameType | None) -> None:
            self._signals_seen += 1
            if self._signals_seen >= STOPS_AT_ONCE:
                # Here, and not on the loop: a handler may block that.
                os.write(2, b"poolsql: told to stop a third time; browsers are left to the next reaper\n")
                os._exit(KILLED_BY_HAND)
            if self._loop is None:
                self._stops += 1
                return
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so will the process
                self._loop.call_soon_threadsafe(self._stop)

        before = {number: signal.signal(number, told) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """As `asyncio.run` ends its loop, but not waiting for ever for what swallows its cancellation."""
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=ABANDONED_AFTER))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
