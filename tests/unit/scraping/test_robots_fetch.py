from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from poolsql.demo.local_server import Request, Response
from poolsql.errors import BadInputError
from poolsql.scraping.robots import MAX_ROBOTS_BYTES, RobotsAccess
from poolsql.scraping.robots_fetch import RobotsAnswer, fetch_robots
from tests.sites.hostile import HostileSite

RULES = b"User-agent: *\nDisallow: /private\n"
TIMEOUT = timedelta(seconds=5)


@pytest.fixture
def site() -> Iterator[HostileSite]:
    with HostileSite() as running:
        yield running


def _fetch(site: HostileSite, timeout: timedelta = TIMEOUT) -> RobotsAnswer:
    return fetch_robots(site.origin, agent="poolsql", timeout=timeout)


def _redirect(location: str) -> Response:
    return Response(status=302, headers=(("Location", location),))


def test_rules_of_a_site_are_fetched_under_our_own_name(site: HostileSite) -> None:
    site.robots = Response(RULES)
    answer = _fetch(site)
    assert (answer.status, answer.text) == (200, RULES.decode())
    assert not answer.rules(agent="poolsql").allows(site.at("/private"))
    assert answer.rules(agent="poolsql").allows(site.at("/"))
    (record,) = site.requests
    assert record.path == "/robots.txt"
    assert record.user_agent.startswith("poolsql/")
    assert record.user_agent.endswith(" (+robots)")


def test_environment_does_not_change_the_way(site: HostileSite, monkeypatch: pytest.MonkeyPatch) -> None:
    site.robots = Response(RULES)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert _fetch(site).status == 200


@pytest.mark.parametrize("status", [401, 404, 410, 500])
def test_error_pages_are_no_rules(site: HostileSite, status: int) -> None:
    site.robots = Response(b"User-agent: *\nAllow: /", status=status)
    answer = _fetch(site)
    assert (answer.status, answer.text, answer.retry_after) == (status, "", None)


def test_retry_after_of_a_limit_is_reported(site: HostileSite) -> None:
    site.robots = Response(status=429, headers=(("Retry-After", "4000"),))
    answer = _fetch(site)
    assert answer.retry_after == timedelta(seconds=4000)
    assert answer.rules(agent="poolsql").access is RobotsAccess.DISALLOW_ALL


def _after_hops(hops: int) -> HostileSite:
    site = HostileSite()
    left = iter(range(hops))

    def answer(_request: Request) -> Response:
        return Response(RULES) if next(left, None) is None else _redirect("/robots.txt")

    site.robots = answer
    return site


def test_five_redirects_are_followed_and_no_sixth() -> None:
    with _after_hops(5) as site:
        assert (_fetch(site).status, len(site.requests)) == (200, 6)
    with _after_hops(6) as site:
        answer = _fetch(site)
        assert (answer.status, len(site.requests)) == (302, 6)
        assert "more than 5 redirects" in answer.detail
        assert answer.rules(agent="poolsql").access is RobotsAccess.ALLOW_ALL


def test_redirects_lead_to_other_hosts_without_credentials(site: HostileSite) -> None:
    with HostileSite() as other:
        other.robots = Response(RULES)
        site.robots = _redirect(f"http://user:secret@{other.host}/robots.txt")
        answer = _fetch(site)
        assert answer.text == RULES.decode()
        assert answer.detail == f"http://{other.host}/robots.txt"


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://[bad/", "http://\x80\xff..x/", "https://"])
def test_redirects_to_nowhere_are_no_answer(site: HostileSite, location: str) -> None:
    site.robots = _redirect(location)
    answer = _fetch(site)
    assert (answer.status, answer.text) == (None, "")
    assert answer.rules(agent="poolsql").access is RobotsAccess.DISALLOW_ALL


def test_redirects_in_utf_8_are_understood(site: HostileSite) -> None:
    site.robots = _redirect("/ü".encode().decode("latin-1"))
    assert _fetch(site).status == 404
    assert site.requests[-1].path == "/%C3%BC"


def test_a_closed_port_is_no_answer_with_a_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    answer = fetch_robots(f"http://127.0.0.1:{port}", agent="poolsql", timeout=TIMEOUT)
    assert answer.status is None
    assert "refused" in answer.detail
    assert "Max retries" not in answer.detail
    assert answer.rules(agent="poolsql").access is RobotsAccess.DISALLOW_ALL


def test_an_answer_cut_short_is_no_answer(site: HostileSite) -> None:
    site.robots = Response((RULES,), headers=(("Content-Length", "9999"), ("Connection", "close")))
    assert _fetch(site, timedelta(seconds=0.5)).status is None
    site.robots = Response(hang_up=True)
    assert _fetch(site).status is None


def test_a_site_that_drips_does_not_hold_the_caller(site: HostileSite) -> None:
    site.robots = Response(_dripping())
    began = time.monotonic()
    answer = _fetch(site, timedelta(seconds=0.5))
    assert time.monotonic() - began < 2
    assert answer.status is None
    assert "within 0.5 s" in answer.detail


def _dripping() -> Iterator[bytes]:
    for _ in range(1000):
        time.sleep(0.02)
        yield b"#"


def test_a_huge_file_is_read_up_to_the_limit(site: HostileSite) -> None:
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        yield RULES
        for _ in range(5000):
            sent += 10_000
            yield b"#" * 9_999 + b"\n"

    site.robots = Response(pieces())
    answer = _fetch(site)
    assert answer.status == 200
    assert MAX_ROBOTS_BYTES - 10_000 <= len(answer.text) <= MAX_ROBOTS_BYTES
    assert answer.text.endswith("\n")
    assert sent < 50_000_000


def test_a_compressed_bomb_is_read_up_to_the_limit(site: HostileSite) -> None:
    bomb = gzip.compress(RULES + b"#\n" * 50_000_000, compresslevel=1)
    site.robots = Response(bomb, headers=(("Content-Encoding", "gzip"),))
    answer = _fetch(site)
    assert answer.text.startswith(RULES.decode())
    assert len(answer.text) <= MAX_ROBOTS_BYTES


def test_text_is_storable(site: HostileSite) -> None:
    site.robots = Response(b"# \0 \xed\xa0\x80\n" + RULES)
    answer = _fetch(site)
    answer.text.encode()
    assert "\0" not in answer.text


def test_an_origin_that_is_none_is_refused() -> None:
    with pytest.raises(BadInputError, match="not an http"):
        fetch_robots("ftp://shop.example", agent="poolsql", timeout=TIMEOUT)
