"""The runner with real browsers on pages that try to break it: each ends as an outcome with the right blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

from poolsql.fleet.session import AsyncSession
from poolsql.leasing.outcomes import Outcome
from poolsql.scraping.extraction import Field, extract
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.tasks import Task
from tests.integration.scraping.conftest import Bench
from tests.sites.hostile import HostileSite

NO_RETRIES = RetryPolicy(retries=0)

ORDINARY = {
    # Nothing is wrong with these, however odd they are.
    "/": ("success", "nobody", 200),
    "/nul": ("success", "nobody", 200),
    "/surrogate": ("success", "nobody", 200),
    "/huge?megabytes=4": ("success", "nobody", 200),
    "/dialogs": ("success", "nobody", 200),
    "/unload-dialog": ("success", "nobody", 200),
    "/popups": ("success", "nobody", 200),
    "/closes-itself": ("success", "nobody", 200),  # browsers let no page do that
    "/closed-at-the-end": ("success", "nobody", 200),
    "/impostor": ("success", "nobody", 200),
    "/redirect/3": ("success", "nobody", 200),
    "/with-widget": ("success", "nobody", 200),
    # The task's own trouble.
    "/no-heading": ("task_failed", "task", 200),
    "/closed": ("task_failed", "task", 200),
    "/download": ("task_failed", "task", 200),
    "/exits": ("task_failed", "task", None),
    # Nobody's.
    "/status/404": ("not_found", "nobody", 404),
    "/status/404?empty=1": ("not_found", "nobody", 404),
    "/status/410": ("not_found", "nobody", 410),
    # The profile's, on this host.
    "/account": ("session_lost", "profile_host", 200),
    "/status/401": ("session_lost", "profile_host", 401),
    # The browser's.
    "/crashable": ("browser_crashed", "browser", 200),
    "/killable": ("browser_crashed", "browser", None),
}
"""Pages that do nothing to their host, so that one site can have them all."""

NEVER_DONE = {
    "/frozen": ("task_timeout", "task", 200),
    "/drip": ("task_timeout", "task", None),
    "/slow?seconds=60": ("task_timeout", "task", None),
    "/?endless": ("task_timeout", "task", 200),
}

PAUSING = {
    "/status/500": ("site_error", "host", 500),
    "/status/500?empty=1": ("site_error", "host", 500),
    "/status/503": ("site_error", "host", 503),
    "/redirect-loop": ("site_error", "host", 302),
    "/hang-up": ("site_error", "host", None),
    "/status/503?retry_after=2": ("rate_limited", "host", 503),
    "/status/429": ("rate_limited", "host", 429),
    "/status/429?retry_after=3&empty=1": ("rate_limited", "host", 429),
    "/status/403": ("blocked", "profile_host", 403),
    "/status/403?empty=1": ("blocked", "profile_host", 403),
}
"""Pages that pause their host, so that each needs a site of its own."""


@pytest.fixture
def site() -> Iterator[HostileSite]:
    with HostileSite() as running:
        yield running


def seen(bench: Bench, row: Any) -> tuple[str, str, int | None]:
    """What history says about the one visit of a task."""
    (visit,) = bench.visits(row)
    assert visit.outcome == row.outcome
    assert row.tries == 1
    return visit.outcome, visit.blames, visit.status


async def crash(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    tools = await session.context.new_cdp_session(session.page)
    await tools.send("Page.crash")
    return await extract(session.page, {"heading": Field("h1")})


async def close(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    await session.page.close()
    return await extract(session.page, {"heading": Field("h1")})


async def close_at_the_end(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    found = await extract(session.page, {"heading": Field("h1")})
    await session.page.close()
    return found


async def kill(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    parts = [part for part in psutil.process_iter() if session.profile.launcher in _arguments(part)]
    (browser,) = [part for part in parts if f"/{session.profile.key} " in f"{_arguments(part)} "]
    browser.kill()
    return await extract(session.page, {"heading": Field("h1")})


def _arguments(process: psutil.Process) -> str:
    try:
        arguments = process.cmdline()
    except psutil.Error:
        return ""
    return "" if any(argument.startswith("--type=") for argument in arguments) else " ".join(arguments)


async def leave(*_: object) -> Mapping[str, Any]:
    raise SystemExit(3)


async def report_block(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    session.report(Outcome.BLOCKED, detail="the page says so in its own words")
    return {"never": "kept"}


async def report_and_fail(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    session.report(Outcome.NOT_FOUND, detail="sold out")
    raise ValueError("what comes after a report does not count")


async def linger(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    await session.page.wait_for_selector("#never", timeout=0)
    return {}


async def take_its_time(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    await session.page.wait_for_timeout(600)
    return await extract(session.page, {"heading": Field("h1")})


def test_every_page_becomes_an_outcome_and_the_worker_goes_on(
    new_bench: Callable[..., Bench], site: HostileSite
) -> None:
    bench = new_bench(profiles=3, failure_cooldown="1s", hold="1s", hold_cap="1s", retire_after=1000)
    # Addresses that exist but do what they are named for only in their handler.
    spelled = {path: f"/?{path[1:]}" for path in ("/exits", "/killable", "/closed", "/closed-at-the-end")}
    urls = {path: site.at(spelled.get(path, path)) for path in ORDINARY}
    bench.handlers |= {
        urls["/crashable"]: crash,
        urls["/killable"]: kill,
        urls["/exits"]: leave,
        urls["/closed"]: close,
        urls["/closed-at-the-end"]: close_at_the_end,
        urls["/closes-itself"]: take_its_time,
        urls["/popups"]: take_its_time,
    }
    rows = bench.work(
        list(urls.values()),
        concurrency=3,
        task_timeout=60.0,
        retries=NO_RETRIES,
        page_rules={"#login": Outcome.SESSION_LOST},
    )
    expected = {
        path: (outcome, blames, 200 if path in spelled else status)
        for path, (outcome, blames, status) in ORDINARY.items()
    }
    found = {path: seen(bench, rows[url]) for path, url in urls.items()}
    differing = {path: (found[path], rows[urls[path]].detail) for path in found if found[path] != expected[path]}
    assert differing == {}
    results = {path: rows[url].result for path, url in urls.items() if rows[url].state == "done"}
    assert results["/nul"] == results["/surrogate"] == {"heading": "a\ufffdb"}
    assert results["/huge?megabytes=4"] == {"heading": "Huge"}
    assert results["/redirect/3"] == {"heading": "Arrived"}
    assert results["/impostor"] == {"heading": "Impostor"}
    assert "h1" in rows[urls["/no-heading"]].detail
    assert "closed" in rows[urls["/closed"]].detail
    assert bench.leases() == []


@pytest.mark.slow
def test_a_page_of_50_megabytes_is_an_ordinary_one(bench: Bench, site: HostileSite) -> None:
    url = site.at("/huge?megabytes=50")
    rows = bench.work([url], task_timeout=60.0, retries=NO_RETRIES)
    assert seen(bench, rows[url]) == ("success", "nobody", 200)
    assert rows[url].result == {"heading": "Huge"}


def test_a_page_that_never_ends_takes_the_tasks_time_and_no_more(
    new_bench: Callable[..., Bench], site: HostileSite
) -> None:
    bench = new_bench(profiles=4)
    urls = {path: site.at(path) for path in NEVER_DONE}
    bench.handlers |= {site.at("/?endless"): linger, urls["/frozen"]: take_its_time}
    rows = bench.work(list(urls.values()), concurrency=4, task_timeout=4.0, retries=NO_RETRIES)
    assert {path: seen(bench, rows[url]) for path, url in urls.items()} == NEVER_DONE
    visits = [bench.visits(row)[0] for row in rows.values()]
    assert all(3.5 < (visit.ended_at - visit.started_at).total_seconds() < 15 for visit in visits)


def test_every_page_that_pauses_its_host_tells_whom_it_blames(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench(profiles=3, retire_after=1000)
    with ExitStack() as stack:
        urls = {path: stack.enter_context(HostileSite()).at(path) for path in PAUSING}
        rows = bench.work(list(urls.values()), concurrency=3, retries=NO_RETRIES)
    assert {path: seen(bench, rows[url]) for path, url in urls.items()} == PAUSING
    pauses = {
        row.name: row.seconds
        for row in bench.rows(
            "SELECT name, extract(epoch FROM paused_until - clock_timestamp())::float8 AS seconds FROM poolsql.hosts"
        )
    }
    assert {rows[url].host for url in urls.values()} <= set(pauses)
    assert all(pauses[rows[urls[path]].host] > 500 for path in PAUSING if "403" in path), "blocks pause for long"


def test_what_a_handler_reports_is_the_outcome_of_the_one_visit(bench: Bench, site: HostileSite) -> None:
    urls = [site.at("/?blocked"), site.at("/?sold-out")]
    bench.handlers |= {urls[0]: report_block, urls[1]: report_and_fail}
    rows = bench.work(urls[1:], retries=NO_RETRIES) | bench.work(urls[:1], retries=NO_RETRIES)
    assert [seen(bench, rows[url])[0] for url in urls] == ["blocked", "not_found"]
    assert [(rows[url].state, rows[url].result, rows[url].detail) for url in urls] == [
        ("failed", None, "the page says so in its own words"),
        ("failed", None, "sold out"),
    ]
    attempts = bench.rows(
        "SELECT outcome, visits FROM poolsql.attempts WHERE pool_id = :pool ORDER BY lease_id", pool=bench.pool.id
    )
    assert [tuple(row) for row in attempts] == [("not_found", 1), ("blocked", 1)]
