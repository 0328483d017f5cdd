"""How a page load ended, from what was seen: the answer, the title, some elements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from poolsql.leasing.outcomes import Outcome, Verdict
from poolsql.retry_after import parse_retry_after
from poolsql.scraping.captcha_markers import WALL_SELECTORS, WIDGET_SELECTORS, title_asks_for_a_human
from poolsql.text import clean_text

PROBE_SELECTORS = WALL_SELECTORS + WIDGET_SELECTORS
"""CSS selectors to look for in a loaded page; those of which an element is *visible* go to `PageFacts`: widgets
that a page keeps in reserve ask nobody anything."""

OUTCOMES_OF_PAGES = frozenset(
    {
        *(Outcome.SUCCESS, Outcome.TASK_FAILED, Outcome.NOT_FOUND, Outcome.SITE_ERROR),
        *(Outcome.RATE_LIMITED, Outcome.BLOCKED, Outcome.CAPTCHA, Outcome.SESSION_LOST),
    }
)
"""What a page can say of itself; other outcomes are for those who see the worker, the browser or the proxy."""

_WALL_TEXT_LIMIT = 2000
"""Characters. Walls say a few sentences; a page with more than this around a captcha widget is an ordinary one."""

_STATUSES_OF_WALLS = frozenset({401, 403, 405, 429, 503})
"""Errors that vendors of walls answer with; a 404 page with a widget in its search form is still a 404."""

_OUTCOMES = {
    # The site does not know who we are. A profile that was logged in has lost its login, one that never was needs one:
    # either way a retry cannot help and a person can, which is what session_lost says.
    401: Outcome.SESSION_LOST,
    403: Outcome.BLOCKED,
    404: Outcome.NOT_FOUND,
    407: Outcome.PROXY_FAILED,
    # "Request time-out": the server gave up on us, which is its trouble like any 5xx.
    408: Outcome.SITE_ERROR,
    410: Outcome.NOT_FOUND,
    # The law's refusal and not the profile's fault, but asking again is just as unwelcome.
    451: Outcome.BLOCKED,
}


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What was seen of one loaded page."""

    status: int | None
    """Of the last answer of the main frame after redirects; None when there was none (a page out of a cache)."""
    url: str
    """Where the load ended."""
    title: str = ""
    retry_after: str | None = None
    """The ``Retry-After`` header as it came."""
    date: str | None = None
    """The ``Date`` header as it came."""
    matched_selectors: frozenset[str] = frozenset()
    """Which of the probed selectors the page has."""
    text_length: int | None = None
    """Characters of visible text; None when it was not measured."""


def classify_page(
    facts: PageFacts, *, own_rules: Mapping[str, Outcome] | None = None, now: datetime | None = None
) -> Verdict:
    """Judge a loaded page.

    Args:
        facts: What was seen of it.
        own_rules: Selectors that mean something on this site, such as a login form or a "you are blocked" banner, in
            order; they have to be probed as well. They go before everything else.
        now: For a ``Retry-After`` with a date when the answer had no ``Date``; default: this machine's clock.

    Returns:
        `Outcome.SUCCESS` when nothing speaks against the page; whether it holds what was wanted is the task's matter.
    """
    for selector, outcome in (own_rules or {}).items():
        if selector in facts.matched_selectors:
            return Verdict(outcome, f"the page has {clean_text(selector, limit=200)}")
    evidence = _captcha_evidence(facts)
    if evidence is not None:
        return Verdict(Outcome.CAPTCHA, evidence)
    if facts.status is None:
        return Verdict(Outcome.SUCCESS, "loaded without an answer of a server")
    return _verdict_of_status(facts.status, facts, now)


def _captcha_evidence(facts: PageFacts) -> str | None:
    """Why the page is a captcha wall, or None. It goes before the status: walls come with 200, 403, 429 and 503."""
    wall = _first_match(WALL_SELECTORS, facts)
    if wall is not None:
        return f"captcha: the page has {wall}"
    if not _may_be_a_wall(facts):
        return None
    if title_asks_for_a_human(facts.title):
        return f"captcha: the title is {clean_text(facts.title.strip(), limit=200)!r}"
    widget = _first_match(WIDGET_SELECTORS, facts)
    return None if widget is None else f"captcha: the page has {widget} and little else"


def _may_be_a_wall(facts: PageFacts) -> bool:
    if facts.status is not None and facts.status >= 400:
        return facts.status in _STATUSES_OF_WALLS
    return facts.text_length is None or facts.text_length < _WALL_TEXT_LIMIT


def _first_match(selectors: tuple[str, ...], facts: PageFacts) -> str | None:
    return next((selector for selector in selectors if selector in facts.matched_selectors), None)


def _verdict_of_status(status: int, facts: PageFacts, now: datetime | None) -> Verdict:
    detail = f"HTTP {status}"
    wait = parse_retry_after(facts.retry_after, date=facts.date, now=now)
    # A 503 that says when to come back is a limit that works; one that does not is a site in trouble.
    if status == 429 or (status == 503 and wait is not None):
        return Verdict(Outcome.RATE_LIMITED, detail, wait)
    return Verdict(_outcome_of_status(status), detail)


def _outcome_of_status(status: int) -> Outcome:
    if status in _OUTCOMES:
        return _OUTCOMES[status]
    if status >= 500:
        return Outcome.SITE_ERROR
    return Outcome.TASK_FAILED if status >= 400 else Outcome.SUCCESS
