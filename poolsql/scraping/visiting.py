"""One visit: load a page, see what came back, and let the handler take what it wants."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Page, Request, Response

from poolsql.errors import BadInputError
from poolsql.fleet.browser_errors import classify_error
from poolsql.fleet.session import AsyncSession
from poolsql.leasing.outcomes import Outcome, Verdict
from poolsql.scraping.classification import PROBE_SELECTORS, PageFacts, classify_page
from poolsql.scraping.steps import DEFAULT_WAIT_UNTIL, WaitUntil
from poolsql.scraping.tasks import Task
from poolsql.targets import parse_target
from poolsql.text import clean_json

Handler = Callable[[AsyncSession, Task], Awaitable[Mapping[str, Any]]]
"""Takes what it wants from the loaded page and returns it, fit for JSON."""

BROWSER_ANSWERS_WITHIN = 3.0
"""Seconds after which a browser that was asked for its cookies counts as gone."""

CUT_OFF_WITHIN = 5.0
"""Seconds that a handler gets to end after it was cut off; one that swallows this is left to itself."""

CRASH_TOLD_WITHIN = 0.2
"""Seconds that the news of a crash may take after the call that it ended."""

# A form field named "title" or "body" takes that name's place in the document, so nothing here trusts those names.
_PROBE = """
(selectors) => ({
    title: document.querySelector('title')?.textContent ?? '',
    textLength: document.querySelector('body')?.textContent.length ?? 0,
    matched: selectors.filter(selector => [...document.querySelectorAll(selector)].some(
        element => element.getClientRects().length > 0)),
})
"""


log = logging.getLogger(__name__)

_Made = tuple[Verdict, Mapping[str, Any] | None]
"""How a load ended, and what the handler took from the page."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How a visit went."""

    verdict: Verdict
    seconds: float
    status: int | None = None
    result: Mapping[str, Any] | None = None
    more_loads: Mapping[str, int] = field(default_factory=dict)
    """Documents that redirects, clicks and the handler loaded besides, by host."""


class _Watch:
    """What the page does besides: `goto`'s errors hide the answer's status, and nothing waits well for a crash."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.response: Response | None = None
        """The last answer of the main frame."""
        self.crashed = asyncio.Event()
        self._loaded: list[str] = []
        page.on("request", self._asked)
        page.on("response", self._answered)
        page.on("crash", self._crashed)

    def end(self) -> None:
        """Look no longer."""
        self._page.remove_listener("request", self._asked)
        self._page.remove_listener("response", self._answered)
        self._page.remove_listener("crash", self._crashed)

    @property
    def more_loads(self) -> Mapping[str, int]:
        """Documents of the main frame by host, but for the first: that one had its slot."""
        hosts: Counter[str] = Counter()
        for url in self._loaded[1:]:
            with contextlib.suppress(BadInputError):  # about:blank, data: and the like are no site's
                hosts[parse_target(url).host] += 1
        return hosts

    def _asked(self, request: Request) -> None:
        if self._is_main(request):
            self._loaded.append(request.url)

    def _answered(self, response: Response) -> None:
        if self._is_main(response.request):
            self.response = response

    def _is_main(self, request: Request) -> bool:
        # A frame that has just been made has no object yet, and cannot be the main one.
        with contextlib.suppress(PlaywrightError):
            return request.is_navigation_request() and request.frame == self._page.main_frame
        return False

    def _crashed(self, _: Page) -> None:
        self.crashed.set()


async def visit(
    session: AsyncSession,
    task: Task,
    handler: Handler,
    *,
    seconds: float,
    page_rules: Mapping[str, Outcome] | None = None,
    wait_until: WaitUntil = DEFAULT_WAIT_UNTIL,
) -> Seen:
    """Load the task's page and hand it to the handler, for at most `seconds`; whatever happens becomes a verdict.

    Only cancellation gets through. A page that crashes ends the visit at once: after that, some calls of the driver
    answer as if nothing had happened, and others never.

    Args:
        session: Where to load it.
        task: What to load.
        handler: Called with a page that nothing speaks against.
        seconds: For everything together.
        page_rules: Selectors whose visible elements mean something on this site, such as a login form.
        wait_until: When the page counts as loaded.
    """
    began = time.monotonic()
    watch = _Watch(session.page)
    load = _load(session, task, handler, watch, page_rules or {}, wait_until=wait_until, seconds=seconds)
    work = asyncio.ensure_future(load)
    crash = asyncio.ensure_future(watch.crashed.wait())
    try:
        await asyncio.wait({work, crash}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done() and _made(work)[0].outcome is not Outcome.SUCCESS:
            # What a crash does to the call under way may be told before the crash.
            await asyncio.wait({crash}, timeout=CRASH_TOLD_WITHIN)
        if watch.crashed.is_set():
            verdict, result = Verdict(Outcome.BROWSER_CRASHED, "the page's process crashed"), None
        elif work.done():
            verdict, result = _made(work)
        else:
            verdict, result = Verdict(Outcome.TASK_TIMEOUT, f"not done within {seconds:g} s"), None
    finally:
        watch.end()
        for running in (work, crash):
            running.cancel()
        _, left = await asyncio.wait({work, crash}, timeout=CUT_OFF_WITHIN)
        if left:
            log.error("%s: its handler goes on though it was cut off; it must let CancelledError through", task.url)
    if verdict.outcome is Outcome.BROWSER_CRASHED and session.page.is_closed() and await _browser_answers(session):
        verdict = Verdict(Outcome.TASK_FAILED, "the page was closed while it was in use")
    reported = session.take_report()
    if reported is not None:
        # The handler knows its site best, also when it raised or was cut off afterwards.
        verdict, result = reported, result if reported.outcome is Outcome.SUCCESS else None
    status = watch.response.status if watch.response is not None else None
    return Seen(verdict, time.monotonic() - began, status, result, watch.more_loads)


async def _load(
    session: AsyncSession,
    task: Task,
    handler: Handler,
    watch: _Watch,
    page_rules: Mapping[str, Outcome],
    *,
    wait_until: WaitUntil,
    seconds: float,
) -> _Made:
    """Load the page, judge it, and take what the handler makes of it."""
    page = session.page
    try:
        try:
            await page.goto(task.url, wait_until=wait_until, timeout=seconds * 1000)
        except PlaywrightError as error:
            return await _judge_failed_load(error, watch.response), None
        facts = await _facts(page, watch.response, [*page_rules, *PROBE_SELECTORS])
        verdict = classify_page(facts, own_rules=page_rules)
        if verdict.outcome is not Outcome.SUCCESS:
            return verdict, None
        result = clean_json(await handler(session, task))
        return verdict, result if isinstance(result, dict) else {"value": result}
    except asyncio.CancelledError as error:
        if _is_cut_off():
            raise
        return classify_error(error), None  # a handler's own, such as that of a future that it gave up
    except BaseException as error:  # noqa: BLE001 - whatever a handler raises is an outcome, and ends no daemon
        return classify_error(error), None


def _is_cut_off() -> bool:
    running = asyncio.current_task()
    return running is not None and running.cancelling() > 0


def _made(work: asyncio.Future[_Made]) -> _Made:
    """What a load that has ended made of the page."""
    if work.cancelled():
        return Verdict(Outcome.TASK_FAILED, "its handler cancelled itself"), None
    return work.result()


async def _browser_answers(session: AsyncSession) -> bool:
    """Whether the browser goes on: then a page that is gone was closed, by its script or by the handler."""
    try:
        async with asyncio.timeout(BROWSER_ANSWERS_WITHIN):
            await session.context.cookies("http://localhost")
    except (PlaywrightError, TimeoutError):
        return False
    return True


async def _judge_failed_load(error: PlaywrightError, response: Response | None) -> Verdict:
    """An error status without a body fails the load, though the site has answered: then its answer counts."""
    if response is not None and response.status >= 400:
        verdict = classify_page(await _facts_of(response))
        if verdict.outcome is not Outcome.SUCCESS:
            return verdict
    return classify_error(error)


async def _facts(page: Page, response: Response | None, selectors: Sequence[str]) -> PageFacts:
    probed = await page.evaluate(_PROBE, list(selectors))
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
