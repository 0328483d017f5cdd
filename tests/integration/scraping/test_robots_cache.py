"""robots.txt in a real Postgres: asked for once, kept for everybody, asked for again when that was no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import pytest
from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.demo.local_server import Request, Response
from poolsql.scraping import robots_cache
from poolsql.scraping.robots import RobotsAccess
from poolsql.scraping.robots_cache import RobotsCache
from tests.sites.hostile import HostileSite

FORBIDS = Response(b"User-agent: *\nDisallow: /private\nCrawl-delay: 7\n", content_type="text/plain")
DAY = timedelta(days=1).total_seconds()

NewCache = Callable[[], RobotsCache]


@pytest.fixture
def site() -> Iterator[HostileSite]:
    with HostileSite() as running:
        yield running


@pytest.fixture
def new_cache(database: Database) -> NewCache:
    """What a new process has: nothing but the database."""
    return lambda: RobotsCache(database, agent="poolsql")


def asked(site: HostileSite) -> int:
    return sum(record.path == "/robots.txt" for record in site.requests)


def expire(database: Database, site: HostileSite) -> None:
    with database.connect() as connection:
        connection.execute(
            text("UPDATE poolsql.robots SET expires_at = clock_timestamp() WHERE origin = :origin"),
            {"origin": site.origin},
        )


def test_rules_are_asked_for_once_and_kept_for_a_day(site: HostileSite, new_cache: NewCache) -> None:
    site.robots = FORBIDS
    for cache in (new_cache(), new_cache()):
        for _ in range(3):
            known = cache.of(site.origin)
            assert (known.rules.allows(site.at("/private/1")), known.rules.allows(site.at("/"))) == (False, True)
            assert known.rules.delay == timedelta(seconds=7)
            assert known.seconds_left == pytest.approx(DAY, abs=60)
    assert asked(site) == 1


def test_many_callers_ask_once(site: HostileSite, new_cache: NewCache, threads: ThreadPoolExecutor) -> None:
    arrived, answer = Event(), Event()

    def slowly(_: Request) -> Response:
        arrived.set()
        answer.wait(10)
        return FORBIDS

    site.robots = slowly
    cache = new_cache()
    callers = [threads.submit(cache.of, site.origin) for _ in range(8)]
    assert arrived.wait(10)
    answer.set()
    assert {caller.result().rules.allows(site.at("/private/1")) for caller in callers} == {False}
    assert asked(site) == 1


def test_a_slow_origin_keeps_nobody_else_waiting(
    site: HostileSite, new_cache: NewCache, threads: ThreadPoolExecutor
) -> None:
    answer = Event()

    def slowly(_: Request) -> Response:
        answer.wait(10)
        return FORBIDS

    site.robots = slowly
    cache = new_cache()
    slow = threads.submit(cache.of, site.origin)
    with HostileSite() as other:
        assert cache.of(other.origin).rules.access is RobotsAccess.ALLOW_ALL
    assert not slow.done()
    answer.set()
    assert slow.result().rules.access is RobotsAccess.RULES


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_no_robots_is_a_permission_that_is_kept(site: HostileSite, new_cache: NewCache, status: int) -> None:
    site.robots = Response(b"User-agent: *\nDisallow: /", status=status)
    for cache in (new_cache(), new_cache()):
        known = cache.of(site.origin)
        assert known.rules.allows(site.at("/anything"))
        assert known.seconds_left == pytest.approx(DAY, abs=60)
    assert asked(site) == 1


@pytest.mark.parametrize("answer", [Response(status=500), Response(status=503), Response(hang_up=True)])
def test_no_answer_is_no_permission_and_is_asked_again(
    database: Database, site: HostileSite, new_cache: NewCache, answer: Response
) -> None:
    site.robots = answer
    known = new_cache().of(site.origin)
    assert not known.rules.allows(site.at("/anything"))
    assert known.seconds_left == pytest.approx(robots_cache.ASKED_AGAIN_AFTER.total_seconds(), abs=10)
    requests = asked(site)
    assert not new_cache().of(site.origin).rules.allows(site.at("/anything"))
    assert asked(site) == requests, "a trouble is kept as well, or each task would ask anew"
    site.robots = FORBIDS
    expire(database, site)
    assert new_cache().of(site.origin).rules.allows(site.at("/anything"))


@pytest.mark.parametrize(("retry_after", "kept"), [("1", 300), ("1800", 1800), ("9999999", DAY)])
def test_a_limit_on_robots_is_obeyed(site: HostileSite, new_cache: NewCache, retry_after: str, kept: float) -> None:
    site.robots = Response(status=429, headers=(("Retry-After", retry_after),))
    for cache in (new_cache(), new_cache()):
        known = cache.of(site.origin)
        assert not known.rules.allows(site.at("/"))
        assert known.seconds_left == pytest.approx(kept, abs=10)


def test_a_process_looks_into_the_database_again_after_a_while(
    database: Database, site: HostileSite, new_cache: NewCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(robots_cache, "elapsed_clock", lambda: now)
    cache = new_cache()
    site.robots = FORBIDS
    assert not cache.of(site.origin).rules.allows(site.at("/private"))
    site.robots = Response(status=404)
    expire(database, site)
    now += robots_cache.REMEMBERED_FOR - 1
    assert not cache.of(site.origin).rules.allows(site.at("/private"))
    now += 1
    assert cache.of(site.origin).rules.allows(site.at("/private"))


def test_what_was_no_answer_is_remembered_no_longer_than_it_counts(
    site: HostileSite, new_cache: NewCache, monkeypatch: pytest.MonkeyPatch, database: Database
) -> None:
    now = 1000.0
    monkeypatch.setattr(robots_cache, "elapsed_clock", lambda: now)
    monkeypatch.setattr(robots_cache, "ASKED_AGAIN_AFTER", timedelta(seconds=20))
    cache = new_cache()
    site.robots = Response(status=500)
    assert cache.of(site.origin).rules.access is RobotsAccess.DISALLOW_ALL
    site.robots = Response(status=404)
    now += 15
    assert cache.of(site.origin).seconds_left == pytest.approx(5, abs=1)
    now += 5
    expire(database, site)
    assert cache.of(site.origin).rules.access is RobotsAccess.ALLOW_ALL


def test_a_failed_look_leaves_the_origin_usable(
    site: HostileSite, new_cache: NewCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = new_cache()
    with monkeypatch.context() as patched:
        patched.setattr(RobotsCache, "_find", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cache.of(site.origin)
    assert cache.of(site.origin).rules.allows(site.at("/"))


def test_memory_is_bounded(new_cache: NewCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(robots_cache, "_ORIGINS", 3)
    cache = new_cache()
    with HostileSite() as site:
        for _ in range(2):
            for number in range(10):
                assert cache.of(f"http://127.0.0.{number + 2}:1").rules.access is RobotsAccess.DISALLOW_ALL
            cache.of(site.origin)
        assert asked(site) == 1
    assert len(cache._entries) == 3
