"""The hostile pages do what the tests that use them rely on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from poolsql.demo.local_server import Response
from tests.sites.hostile import HostileSite


@pytest.fixture(scope="module")
def site() -> Iterator[HostileSite]:
    with HostileSite() as running:
        yield running


@pytest.mark.parametrize("code", [401, 403, 404, 410, 429, 500, 503])
def test_statuses(site: HostileSite, code: int) -> None:
    answer = requests.get(site.at(f"/status/{code}?retry_after=7"), timeout=5)
    assert (answer.status_code, answer.headers["Retry-After"]) == (code, "7")
    assert "<h1>" in answer.text
    bare = requests.get(site.at(f"/status/{code}?empty=1"), timeout=5)
    assert (bare.status_code, bare.content) == (code, b"")
    assert "Retry-After" not in bare.headers


def test_huge_page_has_the_size_that_was_asked_for(site: HostileSite) -> None:
    with requests.get(site.at("/huge?megabytes=5"), timeout=5, stream=True) as answer:
        size = sum(len(piece) for piece in answer.iter_content(65536))
    assert 5_000_000 <= size <= 5_000_100


def test_redirects(site: HostileSite) -> None:
    answer = requests.get(site.at("/redirect/4"), timeout=5)
    assert (answer.status_code, len(answer.history)) == (200, 4)
    with pytest.raises(requests.TooManyRedirects):
        requests.get(site.at("/redirect-loop"), timeout=5)


def test_account_needs_the_login(site: HostileSite) -> None:
    with requests.Session() as browser:
        assert 'id="login"' in browser.get(site.at("/account"), timeout=5).text
        browser.post(site.at("/login"), data={"user": "a", "password": "b"}, timeout=5)
        assert "You are logged in" in browser.get(site.at("/account"), timeout=5).text


def test_answers_that_never_end_or_end_early(site: HostileSite) -> None:
    with pytest.raises(requests.ConnectionError):
        requests.get(site.at("/hang-up"), timeout=5)
    with pytest.raises(requests.exceptions.RequestException):
        requests.get(site.at("/cut-short"), timeout=0.3)
    with requests.get(site.at("/drip?seconds=0.01"), timeout=5, stream=True) as answer:
        assert next(answer.iter_content(3)) == b"..."


def test_robots_can_be_replaced() -> None:
    with HostileSite() as site:
        assert requests.get(site.at("/robots.txt"), timeout=5).status_code == 404
        site.robots = Response(b"one")
        assert requests.get(site.at("/robots.txt"), timeout=5).text == "one"
        site.robots = lambda request: Response(request.method.encode())
        assert requests.get(site.at("/robots.txt"), timeout=5).text == "GET"
        assert [record.path for record in site.requests] == ["/robots.txt"] * 3
