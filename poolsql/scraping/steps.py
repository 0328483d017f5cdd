"""What is done to a page between its load and the handler: wait for an element, click some."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from playwright.async_api import Locator, Page
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from poolsql.errors import BadInputError, PoolsqlError
from poolsql.scraping.selectors import checked_selector
from poolsql.text import did_you_mean

WaitUntil = Literal["commit", "domcontentloaded", "load", "networkidle"]
"""When a page counts as loaded: its answer has begun, its HTML is read, its pictures too, its network is quiet."""

DEFAULT_WAIT_UNTIL: WaitUntil = "domcontentloaded"

STEP_SECONDS = 30.0
"""For how long one step waits at most; the task's own time-out may end it sooner."""


class StepFailedError(PoolsqlError):
    """An element to wait for or to click did not come, or could not be clicked."""


@dataclass(frozen=True, slots=True)
class Click:
    """A click on the first element that a selector finds."""

    css: str
    optional: bool = False
    """Do nothing when no such element can be seen; it is not waited for."""
    wait_for: str | None = None
    """Selector of what is on the page once the click has worked."""


@dataclass(frozen=True, slots=True)
class PageSteps:
    """How a page is made ready, in this order."""

    NAMES: ClassVar[tuple[str, ...]] = ("wait_until", "wait_for", "click")
    """The keys of a job that `parse` reads."""

    wait_until: WaitUntil = DEFAULT_WAIT_UNTIL
    """For the load itself; `visit` takes it."""
    wait_for: str | None = None
    """Selector of an element that has to be on the page, seen or not."""
    click: tuple[Click, ...] = ()

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> PageSteps:
        """Read the values of a job's table.

        Args:
            values: Any of ``wait_until``; ``wait_for``, a selector; ``click``, a list of selectors or tables
                ``{css, optional, wait_for}``, or one of them.

        Raises:
            BadInputError: Something cannot be right; the message names all of it.
        """
        problems = [f"{name}: unknown{did_you_mean(str(name), cls.NAMES)}" for name in values if name not in cls.NAMES]
        wait_until = values.get("wait_until", DEFAULT_WAIT_UNTIL)
        if wait_until not in get_args(WaitUntil):
            known = get_args(WaitUntil)
            problems.append(
                f"wait_until: {wait_until!r} is none of {', '.join(known)}{did_you_mean(str(wait_until), known)}"
            )
        wait_for = values.get("wait_for")
        if wait_for is not None:
            wait_for = _selector(wait_for, "wait_for", problems)
        written = values.get("click", [])
        if not isinstance(written, list | tuple):
            written = [written]
        clicks = tuple(_click(click, f"click {n}", problems) for n, click in enumerate(written, start=1))
        if problems:
            raise BadInputError("; ".join(problems))
        return cls(wait_until, wait_for, clicks)

    async def apply(self, page: Page) -> None:
        """Wait for what is to be waited for and click what is to be clicked, on a loaded page.

        Raises:
            StepFailedError: A step was not done within `STEP_SECONDS`; the message names it.
        """
        if self.wait_for is not None:
            await _wait_for(page, self.wait_for, step="wait_for")
        for click in self.click:
            if await _clicked(page, click) and click.wait_for is not None:
                await _wait_for(page, click.wait_for, step=f"wait_for after the click on {click.css!r}")


async def _wait_for(page: Page, css: str, *, step: str) -> None:
    try:
        await _first(page, css).wait_for(state="attached", timeout=STEP_SECONDS * 1000)
    except PlaywrightTimeoutError:
        raise StepFailedError(f"{step}: {css!r} was not on the page within {STEP_SECONDS:g} s") from None


async def _clicked(page: Page, click: Click) -> bool:
    target = _first(page, click.css)
    if click.optional and not await target.is_visible():
        return False
    try:
        await target.click(timeout=STEP_SECONDS * 1000)
    except PlaywrightTimeoutError:
        if await target.count() == 0:
            if click.optional:
                return False
            problem = "was not on the page"
        else:
            problem = "could not be clicked: it is hidden, covered, moving or disabled"
        raise StepFailedError(f"click: {click.css!r} {problem}, for {STEP_SECONDS:g} s") from None
    return True


def _first(page: Page, css: str) -> Locator:
    # With its engine named, Playwright does not take a selector for one of its own kinds.
    return page.locator(f"css={css}").first


def _click(written: object, place: str, problems: list[str]) -> Click:
    if not isinstance(written, Mapping):
        return Click(_selector(written, place, problems))
    keys = ("css", "optional", "wait_for")
    problems += [f"{place}.{key}: unknown{did_you_mean(str(key), keys)}" for key in written if key not in keys]
    if "css" not in written:
        problems.append(f"{place}.css: missing; write the CSS selector")
    optional = written.get("optional", False)
    if not isinstance(optional, bool):
        problems.append(f"{place}.optional: {optional!r} is neither true nor false")
    wait_for = written.get("wait_for")
    return Click(
        _selector(written["css"], f"{place}.css", problems) if "css" in written else "",
        optional is True,
        _selector(wait_for, f"{place}.wait_for", problems) if wait_for is not None else None,
    )


def _selector(css: object, place: str, problems: list[str]) -> str:
    try:
        return checked_selector(css, place)
    except BadInputError as error:
        problems.append(str(error))
        return ""
