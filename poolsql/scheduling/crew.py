"""The daemon's hands: a runner for each open run, all on one loop with one driver, under one limit of browsers."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

from playwright.async_api import Playwright, async_playwright

from poolsql.database.statements import Statement
from poolsql.errors import DatabaseError, PoolsqlError
from poolsql.fleet.fleet import Fleet
from poolsql.fleet.threads import Threads
from poolsql.leasing.reports import cleaned
from poolsql.scheduling.browser_limit import BrowserLimit
from poolsql.scheduling.definitions import JobDefinition
from poolsql.scheduling.loops import Stamps
from poolsql.scraping.driver_check import DriverLostError
from poolsql.scraping.runner import Runner
from poolsql.scraping.runner_options import RunnerOptions

log = logging.getLogger(__name__)

OPEN_RUNS = Statement.load("poolsql.scheduling", "open_runs")
NOTE_RUN = Statement.load("poolsql.scheduling", "note_run")

LOOK_EVERY = 1.0
"""Seconds between two looks for runs to work on."""

TRY_AGAIN_AFTER = 60.0
"""Seconds before a run that cannot be worked on here, for lack of its handler, is looked at again."""


@dataclass(slots=True)
class _Work:
    """A run that is being worked on here."""

    runner: Runner
    task: asyncio.Task[None]


class Crew:
    """Works on every open run of every job until it is told to finish."""

    def __init__(self, fleet: Fleet, limit: BrowserLimit, threads: Threads, *, stamps: Stamps) -> None:
        """Set up a crew.

        Args:
            limit: Seats for its browsers.
            threads: For what blocks.
            stamps: Told of each look for runs.
        """
        self._fleet = fleet
        self._limit = limit
        self._threads = threads
        self._stamps = stamps
        self._works: dict[int, _Work] = {}
        self._not_before: dict[int, float] = {}
        self._finishing = asyncio.Event()

    def finish(self) -> None:
        """Take on nothing more; `work` returns when what is under way has ended. To be called on its loop."""
        self._finishing.set()
        for work in self._works.values():
            work.runner.finish()

    async def work(self) -> None:
        """Work until `finish`. When cancelled, browsers are stopped, leases released and tasks given back first."""
        while not self._finishing.is_set():
            try:
                async with async_playwright() as playwright:
                    try:
                        await self._look_for_runs(playwright)
                    finally:
                        await self._end_works()
            except DriverLostError as error:
                log.warning("%s; starting another", error)

    async def _look_for_runs(self, playwright: Playwright) -> None:
        while True:
            note = None
            try:
                await self._take_on(playwright)
            except DatabaseError as error:
                note = str(error)
            except Exception as error:
                log.exception("looking for runs failed unexpectedly, trying again")
                note = f"{type(error).__name__}: {error}"
            with contextlib.suppress(Exception):
                await self._threads.run(partial(self._stamps.write, "work", every=LOOK_EVERY, problem=note))
            self._clear_away()
            if self._finishing.is_set() and not self._works:
                return
            with contextlib.suppress(TimeoutError):
                ends = [work.task for work in self._works.values()] if self._finishing.is_set() else []
                async with asyncio.timeout(LOOK_EVERY):
                    await (asyncio.wait(ends) if ends else self._finishing.wait())

    async def _take_on(self, playwright: Playwright) -> None:
        if self._finishing.is_set():
            return
        rows = await self._threads.run(lambda: self._fleet.database.run(OPEN_RUNS, {}, patience=0.0))
        now = asyncio.get_running_loop().time()
        self._not_before = {row.id: self._not_before[row.id] for row in rows if row.id in self._not_before}
        for row in rows:
            if row.id in self._works:
                self._works[row.id].runner.share_with(row.daemons)
                continue
            if now < self._not_before.get(row.id, 0.0):
                continue
            try:
                runner = await self._threads.run(partial(self._runner, row))
            except DatabaseError:
                raise
            except Exception as error:  # noqa: BLE001 - told there; the other runs are worked on
                await self._leave_to_others(row, error)
                continue
            if self._finishing.is_set():
                return
            log.info("working on run %d of %s", row.id, row.name, extra={"run": row.id})
            runner.share_with(row.daemons)
            self._works[row.id] = _Work(runner, asyncio.create_task(runner.run(playwright), name=f"run {row.id}"))

    async def _leave_to_others(self, row: Any, error: Exception) -> None:
        """Others may have its handler; this process looks again when somebody had time to mend it."""
        unexpected = None if isinstance(error, PoolsqlError) else error
        log.error(
            "run %d of %s cannot be worked on here: %s; when its handler has changed, start the daemon again",
            row.id,
            row.name,
            error,
            exc_info=unexpected,
        )
        self._not_before[row.id] = asyncio.get_running_loop().time() + TRY_AGAIN_AFTER
        note = cleaned(f"on {self._fleet.settings.machine}: {error}; when it has changed, start the daemon there again")
        parameters = {"run_id": row.id, "note": note}
        await self._threads.run(lambda: self._fleet.database.run(NOTE_RUN, parameters))

    def _runner(self, row: Any) -> Runner:
        definition = JobDefinition.parse(row.definition)
        options = RunnerOptions(
            concurrency=definition.concurrency,
            at_once=definition.concurrency,
            task_timeout=definition.task_timeout,
            profile_wait=definition.profile_wait,
            retries=definition.retries,
            page_rules=definition.page_rules,
            wait_until=definition.steps.wait_until,
            launch=definition.launch,
            reaps=False,
        )
        pool = self._fleet.pool(row.pool)
        return Runner(self._fleet, pool, row.id, definition.load_handler(), options, seat=self._limit.seat)

    def _clear_away(self) -> None:
        """Forget the runs that have ended here; one that is still open is taken on again.

        Raises:
            DriverLostError: The driver is gone, so none of the others can go on either.
        """
        lost: DriverLostError | None = None
        for run_id, work in list(self._works.items()):
            if not work.task.done():
                continue
            del self._works[run_id]
            error = work.task.exception() if not work.task.cancelled() else None
            if isinstance(error, DriverLostError):
                lost = error
            elif error is not None:
                log.error("working on run %d failed, it is taken on again", run_id, exc_info=error)
                self._not_before[run_id] = asyncio.get_running_loop().time() + LOOK_EVERY
        if lost is not None:
            raise lost

    async def _end_works(self) -> None:
        """Cancel what is left and wait until all of it has cleaned up."""
        ending = [work.task for work in self._works.values()]
        self._works.clear()
        for task in ending:
            task.cancel()
        if ending:
            await asyncio.gather(*ending, return_exceptions=True)
