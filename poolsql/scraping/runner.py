"""Running the tasks of a run in one process: claim, ask robots.txt, borrow a browser, wait for the slot, visit."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright, async_playwright

from poolsql.errors import DatabaseError, LaunchFailedError, LeaseLostError, NoProfileAvailableError, PoolsqlError
from poolsql.fleet.browser_errors import classify_error
from poolsql.fleet.fleet import Fleet
from poolsql.fleet.pool import Pool
from poolsql.fleet.session import AsyncSession
from poolsql.fleet.threads import Threads
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import Visit
from poolsql.scraping import tasks
from poolsql.scraping.driver_check import DriverLostError, check_driver
from poolsql.scraping.pacing import Slot, charge_loads, claim_slot, default_delay, still_granted
from poolsql.scraping.robots import RobotsAccess
from poolsql.scraping.robots_cache import KnownRobots, RobotsCache
from poolsql.scraping.runner_options import RunnerOptions
from poolsql.scraping.states import TaskState
from poolsql.scraping.tasks import Task
from poolsql.scraping.visiting import Handler, Seen, visit
from poolsql.targets import origin

log = logging.getLogger(__name__)

Result = TypeVar("Result")

CLAIM_SECONDS = 15.0
"""For how long a task is claimed at a time; so long it takes to come back when its worker dies before its visit."""

CLAIMS_KEPT_EVERY = 4.0
"""Seconds: a claim outlives two rounds that fail."""

WORTH_TELLING = 5.0
"""Seconds of waiting from which on a run says what it waits for."""

LETS_OTHERS_FIRST = 1.5
"""Seconds for which a worker that has its share of a run's tasks leaves the next one to others, who ask each second."""


class Runner:
    """Works on one run until nothing is left to try."""

    def __init__(
        self,
        fleet: Fleet,
        pool: Pool,
        run_id: int,
        handler: Handler,
        options: RunnerOptions,
        *,
        seat: Callable[[], AbstractAsyncContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        """Set up a runner.

        Args:
            seat: Entered before a task is claimed and left when its browser has stopped, so that several runners can
                share a limit.
        """
        self._fleet = fleet
        self._database = fleet.database
        self._pool = pool
        self._run_id = run_id
        self._handler = handler
        self._options = options
        self._robots = RobotsCache(self._database, agent=fleet.settings.agent)
        self._threads = Threads()
        self._claimed: dict[int, Task] = {}
        # Held while claims are prolonged: whoever names a claim names the moment at which it ends.
        self._claims = asyncio.Lock()
        self._seat = seat
        self._hands: list[asyncio.Task[None]] = []
        self._busy: set[asyncio.Task[None]] = set()
        self._finishing = False
        self._over = False
        self._workers = 1
        self._waits_for: frozenset[str] | None = None
        # One hand asks for all: where it finds nothing, the others would not either.
        self._asking = asyncio.Lock()

    async def run(self, playwright: Playwright | None = None) -> None:
        """Work until the run is over.

        When cancelled, browsers are stopped, leases released and tasks given back first.

        Args:
            playwright: A running driver to use; default: one of its own.

        Raises:
            DriverLostError: Playwright's driver process has ended; nothing can be done without it.
        """
        lost: BaseExceptionGroup[DriverLostError] | None = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                driver = playwright
                if driver is None:
                    driver = await stack.enter_async_context(async_playwright())
                async with asyncio.TaskGroup() as group:
                    loops = [group.create_task(self._upkeep()), group.create_task(self._keep_claims())]
                    self._hands = [group.create_task(self._work(driver)) for _ in range(self._options.concurrency)]
                    await asyncio.wait(self._hands)
                    for loop in loops:
                        loop.cancel()
            with contextlib.suppress(DatabaseError):  # whoever looks next closes the run
                for run_id, state in await self._call(lambda: tasks.end_runs(self._database, run_id=self._run_id)):
                    log.info("run %d has ended: %s", run_id, state, extra={"run": run_id})
        except* DriverLostError as group_of_losses:
            lost = group_of_losses  # raised in here it would be a group again, on some versions of Python
        finally:
            self._threads.close()
        if lost is not None:
            raise DriverLostError(str(lost.exceptions[0]))

    def share_with(self, workers: int) -> None:
        """So many workers work on the run, this one among them: none takes more than its share while others want it."""
        self._workers = max(1, workers)

    def finish(self) -> None:
        """Claim no further task; `run` returns when those under way have ended. To be called on its loop."""
        self._finishing = True
        for hand in self._hands:
            if hand not in self._busy:
                hand.cancel()

    async def _upkeep(self) -> None:
        while True:
            try:
                if self._options.reaps:
                    await self._call(self._fleet.reap)
                await self._call(self._return_orphans)
            except PoolsqlError as error:
                log.warning("upkeep failed, trying again: %s", error)
            except Exception:
                log.exception("upkeep failed unexpectedly, trying again")
            await asyncio.sleep(self._options.upkeep_every)

    async def _keep_claims(self) -> None:
        while True:
            await asyncio.sleep(CLAIMS_KEPT_EVERY)
            async with self._claims:
                claimed = list(self._claimed.values())
                if not claimed:
                    continue
                try:
                    await self._call(partial(tasks.keep_claims, self._database, claimed, seconds=CLAIM_SECONDS))
                except PoolsqlError as error:
                    log.warning("claims were not prolonged, trying again: %s", error)
                except Exception:
                    log.exception("claims were not prolonged, trying again")

    async def _let_go(self, task: Task) -> None:
        """Prolong the task's claim no more; a round that is under way is waited for, since it moves the claim's end."""
        self._claimed.pop(task.id, None)
        async with self._claims:
            pass

    def _return_orphans(self) -> int:
        return tasks.return_orphans(self._database, self._run_id)

    async def _work(self, playwright: Playwright) -> None:
        while not self._finishing and not self._over:
            try:
                await self._try_next(playwright)
            except DatabaseError as error:
                if _is_cancelled():
                    raise asyncio.CancelledError from error
                # What was under way comes back by its claim or lease.
                log.warning("the database failed, trying again: %s", error)
                await asyncio.sleep(random.uniform(0.5, 1.5))  # noqa: S311 - spreads the workers

    async def _try_next(self, playwright: Playwright) -> None:
        """Claim the next task, when there is a seat and one may be tried, and try it."""
        hand = asyncio.current_task()
        assert hand is not None  # noqa: S101 - a coroutine that runs belongs to a task
        async with contextlib.AsyncExitStack() as seated:
            async with self._asking:
                if self._over:
                    return
                if self._has_its_share():
                    await asyncio.sleep(LETS_OTHERS_FIRST)
                await seated.enter_async_context(self._seat())
                task = await self._claim()
                if task is None:
                    await seated.aclose()
                    await self._wait_for_tasks()
                    return
            self._claimed[task.id] = task
            self._busy.add(hand)
            try:
                await self._try(task, playwright)
            finally:
                self._busy.discard(hand)
                self._claimed.pop(task.id, None)

    def _has_its_share(self) -> bool:
        most = self._options.at_once
        return most is not None and len(self._busy) >= math.ceil(most / self._workers)

    async def _wait_for_tasks(self) -> None:
        """Wait until asking for a task makes sense again, or find that nothing is left to wait for."""
        progress = await self._call(lambda: tasks.run_progress(self._database, self._run_id))
        self._over = progress.over
        if not self._over:
            if progress.next_in is None or progress.next_in > WORTH_TELLING:
                told = await self._call(lambda: tasks.note_waiting(self._database, self._run_id))
                if told is not None:
                    log.warning("run %d %s", self._run_id, told, extra={"run": self._run_id})
            soon = 1.0 if progress.next_in is None else min(1.0, max(0.05, progress.next_in))
            # Spread, so that workers of several processes do not ask together.
            await asyncio.sleep(soon * random.uniform(0.8, 1.0))  # noqa: S311

    async def _claim(self) -> Task | None:
        return await self._threads.run(
            lambda: tasks.claim_task(
                self._database, self._run_id, seconds=CLAIM_SECONDS, at_once=self._options.at_once
            ),
            undo=lambda task: tasks.put_back(self._database, task) if task is not None else None,
        )

    async def _try(self, task: Task, playwright: Playwright) -> None:
        fields = {"run": self._run_id, "task": task.id}
        try:
            known = await self._call(lambda: self._robots.of(origin(task.url)))
            if not known.rules.allows(task.url):
                await self._keep_off(task, known)
                return
            async with self._pool.browser(
                task=task.url,
                host=task.host,
                profile_id=task.profile_id,
                wait=self._options.profile_wait,
                options=self._options.launch,
                playwright=playwright,
            ) as session:
                self._waits_for = None
                outcome = await self._visit_in_slot(task, session, at_least=known.rules.delay)
            if outcome is Outcome.BROWSER_CRASHED:
                await check_driver(playwright)
        except NoProfileAvailableError as error:
            self._tell_waiting(error)
            await self._put_back(task, delay=_seconds_until(error.next_free_at), detail=str(error))
        except LaunchFailedError as error:
            log.warning("%s: %s", task.url, error, extra=fields)
            await self._put_back_tried(task, Outcome.LAUNCH_FAILED, detail=str(error))
            await check_driver(playwright)
        except LeaseLostError as error:
            # Refused results are recorded; the task comes back when the reaper has ended its lease.
            log.warning("%s: %s", task.url, error, extra=fields)
        except (DatabaseError, DriverLostError):
            raise
        except asyncio.CancelledError:
            with contextlib.suppress(PoolsqlError):
                await self._put_back(task)
                # A task that was attached to the lease which has just been released is nobody's any more.
                await self._call(self._return_orphans)
            raise
        except Exception as error:
            # Nothing may end the worker. A visit that had begun is judged by its lease, and this changes nothing then.
            verdict = classify_error(error)
            log.warning("%s: %s", task.url, verdict.detail, extra=fields, exc_info=True)
            # Visits swallow what the driver raises, so this came from connecting to a browser that had started.
            browser_failed = isinstance(error, PlaywrightError | TimeoutError)
            outcome = Outcome.BROWSER_CRASHED if browser_failed else verdict.outcome
            await self._put_back_tried(task, outcome, detail=verdict.detail)
            await check_driver(playwright)

    def _tell_waiting(self, error: NoProfileAvailableError) -> None:
        """Say why nothing goes on; not for each task that has to wait for the same reason."""
        reasons = frozenset(error.counts)
        if reasons != self._waits_for:
            log.warning("run %d waits for profiles: %s", self._run_id, error, extra={"run": self._run_id})
        self._waits_for = reasons

    async def _keep_off(self, task: Task, known: KnownRobots) -> None:
        agent = self._fleet.settings.agent
        if known.rules.access is RobotsAccess.DISALLOW_ALL:
            # No answer is no permission; the site is in trouble, and the task with it.
            detail = f"robots.txt cannot be had, and without it nothing is loaded: {known.answer}"
            log.warning("%s: %s", task.url, detail, extra={"run": self._run_id, "task": task.id})
            await self._put_back_tried(task, Outcome.SITE_ERROR, detail=detail, delay=known.seconds_left)
        else:
            detail = f"robots.txt forbids it to {agent}"
            await self._put_back(task, outcome=Outcome.ROBOTS_DISALLOWED, ends=True, detail=detail)

    async def _visit_in_slot(self, task: Task, session: AsyncSession, *, at_least: timedelta | None) -> Outcome:
        """Visit the task's page in its host's next slot; returns the visit's outcome."""
        lease = session.lease
        slot = await self._wait_for_slot(task, at_least=at_least)
        if not slot.granted:
            session.report(Outcome.CANCELLED, detail=f"not loaded: {slot.reason}")
            await self._put_back(task, delay=slot.wait)
            return Outcome.CANCELLED
        await self._let_go(task)
        if not await self._call(lambda: tasks.attach_lease(self._database, task, lease)):
            session.report(Outcome.CANCELLED, detail="not loaded: somebody else has the task by now")
            return Outcome.CANCELLED
        options = self._options
        seen = await visit(
            session,
            task,
            self._handler,
            seconds=options.task_timeout,
            page_rules=options.page_rules,
            wait_until=options.wait_until,
        )
        await self._call(lambda: self._finish(task, session, seen))
        for host, loads in seen.more_loads.items():
            await self._call(partial(charge_loads, self._database, host, loads))
        return seen.verdict.outcome

    async def _wait_for_slot(self, task: Task, *, at_least: timedelta | None) -> Slot:
        slot = await self._call(
            lambda: claim_slot(self._database, task.host, delay=default_delay(task.host), at_least=at_least)
        )
        if not slot.granted:
            return slot
        await asyncio.sleep(slot.wait)
        return await self._call(lambda: still_granted(self._database, task.host))

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

    async def _put_back_tried(self, task: Task, outcome: Outcome, *, detail: str, delay: float = 0.0) -> None:
        """A try that ended before a visit could begin."""
        then = self._options.retries.after(outcome, tries=task.tries + 1)
        ends = then.state is TaskState.FAILED
        await self._put_back(task, delay=max(delay, then.delay), tried=True, outcome=outcome, ends=ends, detail=detail)

    async def _put_back(
        self,
        task: Task,
        *,
        delay: float = 0.0,
        tried: bool = False,
        outcome: Outcome | None = None,
        ends: bool = False,
        detail: str | None = None,
    ) -> None:
        await self._let_go(task)
        await self._call(
            lambda: tasks.put_back(
                self._database, task, delay=delay, tried=tried, outcome=outcome, ends=ends, detail=detail
            )
        )

    async def _call(self, work: Callable[[], Result]) -> Result:
        return await self._threads.run(work)


def _seconds_until(moment: datetime | None) -> float:
    """Seconds until a moment of the database's clock, by ours: only a hint for when to try again."""
    if moment is None:
        return 1.0
    return min(60.0, max(0.5, (moment - datetime.now(UTC)).total_seconds()))


def _is_cancelled() -> bool:
    """Whether somebody asked the running task to end, even if a failure has swallowed the request."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
