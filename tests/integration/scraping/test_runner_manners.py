"""The runner with real browsers keeps the pace, the pauses and robots.txt; the site's own record says so (I9, I12)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from poolsql.demo.local_server import RequestRecord, Response
from poolsql.demo.shop import ShopSite
from poolsql.fleet.session import AsyncSession
from poolsql.leasing.outcomes import Outcome
from poolsql.scraping import runner
from poolsql.scraping.pacing import Slot, claim_slot
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.tasks import Task
from tests.integration.scraping.conftest import Bench
from tests.sites.hostile import HostileSite


@pytest.fixture
def site() -> Iterator[HostileSite]:
    with HostileSite() as running:
        yield running


def pages(requests: tuple[RequestRecord, ...], host: str | None = None) -> list[RequestRecord]:
    return [record for record in requests if record.path != "/robots.txt" and host in {None, record.host}]


def set_delay(bench: Bench, host: str, delay: str) -> None:
    with bench.fleet.database.connect() as connection:
        connection.execute(
            text("INSERT INTO poolsql.hosts (name, delay) VALUES (:name, CAST(:delay AS interval))"),
            {"name": host, "delay": delay},
        )


def test_limits_walls_and_forbidden_paths_are_respected_while_others_go_on(new_bench: Callable[..., Bench]) -> None:
    bench = new_bench(
        profiles=3, block_pause="3s", failure_cooldown="1s", failure_cooldown_cap="2s", rate_pause="1s", retire_after=9
    )
    with ShopSite(products=8, retry_after=timedelta(seconds=2), refusals=2) as shop:
        urls = [
            shop.limited_url,
            shop.captcha_url,
            shop.forbidden_url,
            *(f"{shop.url}product/{n}" for n in range(1, 9)),
        ]
        rows = bench.work(urls, concurrency=2, retries=RetryPolicy(retries=3, per_outcome={Outcome.CAPTCHA: 1}))
        record, early = shop.requests, shop.early_requests

    limited = rows[shop.limited_url]
    assert (limited.state, limited.tries, early) == ("done", 3, 0)
    assert [visit.outcome for visit in bench.visits(limited)] == ["rate_limited", "rate_limited", "success"]
    gaps = [later.at - earlier.at for earlier, later in pairwise(pages(record, limited.host))]
    assert len(gaps) == 2
    assert all(gap >= 2.0 for gap in gaps), "a page was loaded inside Retry-After"

    walled = rows[shop.captcha_url]
    visits = bench.visits(walled)
    assert (walled.state, walled.outcome, [visit.outcome for visit in visits]) == ("failed", "captcha", ["captcha"] * 2)
    assert len({visit.profile_id for visit in visits}) == 1, "a captcha was shown to another profile"
    (gap,) = [later.at - earlier.at for earlier, later in pairwise(pages(record, walled.host))]
    assert gap >= 3.0, "the host was loaded during its pause"

    forbidden = rows[shop.forbidden_url]
    assert (forbidden.state, forbidden.outcome, forbidden.tries) == ("failed", "robots_disallowed", 0)
    assert "/private" not in " ".join(each.path for each in record)

    shown = [row for url, row in rows.items() if "/product/" in url]
    assert {row.state for row in shown} == {"done"}
    first_wall, second_wall = pages(record, walled.host)
    during = [each for each in pages(record, shown[0].host) if first_wall.at < each.at < second_wall.at]
    assert during, "other hosts waited for the pause of one"


@pytest.fixture
def slots(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Not before which moments (of `time.monotonic`) the runner's loads may be, as their slots were granted."""
    granted: list[float] = []

    def note(*arguments: Any, **values: Any) -> Slot:
        slot = claim_slot(*arguments, **values)
        if slot.granted:
            granted.append(time.monotonic() + slot.wait)
        return slot

    monkeypatch.setattr(runner, "claim_slot", note)
    return granted


def assert_slots_were_kept(bench: Bench, site: HostileSite, slots: list[float], *, apart: float) -> None:
    loads = sorted(record.at for record in pages(site.requests))
    assert len(loads) == len(slots)
    # A sleep may end a few milliseconds early.
    assert all(load >= slot - 0.05 for load, slot in zip(loads, sorted(slots), strict=True)), "before its slot"
    (host,) = bench.rows(
        "SELECT extract(epoch FROM next_slot_at - created_at)::float8 AS taken FROM poolsql.hosts WHERE name = :name",
        name=site.host,
    )
    assert host.taken >= apart * len(slots), "slots were closer together than the delay"


def test_loads_keep_the_delay_of_their_host(bench: Bench, site: HostileSite, slots: list[float]) -> None:
    set_delay(bench, site.host, "1 second")
    bench.work([site.at(f"/?{number}") for number in range(4)], concurrency=2)
    assert_slots_were_kept(bench, site, slots, apart=1.0)


def test_the_crawl_delay_of_robots_is_kept(bench: Bench, site: HostileSite, slots: list[float]) -> None:
    site.robots = Response(b"User-agent: *\nCrawl-delay: 1.5\n", content_type="text/plain")
    set_delay(bench, site.host, "0.1 seconds")
    bench.work([site.at(f"/?{number}") for number in range(3)], concurrency=2)
    assert_slots_were_kept(bench, site, slots, apart=1.5)
    assert sum(record.path == "/robots.txt" for record in site.requests) == 1, "two workers asked for the same rules"


def test_nothing_is_loaded_from_a_site_whose_robots_cannot_be_had(bench: Bench, site: HostileSite) -> None:
    site.robots = Response(status=500)
    urls = [site.at("/"), site.at("/?2")]
    rows = bench.work(urls, retries=RetryPolicy(retries=0))
    assert pages(site.requests) == []
    assert {(row.state, row.outcome, row.tries) for row in rows.values()} == {("failed", "site_error", 1)}
    assert all("robots.txt cannot be had" in row.detail for row in rows.values())
    assert all("HTTP 500" in row.detail for row in rows.values())
    (host,) = bench.rows("SELECT count(*) AS number FROM poolsql.attempts WHERE pool_id = :pool", pool=bench.pool.id)
    assert host.number == 0, "a profile was leased for a page that may not be loaded"


def test_a_pause_that_comes_while_a_slot_is_waited_for_is_respected(
    bench: Bench, site: HostileSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is paused between the grant of a slot and its time; the task is put back and done after the pause."""
    set_delay(bench, site.host, "0.2 seconds")
    granted: list[int] = []

    def pause_meanwhile(*arguments: Any, **values: Any) -> Any:
        slot = claim_slot(*arguments, **values)
        if not granted:
            with bench.fleet.database.connect() as connection:
                connection.execute(
                    text(
                        "UPDATE poolsql.hosts SET paused_until = clock_timestamp() + interval '2 seconds', "
                        "pause_reason = 'operator' WHERE name = :name"
                    ),
                    {"name": site.host},
                )
        granted.append(len(pages(site.requests)))
        return slot

    from poolsql.scraping.pacing import claim_slot  # noqa: PLC0415

    monkeypatch.setattr(runner, "claim_slot", pause_meanwhile)
    (row,) = bench.work([site.at("/")]).values()
    assert (row.state, row.tries) == ("done", 1)
    assert granted == [0, 0], "the page was loaded in the pause"
    outcomes = bench.rows(
        "SELECT outcome FROM poolsql.attempts WHERE pool_id = :pool ORDER BY lease_id", pool=bench.pool.id
    )
    assert [attempt.outcome for attempt in outcomes] == ["cancelled", "success"]


def test_loads_that_redirects_and_clicks_cause_charge_the_next_slot(bench: Bench, site: HostileSite) -> None:
    elsewhere = f"localhost:{site.host.rpartition(':')[2]}"
    for host in (site.host, elsewhere):
        set_delay(bench, host, "1 hour")
    target = f"http://{elsewhere}/"
    urls = [site.at(f"/redirect-to?url={quote(target, safe='')}")]
    bench.handlers[urls[0]] = _click_away
    (row,) = bench.work(urls).values()
    assert row.state == "done"
    hours = {
        host.name: round(host.hours)
        for host in bench.rows(
            "SELECT name, extract(epoch FROM next_slot_at - clock_timestamp()) / 3600 AS hours FROM poolsql.hosts"
        )
    }
    assert hours[site.host] == 1, "its one load had its slot"
    assert hours[elsewhere] == 2, "the redirect and the handler's load are charged"


async def _click_away(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    await session.page.evaluate("location.hash = 'no load at all'")
    async with session.page.expect_navigation():
        await session.page.evaluate("location.href = '/status/404'")
    return {}
