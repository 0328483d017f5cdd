"""Waiting and clicking on real pages, and when a load is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from playwright.async_api import Page

from poolsql.demo.local_server import Response
from poolsql.fleet.session import AsyncSession
from poolsql.leasing.outcomes import Outcome
from poolsql.scraping import steps as steps_module
from poolsql.scraping.extraction import Field, extract
from poolsql.scraping.handlers import extracting_handler
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.steps import Click, PageSteps, StepFailedError
from poolsql.scraping.tasks import Task
from poolsql.scraping.visiting import Seen, visit
from tests.integration.scraping.conftest import Bench
from tests.integration.scraping.open_pages import OpenPages, open_pages
from tests.sites.hostile import HostileSite

LATE = """
<button id=more onclick="setTimeout(() => { list.innerHTML += '<li>three' }, 200)">more</button>
<button id=hidden style="display:none" onclick="list.remove()">hidden</button>
<ul id=list></ul>
<script>setTimeout(() => { list.innerHTML = '<li>one<li>two'; list.dataset.ready = 1 }, 300)</script>
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[OpenPages]:
    with open_pages() as opened:
        yield opened


def items_after(browser: OpenPages, steps: PageSteps, html: str = LATE) -> Any:
    async def work(page: Page) -> Any:
        await steps.apply(page)
        return (await extract(page, {"items": Field("li", all=True, required=False)}))["items"]

    return browser.show(html, work)


def test_without_steps_the_page_is_read_at_once(browser: OpenPages) -> None:
    assert items_after(browser, PageSteps()) == []


def test_an_element_is_waited_for_seen_or_not(browser: OpenPages) -> None:
    assert items_after(browser, PageSteps(wait_for="#list[data-ready]")) == ["one", "two"]
    hidden = "<script>setTimeout(() => { document.body.innerHTML += '<ul hidden><li>x</ul>' }, 200)</script>"
    assert items_after(browser, PageSteps(wait_for="li"), hidden) == ["x"]


def test_clicks_come_after_the_wait_and_can_wait_for_what_they_bring(browser: OpenPages) -> None:
    steps = PageSteps(wait_for="li", click=(Click("#more", wait_for="li:nth-child(3)"),))
    assert items_after(browser, steps) == ["one", "two", "three"]


def test_clicks_are_made_in_their_order(browser: OpenPages) -> None:
    html = "<ul id=list></ul>" + "".join(
        f"<button id=b{n} onclick=\"list.innerHTML += '<li>{n}'\">x</button>" for n in "12"
    )
    assert items_after(browser, PageSteps(click=(Click("#b2"), Click("#b1"), Click("#b2"))), html) == ["2", "1", "2"]


def test_an_optional_click_that_is_not_there_or_not_seen_is_left_out(browser: OpenPages) -> None:
    steps = PageSteps(
        wait_for="li",
        click=(
            Click("#consent", optional=True, wait_for="#never"),
            Click("#hidden", optional=True),
            Click("#more", optional=True, wait_for="li:nth-child(3)"),
        ),
    )
    assert items_after(browser, steps) == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (PageSteps(wait_for="#never"), "wait_for: '#never' was not on the page within 0.4 s"),
        (PageSteps(click=(Click("#never"),)), "click: '#never' was not on the page, for 0.4 s"),
        (PageSteps(click=(Click("#hidden"),)), "click: '#hidden' could not be clicked: it is hidden"),
        (PageSteps(click=(Click("#covered", optional=True),)), "click: '#covered' could not be clicked"),
    ],
)
def test_a_step_that_fails_is_named(
    browser: OpenPages, monkeypatch: pytest.MonkeyPatch, steps: PageSteps, told: str
) -> None:
    monkeypatch.setattr(steps_module, "STEP_SECONDS", 0.4)
    html = f"{LATE}<button id=covered>x</button><div style='position:fixed; inset:50px 0 0 0; background:red'></div>"
    with pytest.raises(StepFailedError, match=told):
        items_after(browser, steps, html)


def test_a_wait_after_a_click_is_named_with_it(browser: OpenPages, monkeypatch: pytest.MonkeyPatch) -> None:
    # Enough for the click on a busy machine.
    monkeypatch.setattr(steps_module, "STEP_SECONDS", 3.0)
    steps = PageSteps(click=(Click("#more", wait_for="#never"),))
    with pytest.raises(StepFailedError, match="wait_for after the click on '#more': '#never' was not on the page"):
        items_after(browser, steps)


def test_a_selector_is_css_and_nothing_else_to_the_browser(browser: OpenPages) -> None:
    # Playwright alone would take this for a search by text.
    html = """<ul id=list></ul><button title="text=x >> y" onclick="list.innerHTML = '<li>1'">x</button>"""
    assert items_after(browser, PageSteps(click=(Click("""button[title="text=x >> y"]"""),)), html) == ["1"]


@pytest.mark.parametrize(("wait_until", "state"), [("domcontentloaded", "interactive"), ("load", "complete")])
def test_a_load_is_over_when_its_job_says_so(browser: OpenPages, wait_until: Any, state: str) -> None:
    browser.pages["/page"] = Response(b"<!doctype html><title>Page</title><h1>Hello</h1><img src=/picture.png>")
    browser.pages["/picture.png"] = Response(b"", delay=1.0)

    async def tell(session: AsyncSession, _: Task) -> Mapping[str, Any]:
        return {"state": await session.page.evaluate("document.readyState")}

    async def work(page: Page) -> Seen:
        session = SimpleNamespace(page=page, context=page.context, take_report=lambda: None)
        task = SimpleNamespace(url=f"{browser.url}page")
        return await visit(cast("AsyncSession", session), cast("Task", task), tell, seconds=20, wait_until=wait_until)

    seen = browser.with_page(work)
    assert seen.verdict.outcome is Outcome.SUCCESS
    assert seen.result == {"state": state}


def test_steps_are_bounded_by_the_task_s_time_and_come_after_the_judgement(bench: Bench) -> None:
    never = PageSteps(wait_for="#never")
    with HostileSite() as site:
        urls = [site.at("/"), site.at("/status/404")]
        bench.handlers = {url: extracting_handler({"heading": Field("h1")}, never) for url in urls}
        rows = bench.work(urls, task_timeout=2.0, retries=RetryPolicy(retries=0))
    assert rows[urls[0]].outcome == "task_timeout"
    assert rows[urls[1]].outcome == "not_found"
