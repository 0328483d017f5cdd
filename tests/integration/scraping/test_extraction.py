"""Fields read from real pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import Page

from poolsql.demo.local_server import Response
from poolsql.scraping.extraction import (
    LONGEST_VALUE,
    MOST_ELEMENTS,
    ElementMissingError,
    Field,
    ValueRefusedError,
    ValueType,
    extract,
    parse_fields,
)
from poolsql.scraping.handlers import extracting_handler
from poolsql.scraping.retries import RetryPolicy
from tests.integration.scraping.conftest import Bench
from tests.integration.scraping.open_pages import OpenPages, open_pages
from tests.sites.hostile import HostileSite

PRODUCT = """
<h1> A  chair
   of oak </h1>
<p class=price>€ 1.234,50</p><p class=old>1,299.00 $</p>
<p class=reviews>1,204 reviews</p><p class=empty> </p>
<ul><li data-n=1>one<li data-n=2>two<li>three</ul>
<a class=up href="../other?x=1#part">up</a> <a class=far href="https://shop.example/x">far</a> <a class=bare>bare</a>
<img class=picture src="/chair.png"> <a class=bad href="http://[">bad</a>
<input class=box disabled>
<script type="application/ld+json">{"name":"A  chair", "price": 12.5, "list": [1, null]}</script>
<script id=broken type="application/json">{"name":</script>
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[OpenPages]:
    with open_pages() as opened:
        yield opened


def read(browser: OpenPages, html: str, fields: dict[str, Any]) -> dict[str, Any]:
    async def work(page: Page) -> dict[str, Any]:
        return await extract(page, parse_fields(fields))

    found: dict[str, Any] = browser.show(html, work)
    assert json.loads(json.dumps(found)) == found
    return found


def refused(browser: OpenPages, html: str, fields: dict[str, Any]) -> str:
    with pytest.raises(ValueRefusedError) as raised:
        read(browser, html, fields)
    return str(raised.value)


def test_every_type_is_read_from_one_page(browser: OpenPages) -> None:
    assert read(
        browser,
        PRODUCT,
        {
            "title": "h1",
            "price": {"css": ".price", "type": "decimal"},
            "old": {"css": ".old", "type": "decimal"},
            "reviews": {"css": ".reviews", "type": "integer"},
            "up": {"css": ".up", "type": "url"},
            "far": {"css": ".far", "type": "url"},
            "picture": {"css": ".picture", "type": "url"},
            "written": {"css": ".up", "attribute": "href"},
            "has_price": {"css": ".price", "type": "boolean"},
            "has_discount": {"css": ".discount", "type": "boolean"},
            "disabled": {"css": ".box", "attribute": "disabled", "type": "boolean"},
            "checked": {"css": ".box", "attribute": "checked", "type": "boolean"},
            "data": {"css": "script[type='application/ld+json']", "type": "json"},
            "empty": ".empty",
        },
    ) == {
        "title": "A chair of oak",
        "price": "1234.50",
        "old": "1299.00",
        "reviews": 1204,
        "up": f"{browser.url}other?x=1#part",
        "far": "https://shop.example/x",
        "picture": f"{browser.url}chair.png",
        "written": "../other?x=1#part",
        "has_price": True,
        "has_discount": False,
        "disabled": True,
        "checked": False,
        "data": {"name": "A  chair", "price": 12.5, "list": [1, None]},
        "empty": "",
    }


def test_all_takes_every_element_that_has_it(browser: OpenPages) -> None:
    assert read(
        browser,
        PRODUCT,
        {
            "items": {"css": "li", "all": True},
            "numbers": {"css": "li", "all": True, "attribute": "data-n", "type": "integer"},
            "links": {"css": "a:not(.bad)", "all": True, "type": "url"},
            "none": {"css": "b", "all": True, "required": False},
            "fallback": {"css": "b", "all": True, "default": ["x"]},
        },
    ) == {
        "items": ["one", "two", "three"],
        "numbers": [1, 2],
        "links": [f"{browser.url}other?x=1#part", "https://shop.example/x"],
        "none": [],
        "fallback": ["x"],
    }


def test_what_is_missing_is_none_or_its_default(browser: OpenPages) -> None:
    assert read(
        browser,
        PRODUCT,
        {
            "none": {"css": "b", "required": False},
            "text": {"css": "b", "default": "nothing"},
            "number": {"css": ".empty", "type": "integer", "default": 0},
            "decimal": {"css": ".empty", "type": "decimal", "default": 0.5},
            "address": {"css": ".bare", "type": "url", "required": False},
        },
    ) == {"none": None, "text": "nothing", "number": 0, "decimal": "0.5", "address": None}


def test_all_that_is_missing_is_named(browser: OpenPages) -> None:
    fields = {
        "title": "h1",
        "a": "b",
        "b": {"css": ".empty", "type": "integer"},
        "c": {"css": "i", "all": True},
        "d": {"css": ".bare", "type": "url"},
    }
    with pytest.raises(ElementMissingError, match=r"no element for a \(b\), b \(.empty\), c \(i\), d \(.bare\)$"):
        read(browser, PRODUCT, fields)


def test_all_that_cannot_be_read_is_named_with_its_text(browser: OpenPages) -> None:
    told = refused(
        browser,
        PRODUCT,
        {
            "title": "h1",
            "number": {"css": ".price", "type": "integer"},
            "word": {"css": "h1", "type": "decimal"},
            "broken": {"css": "#broken", "type": "json"},
            "bad": {"css": ".bad", "type": "url"},
            "one_of_all": {"css": "li", "all": True, "type": "integer"},
        },
    )
    assert "number (.price): '€ 1.234,50': '1.234,50' is no whole number" in told
    assert "word (h1): 'A chair of oak': holds no number" in told
    assert "broken (#broken): is no JSON (" in told
    assert "bad (.bad): 'http://[' is no address" in told
    assert "one_of_all (li): 'one': holds no number" in told


def test_a_selector_that_this_browser_does_not_take_is_named(browser: OpenPages) -> None:
    async def work(page: Page) -> dict[str, Any]:
        return await extract(page, {"good": Field("h1"), "bad": Field("h1:nope"), "all": Field("", all=True)})

    with pytest.raises(ValueRefusedError, match=r"bad \(h1:nope\): 'h1:nope' is no CSS selector for .*; all \(\): ''"):
        browser.show(PRODUCT, work)


def test_a_base_element_is_what_addresses_start_from(browser: OpenPages) -> None:
    html = "<base href='https://cdn.example/a/'><a href=b>x</a>"
    assert read(browser, html, {"x": {"css": "a", "type": "url"}}) == {"x": "https://cdn.example/a/b"}


def test_a_page_cannot_put_its_own_in_the_place_of_what_is_read_with(browser: OpenPages) -> None:
    html = """
        <form name=querySelectorAll></form><form name=baseURI></form>
        <form id=form><input name=textContent><input name=getAttribute>inside</form>
    """
    assert read(browser, html, {"text": "#form", "id": {"css": "#form", "attribute": "id"}}) == {
        "text": "inside",
        "id": "form",
    }


def test_a_page_of_any_size_is_bounded(browser: OpenPages) -> None:
    long = "x" * (LONGEST_VALUE + 5)
    html = f"<p>{long}</p><a href='/{long}'>x</a><b>5{long}</b>"
    assert read(browser, html, {"text": "p"}) == {"text": "x" * LONGEST_VALUE}
    told = refused(browser, html, {"url": {"css": "a", "type": "url"}, "number": {"css": "b", "type": "integer"}})
    assert "url (a): a value of 20006 characters is too long" in told
    assert "number (b): a value of 20006 characters is too long" in told
    many = f"<script>document.body.innerHTML = '<i></i>'.repeat({MOST_ELEMENTS + 1})</script>"
    assert "more than 10000 elements" in refused(browser, many, {"all": {"css": "i", "all": True}})
    heavy = "<script>document.body.innerHTML = ('<i>' + 'x'.repeat(19_000) + '</i>').repeat(600)</script>"
    assert "more than 10000000 characters" in refused(browser, heavy, {"all": {"css": "i", "all": True}})


def test_numbers_with_non_breaking_blanks_are_read_as_they_stand(browser: OpenPages) -> None:
    html = "<p>EUR 1&nbsp;299,50</p><b>Phone 15 128 GB</b>"
    assert read(browser, html, {"price": {"css": "p", "type": "decimal"}}) == {"price": "1299.50"}
    assert "several numbers" in refused(browser, html, {"price": {"css": "b", "type": "decimal"}})


def test_fields_become_the_task_s_result_and_refusals_its_failure(bench: Bench) -> None:
    good = parse_fields({"title": "h1", "none": {"css": "b", "type": "decimal", "default": 0}})
    bad = {"title": Field("h1"), "price": Field("h1", type=ValueType.DECIMAL), "slip": Field("h1:nope")}
    with HostileSite() as site:
        urls = [site.at("/"), site.at("/impostor"), site.at("/?bad")]
        bench.handlers = {
            urls[0]: extracting_handler(good),
            urls[1]: extracting_handler(good),
            urls[2]: extracting_handler(bad),
        }
        rows = bench.work(urls, retries=RetryPolicy(retries=0))
        assert rows[urls[0]].result["none"] == "0"
        assert rows[urls[1]].result == {"title": "Impostor", "none": "0"}
        [visit] = bench.visits(rows[urls[2]])
    assert rows[urls[2]].outcome == "task_failed"
    assert "ValueRefusedError: price (h1): " in visit.detail
    assert "slip (h1:nope): 'h1:nope' is no CSS selector" in visit.detail


def test_the_answer_of_another_page_is_a_page_too(browser: OpenPages) -> None:
    browser.pages["/plain"] = Response(b"just text", content_type="text/plain")

    async def work(page: Page) -> dict[str, Any]:
        await page.goto(f"{browser.url}plain")
        return await extract(page, {"text": Field("pre")})

    assert browser.with_page(work) == {"text": "just text"}
