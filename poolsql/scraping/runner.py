"""Running the tasks of a run in one process: claim, ask robots.txt, borrow a browser, wait for the slot, visit."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from playwright.async_api import Playwright, async_playwright

from poolsql.errors import DatabaseError, LaunchFailedError, LeaseLostError, NoProfileAvailableError, PoolsqlError
from poolsql.fleet.fleet import Fleet
from poolsql.fleet.pool import Pool
from poolsql.fleet.session import AsyncSession
from poolsql.fleet.threads import Threads
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import Visit
from poolsql.scraping import tasks
from poolsql.scraping.pacing import claim_slot, default_delay, still_granted
from poolsql.scraping.retries import RetryPolicy, TaskState
from poolsql.scraping.robots import RobotsAccess
from poolsql.scraping.robots_cache import ASKED_AGAIN_AFTER, robots_of
from poolsql.scraping.targets import origin
from poolsql.scraping.tasks import Task
from poolsql.scraping.visiting import Handler, Seen, visit

log = logging.getLogger(__name__)

Result = TypeVar("Result")

CLAIM_MARGIN = 60.0
"""Seconds beyond the wait for a profile for which a claimed task stays claimed: starting a browser takes a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """How one process works on a run."""

    concurrency: int = 1
    """Browsers at once."""
    task_timeout: float = 60.0
    """Seconds for loading a page and handling it."""
    profile_wait: float = 30.0
    """Seconds that a claimed task waits for a profile before others may have it."""
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    upkeep_every: float = 2.0
    """Seconds between two rounds of reaping and of returning tasks of lost workers."""


class Runner:
    """Works on one run until nothing is left to try."""

    def __init__(self, fleet: Fleet, pool: Pool, run_id: int, handler: Handler, options: RunnerOptions) -> None:
        self._fleet = fleet
        self._database = fleet.database
        self._pool = pool
        self._run_id = run_id
        self._handler = handler
        self._options = options
        self._threads = Threads()

    async def run(self) -> None:
        """Work until the run is over. When cancelled, browsers are stopped and leases released first."""
        try:
            async with async_playwright() as playwright, asyncio.TaskGroup() as group:
                upkeep = group.create_task(self._upkeep())
                hands = [group.create_task(self._work(playwright)) for _ in range(self._options.concurrency)]
                await asyncio.wait(hands)
                upkeep.cancel()
        finally:
            self._threads.close()

    async def _upkeep(self) -> None:
        while True:
            try:
                await self._call(self._fleet.reap)
                await self._call(lambda: tasks.return_orphans(self._database, self._run_id))
            except PoolsqlError as error:
                log.warning("upkeep failed, trying again: %s", error)
            await asyncio.sleep(self._options.upkeep_every)

    async def _work(self, playwright: Playwright) -> None:
        while True:
            try:
                task = await self._claim()
                if task is None:
                    progress = await self._call(lambda: tasks.run_progress(self._database, self._run_id))
                    if progress.over:
                        return
                    soon = 1.0 if progress.next_in is None else min(1.0, max(0.05, progress.next_in))
                    await asyncio.sleep(soon * random.uniform(0.8, 1.0))  # noqa: S311 - spreads the workers
                    continue
                await self._try(task, playwright)
            except DatabaseError as error:
                # What was under way comes back by its claim or lease.
                log.warning("the database failed, trying again: %s", error)
                await asyncio.sleep(1.0)

    async def _claim(self) -> Task | None:
        seconds = self._options.profile_wait + CLAIM_MARGIN
        return await self._threads.run(
            lambda: tasks.claim_task(self._database, self._run_id, seconds=seconds),
            undo=lambda task: tasks.put_back(self._database, task) if task is not None else None,
        )

    async def _try(self, task: Task, playwright: Playwright) -> None:
        fields = {"run": self._run_id, "task": task.id}
        try:
            if not await self._robots_allow(task):
                return
            async with self._pool.browser(
                task=task.url,
                host=task.host,
                profile_id=task.profile_id,
                wait=self._options.profile_wait,
                playwright=playwright,
            ) as session:
                await self._visit_in_slot(task, session)
        except NoProfileAvailableError as error:
            await self._put_back(task, delay=_seconds_until(error.next_free_at))
        except LaunchFailedError as error:
            log.warning("%s: %s", task.url, error, extra=fields)
            then = self._options.retries.after(Outcome.LAUNCH_FAILED, tries=task.tries + 1)
            ends_as = Outcome.LAUNCH_FAILED if then.state is TaskState.FAILED else None
            await self._put_back(task, delay=then.delay, tried=True, ends_as=ends_as, detail=str(error))
        except LeaseLostError as error:
            # Refused results are recorded; the task comes back when the reaper has ended its lease.
            log.warning("%s: %s", task.url, error, extra=fields)
        except asyncio.CancelledError:
            await self._put_back(task)
            raise

    async def _robots_allow(self, task: Task) -> bool:
        agent = self._fleet.settings.agent
        rules = await self._call(lambda: robots_of(self._database, origin(task.url), agent=agent))
        if rules.allows(task.url):
            return True
        if rules.access is RobotsAccess.DISALLOW_ALL:
            # No answer is no permission, and no verdict on the task either.
            await self._put_back(task, delay=ASKED_AGAIN_AFTER.total_seconds(), detail="robots.txt cannot be had")
        else:
            detail = f"robots.txt forbids it to {agent}"
            await self._put_back(task, ends_as=Outcome.ROBOTS_DISALLOWED, detail=detail)
        return False

    async def _visit_in_slot(self, task: Task, session: AsyncSession) -> None:
        lease = session.lease
        if not await self._wait_for_slot(task):
            session.report(Outcome.CANCELLED, detail="the host was paused before the page was loaded")
            await self._put_back(task)
            return
        if not await self._call(lambda: tasks.attach_lease(self._database, task, lease)):
            session.report(Outcome.CANCELLED, detail="somebody else has the task by now")
            return
        seen = await visit(session, task, self._handler, seconds=self._options.task_timeout)
        await self._call(lambda: self._finish(task, session, seen))

    async def _wait_for_slot(self, task: Task) -> bool:
        slot = await self._call(lambda: claim_slot(self._database, task.host, delay=default_delay(task.host)))
        if not slot.granted:
            return False
        await asyncio.sleep(slot.wait)
        return (await self._call(lambda: still_granted(self._database, task.host))).granted

    def _finish(self, task: Task, session: AsyncSession, seen: Seen) -> None:
        verdict = seen.verdict
        wait = verdict.retry_after
        report = Visit(
            outcome=verdict.outcome,
            seconds=seen.seconds,
            host=task.host,
            task=task.url,
            task_id=task.id,
            url=task.url,
            status=seen.status,
            detail=verdict.detail or None,
            retry_after=wait.total_seconds() if wait is not None else None,
        )
        then = self._options.retries.after(verdict.outcome, tries=task.tries + 1)
        tasks.finish_task(session.lease, task, report, result=seen.result, then=then)
        log.info(
            "%s %s: %s",
            verdict.outcome,
            task.url,
            verdict.detail or then.state,
            extra={"run": self._run_id, "task": task.id, "lease": session.lease.id, "profile": session.profile.key},
        )

    async def _put_back(
        self,
        task: Task,
        *,
        delay: float = 0.0,
        tried: bool = False,
        ends_as: Outcome | None = None,
        detail: str | None = None,
    ) -> None:
        await self._call(
            lambda: tasks.put_back(self._database, task, delay=delay, tried=tried, ends_as=ends_as, detail=detail)
        )

    async def _call(self, work: Callable[[], Result]) -> Result:
        return await self._threads.run(work)


def _seconds_until(moment: datetime | None) -> float:
    """Seconds until a moment of the database's clock, by ours: only a hint for when to try again."""
    if moment is None:
        return 1.0
    return min(60.0, max(0.5, (moment - datetime.now(UTC)).total_seconds()))
