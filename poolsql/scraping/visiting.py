"""One visit: load a page, see what came back, and let the handler take what it wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, Response

from poolsql.fleet.browser_errors import classify_error
from poolsql.fleet.session import AsyncSession
from poolsql.leasing.outcomes import Outcome, Verdict
from poolsql.scraping.classification import PROBE_SELECTORS, PageFacts, classify_page
from poolsql.scraping.tasks import Task
from poolsql.text import clean_json

Handler = Callable[[AsyncSession, Task], Awaitable[Mapping[str, Any]]]
"""Takes what it wants from the loaded page and returns it, fit for JSON."""

_PROBE = """
(selectors) => ({
    title: document.title,
    textLength: document.body ? document.body.textContent.length : 0,
    matched: selectors.filter(selector => [...document.querySelectorAll(selector)].some(
        element => element.getClientRects().length > 0)),
})
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """How a visit went."""

    verdict: Verdict
    seconds: float
    status: int | None = None
    result: Mapping[str, Any] | None = None


class _MainAnswer:
    """The last answer of the page's main frame: what `goto` raises hides the status behind some errors."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.response: Response | None = None
        self.crashed = asyncio.Event()
        page.on("response", self._answered)
        page.on("crash", lambda _: self.crashed.set())

    def _answered(self, response: Response) -> None:
        if response.request.is_navigation_request() and response.frame == self._page.main_frame:
            self.response = response


async def visit(session: AsyncSession, task: Task, handler: Handler, *, seconds: float) -> Seen:
    """Load the task's page and hand it to the handler, for at most `seconds`; whatever happens becomes a verdict.

    Only cancellation gets through. A page that crashes ends the visit at once: after that, some calls of the driver
    answer as if nothing had happened, and others never.
    """
    began = time.monotonic()
    answer = _MainAnswer(session.page)
    work = asyncio.ensure_future(_load(session, task, handler, answer, seconds))
    crash = asyncio.ensure_future(answer.crashed.wait())
    try:
        await asyncio.wait({work, crash}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.crashed.is_set():
            verdict, result = Verdict(Outcome.BROWSER_CRASHED, "the page's process crashed"), None
        elif work.done():
            verdict, result = work.result()
        else:
            verdict, result = Verdict(Outcome.TASK_TIMEOUT, f"not done within {seconds:g} s"), None
    finally:
        for running in (work, crash):
            running.cancel()
        await asyncio.gather(work, crash, return_exceptions=True)
    status = answer.response.status if answer.response is not None else None
    return Seen(verdict, time.monotonic() - began, status, result)


async def _load(
    session: AsyncSession, task: Task, handler: Handler, answer: _MainAnswer, seconds: float
) -> tuple[Verdict, Mapping[str, Any] | None]:
    page = session.page
    try:
        try:
            await page.goto(task.url, wait_until="domcontentloaded", timeout=seconds * 1000)
        except PlaywrightError as error:
            return await _judge_failed_load(error, answer), None
        verdict = classify_page(await _facts(page, answer.response))
        if verdict.outcome is not Outcome.SUCCESS:
            return verdict, None
        result = clean_json(await handler(session, task))
        return verdict, result if isinstance(result, dict) else {"value": result}
    except Exception as error:  # noqa: BLE001 - whatever a handler raises is an outcome, never a dead worker
        return classify_error(error), None


async def _judge_failed_load(error: PlaywrightError, answer: _MainAnswer) -> Verdict:
    """An error status without a body fails the load, though the site has answered: then its answer counts."""
    response = answer.response
    if response is not None and response.status >= 400:
        verdict = classify_page(await _facts_of(response))
        if verdict.outcome is not Outcome.SUCCESS:
            return verdict
    return classify_error(error)


async def _facts(page: Page, response: Response | None) -> PageFacts:
    probed = await page.evaluate(_PROBE, list(PROBE_SELECTORS))
    answered = await _facts_of(response) if response is not None else PageFacts(status=None, url=page.url)
    return PageFacts(
        status=answered.status,
        url=page.url,
        retry_after=answered.retry_after,
        date=answered.date,
        title=probed["title"],
        matched_selectors=frozenset(probed["matched"]),
        text_length=probed["textLength"],
    )


async def _facts_of(response: Response) -> PageFacts:
    headers = await response.all_headers()
    return PageFacts(
        status=response.status, url=response.url, retry_after=headers.get("retry-after"), date=headers.get("date")
    )
