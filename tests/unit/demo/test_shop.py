from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
import requests

from poolsql.demo.pages import product
from poolsql.demo.shop import ShopSite
from poolsql.scraping.robots import RobotsAccess, RobotsRules


@pytest.fixture
def shop() -> Iterator[ShopSite]:
    with ShopSite(retry_after=timedelta(seconds=1), slow=timedelta(milliseconds=200)) as site:
        yield site


def _get(url: str, **headers: str) -> requests.Response:
    return requests.get(url, timeout=10, headers=headers)


def _heading(page: requests.Response) -> str:
    found = re.search("<h1>(.*?)</h1>", page.text)
    assert found is not None
    return found[1]


def test_listing_leads_to_every_product_over_its_pages(shop: ShopSite) -> None:
    links: list[str] = []
    url: str | None = shop.url
    pages = 0
    while url is not None:
        page = _get(url)
        assert page.status_code == 200
        links += re.findall(r'href="(/product/\d+)"', page.text)
        following = re.search(r'rel="next" href="([^"]+)"', page.text)
        url = shop.url.rstrip("/") + following[1] if following else None
        pages += 1
    assert pages == 3
    assert links == [f"/product/{number}" for number in range(1, 37)]


def test_product_page_shows_name_price_and_stock(shop: ShopSite) -> None:
    item = product(7)
    page = _get(f"{shop.url}product/7")
    assert _heading(page) == item.name
    assert f"<title>{item.name}</title>" in page.text
    assert f'class="price">{item.price_text}<' in page.text
    assert re.search(rf'class="stock[^"]*">{item.stock_text}<', page.text)


def test_products_differ_and_some_are_sold_out() -> None:
    items = [product(number) for number in range(1, 37)]
    assert len({item.name for item in items}) == 36
    assert len({item.price for item in items}) == 36
    assert {item.stock_text for item in items} >= {"Sold out", "In stock: 5"}
    assert product(37).name == f"{product(1).name} No. 2"


@pytest.mark.parametrize(
    "path", ["product/0", "product/37", "product/x", "product/1/x", "product/٣", "?page=4", "?page=0", "?page=x", "no"]
)
def test_what_is_not_there_is_a_404(shop: ShopSite, path: str) -> None:
    assert _get(shop.url + path).status_code == 404


def test_robots_forbids_the_private_path_on_the_shop_only(shop: ShopSite) -> None:
    for url, allowed in (
        (shop.forbidden_url, False),
        (shop.url, True),
        (shop.limited_url, True),
        (shop.captcha_url, True),
    ):
        parts = urlsplit(url)
        answer = _get(f"{parts.scheme}://{parts.netloc}/robots.txt")
        rules = RobotsRules.of_answer(answer.status_code, answer.text, agent="poolsql")
        assert rules.access is RobotsAccess.RULES
        assert rules.allows(url) is allowed


def test_a_request_for_the_forbidden_page_would_be_on_record(shop: ShopSite) -> None:
    assert _get(shop.forbidden_url, **{"User-Agent": "rude/1"}).status_code == 200
    (record,) = shop.requests
    assert (record.path, record.user_agent) == ("/private/stocktaking", "rude/1")


def test_limited_page_opens_to_whoever_obeys_retry_after(shop: ShopSite) -> None:
    refused = _get(shop.limited_url)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    time.sleep(1.0)
    assert _get(shop.limited_url).status_code == 200
    assert shop.early_requests == 0
    first, second = shop.requests
    assert second.at - first.at >= 1.0
    assert [first.status, second.status] == [429, 200]


def test_limited_page_counts_whoever_comes_early(shop: ShopSite) -> None:
    _get(shop.limited_url)
    early = _get(shop.limited_url)
    assert (early.status_code, early.headers["Retry-After"]) == (429, "1")
    assert shop.early_requests == 1


def test_limited_page_can_refuse_more_than_once() -> None:
    with ShopSite(retry_after=timedelta(0), refusals=2) as shop:
        assert [_get(shop.limited_url).status_code for _ in range(3)] == [429, 429, 200]


def test_limits_are_only_on_the_limited_page_and_its_port(shop: ShopSite) -> None:
    origin = shop.limited_url.rsplit("/", 1)[0]
    assert _get(f"{origin}/robots.txt").status_code == 200
    assert _get(f"{origin}/favicon.ico").status_code == 404
    assert _get(shop.limited_url).status_code == 429
    assert _get(shop.url).status_code == 200
    hosts = {urlsplit(url).netloc for url in (shop.url, shop.limited_url, shop.captcha_url)}
    assert len(hosts) == 3


def test_every_page_of_the_captcha_port_is_the_captcha(shop: ShopSite) -> None:
    origin = shop.captcha_url.rsplit("/", 1)[0]
    for url in (shop.captcha_url, f"{origin}/", f"{origin}/product/1"):
        page = _get(url)
        assert "<title>Verify you are human</title>" in page.text
        assert 'id="captcha" data-captcha' in page.text


def test_slow_page_takes_its_time(shop: ShopSite) -> None:
    began = time.monotonic()
    assert _get(shop.slow_url).status_code == 200
    assert time.monotonic() - began >= 0.2
    began = time.monotonic()
    assert _get(f"{shop.slow_url}?seconds=0").status_code == 200
    assert time.monotonic() - began < 0.2
    for nonsense in ("nan", "-1", "61", "x"):
        assert _get(f"{shop.slow_url}?seconds={nonsense}").status_code == 404


def test_cookie_page_gives_a_lasting_cookie_once_and_shows_it(shop: ShopSite) -> None:
    with requests.Session() as browser:
        first = browser.get(shop.cookie_url, timeout=5)
        assert 'id="visitor">none<' in first.text
        assert "Max-Age=2592000" in first.headers["Set-Cookie"]
        second = browser.get(shop.cookie_url, timeout=5)
        assert 'id="visitor">visitor-1<' in second.text
        assert "Set-Cookie" not in second.headers
    assert "visitor-2" in _get(shop.cookie_url).headers["Set-Cookie"]


def test_cookie_page_shows_a_hostile_cookie_as_text(shop: ShopSite) -> None:
    assert "<script>" not in _get(shop.cookie_url, Cookie="visitor=<script>").text


def test_urls_are_distinct_pages_with_the_troubles_among_them(shop: ShopSite) -> None:
    urls = shop.urls()
    assert len(urls) == len(set(urls)) == 36 + 3 + 5
    troubles = {shop.limited_url, shop.captcha_url, shop.forbidden_url, shop.slow_url, shop.cookie_url}
    assert troubles <= set(urls)
    statuses = {url: _get(url).status_code for url in urls}
    assert {url for url, status in statuses.items() if status != 200} == {shop.limited_url}
    assert len(shop.requests) == len(urls)


def test_pages_ask_for_nothing_else(shop: ShopSite) -> None:
    page = _get(shop.url).text
    assert '<link rel="icon" href="data:,">' in page
    assert not re.search(r'(?:src|href)="https?:', page)
