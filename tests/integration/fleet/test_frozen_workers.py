"""A worker that stands still (SIGSTOP) while its browser goes on: what others may do meanwhile, and what it finds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy.engine import URL

from poolsql import Fleet, Pool
from poolsql.database.engine import Database
from poolsql.demo.local_server import Request, RequestRecord, Response
from tests.fixtures.browsers import BrowserHome, Ledger, make_pool
from tests.fixtures.conditions import until
from tests.integration.fleet.actions import program
from tests.sites.served import ServedSite

TICKING = """<!doctype html><title>{who}</title>
<script>setInterval(() => fetch("/{who}/tick", {{cache: "no-store"}}), 20)</script>"""


class TickingSite(ServedSite):
    """``/<who>/page`` goes on asking for ``/<who>/tick`` by itself for as long as it is shown."""

    def page(self, who: str) -> str:
        """Address of the page."""
        return f"http://{self.host}/{who}/page"

    def asked_by(self, who: str) -> list[RequestRecord]:
        """What came from that page up to now."""
        return [record for record in self._log.snapshot() if record.path.startswith(f"/{who}/")]

    def _respond(self, request: Request) -> Response:
        match request.path.split("/")[1:]:
            case [who, "page" | "tick"]:
                return Response(TICKING.format(who=who).encode())
            case _:
                return Response(b"", status=404)


@pytest.fixture
def ticking() -> Iterator[TickingSite]:
    """A site that records who asks when."""
    with TickingSite() as site:
        yield site


def told(pool: Pool, database_url: URL, home: BrowserHome, *pages: str) -> dict[str, Any]:
    """What the frozen program is told."""
    url = database_url.render_as_string(hide_password=False)
    return {"url": url, "data_dir": str(home.data_dir), "pool": pool.name, "pages": pages}


def test_one_that_is_frozen_for_longer_than_its_ttl_loses_its_browser_before_the_next_lease_begins(
    fleet: Fleet, database: Database, database_url: URL, browser_home: BrowserHome, ticking: TickingSite
) -> None:
    pool = make_pool(fleet, ttl=2, renew=0.5, lost_cooldown=0)
    pages = (ticking.page("old"), ticking.page("late"))
    with program("browse", **told(pool, database_url, browser_home, *pages)) as worker:
        lease = worker.told()["lease"]
        worker.freeze()
        worker.go_on()  # to the next page, as soon as it wakes up
        before = len(ticking.asked_by("old"))
        until(lambda: len(ticking.asked_by("old")) > before)
        (attempt,) = until(lambda: fleet.reap().attempts)
        assert (attempt.lease_id, attempt.outcome) == (lease, "lease_expired")
        assert [process.pid for process in browser_home.processes()] == [worker.process.pid]
        with pool.browser() as session:
            began = time.monotonic()
            session.page.goto(ticking.page("new"))
            worker.wake_up()
            lost = worker.told()
            # Either its renewal or its release is the first to be refused.
            assert f"lease {lease}" in lost["lost"]
            assert lost["because"].startswith("playwright."), "its next page action failed"
            assert worker.end() == 0, worker.errors()
            assert session.page.title() == "new", "the end of the old block has not touched the new browser"
    assert [record.path for record in ticking.asked_by("old") if record.at >= began] == []
    assert ticking.asked_by("late") == []
    ledger = Ledger(database, pool)
    assert ledger.outcomes() == ["lease_expired", "success"]
    assert {report.lease_id for report in ledger.refused()} == {lease}


@pytest.mark.parametrize(
    "looking",
    [
        pytest.param(True, id="shorter, while others look"),
        pytest.param(False, id="longer, while nobody looks", marks=pytest.mark.slow),
    ],
)
def test_one_that_nobody_took_anything_from_renews_and_goes_on(
    fleet: Fleet,
    database: Database,
    database_url: URL,
    browser_home: BrowserHome,
    ticking: TickingSite,
    looking: bool,
) -> None:
    pool = make_pool(fleet, ttl=4, renew=1)
    ledger = Ledger(database, pool)
    with program("browse", **told(pool, database_url, browser_home, ticking.page("a"), ticking.page("b"))) as worker:
        worker.told()
        worker.freeze()
        (frozen,) = ledger.leases()

        def has_come_near_its_end() -> bool:
            assert fleet.reap().expired == 0
            return _left(ledger) < 1.5

        if looking:
            until(has_come_near_its_end)
        else:
            until(lambda: _left(ledger) < -0.5)
        worker.wake_up()
        (renewed,) = until(lambda: [lease for lease in ledger.leases() if lease.expires_at > frozen.expires_at])
        assert (renewed.id, renewed.state) == (frozen.id, "held")
        worker.go_on()
        assert worker.told() == {"lease": frozen.id, "title": "b"}
        worker.go_on()
        assert worker.end() == 0, worker.errors()
    assert ledger.outcomes() == ["success"]
    assert ledger.refused() == []


def _left(ledger: Ledger) -> float:
    """Seconds until the only lease ends, by the database's clock."""
    rows = ledger._rows("SELECT expires_at - clock_timestamp() AS left FROM poolsql.leases WHERE pool_id = :pool")
    left: float = rows[0].left.total_seconds()
    return left
