"""How the runner ends, and what it survives: SIGTERM, a lost database, a driver that dies, profiles that are gone."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from sqlalchemy.engine import URL, make_url

from poolsql.database.embedded import open_embedded_server
from poolsql.database.engine import Database
from poolsql.database.migration import upgrade
from poolsql.fleet.session import AsyncSession
from poolsql.scraping import runner as runner_module
from poolsql.scraping import tasks
from poolsql.scraping.driver_check import DriverLostError
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.tasks import Task
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.integration.scraping.conftest import Bench, read_heading
from tests.sites.hostile import HostileSite


@pytest.fixture
def site() -> Iterator[HostileSite]:
    with HostileSite() as running:
        yield running


def test_sigterm_stops_browsers_releases_leases_and_returns_tasks(bench: Bench, site: HostileSite) -> None:
    run_id = bench.create_run([site.at("/slow?seconds=50"), site.at("/slow?seconds=55"), site.at("/")])
    environment = {**os.environ, "POOLSQL_DATABASE_URL": bench.url, "POOLSQL_MACHINE": "here"}
    environment["POOLSQL_DATA_DIR"] = str(bench.directory)
    worker = subprocess.Popen(
        [sys.executable, "-m", "poolsql.demo.worker", str(run_id), bench.pool.name, "pages", "2"], env=environment
    )
    try:
        until(lambda: sum("/slow" in record.path for record in site.requests) == 2, seconds=40)
        assert len(bench.leases()) == 2
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=30) == 0
    finally:
        worker.kill()
        worker.wait()
    assert bench.leases() == []
    assert bench.browsers() == []
    assert [(row.state, row.lease_id, row.claimed_until) for row in bench.tasks(run_id)] == [
        ("pending", None, None)
    ] * 3
    attempts = bench.rows("SELECT * FROM poolsql.attempts WHERE pool_id = :pool", pool=bench.pool.id)
    assert [(row.outcome, row.ended_by, row.counted) for row in attempts] == [("cancelled", "holder", False)] * 2
    assert all(row.stop_rung for row in attempts)


def test_a_worker_that_is_killed_loses_no_task(bench: Bench, site: HostileSite) -> None:
    run_id = bench.create_run([site.at("/slow?seconds=2"), site.at("/")])
    environment = {**os.environ, "POOLSQL_DATABASE_URL": bench.url, "POOLSQL_MACHINE": "here"}
    environment["POOLSQL_DATA_DIR"] = str(bench.directory)
    worker = subprocess.Popen(
        [sys.executable, "-m", "poolsql.demo.worker", str(run_id), bench.pool.name, "pages", "1"], env=environment
    )
    until(lambda: any("/slow" in record.path for record in site.requests), seconds=40)
    worker.kill()
    worker.wait()
    asyncio.run(asyncio.wait_for(bench.runner(run_id).run(), 60))
    rows = bench.tasks(run_id)
    assert [(row.state, row.tries) for row in rows] == [("done", 2), ("done", 1)]
    assert [visit.outcome for visit in bench.visits(rows[0])] == ["success"]
    (lost,) = bench.rows(
        "SELECT * FROM poolsql.attempts WHERE pool_id = :pool AND outcome = 'worker_lost'", pool=bench.pool.id
    )
    assert (lost.ended_by, lost.counted) == ("reaper", False)
    assert lost.stop_rung
    bench.forget_artifacts()


@contextmanager
def meanwhile(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run something in a thread until the block ends; its errors are the test's."""
    over = threading.Event()
    errors: list[Exception] = []

    def run() -> None:
        try:
            work(over)
        except Exception as error:  # noqa: BLE001 - raised again by the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert errors == []


def one_result_each(bench: Bench, rows: Mapping[str, Any]) -> None:
    assert {row.state for row in rows.values()} == {"done"}
    results = [[visit.outcome for visit in bench.visits(row)].count("success") for row in rows.values()]
    assert results == [1] * len(rows)
    assert bench.leases() == []


def test_connections_that_are_cut_again_and_again_lose_nothing(
    bench: Bench, site: HostileSite, administration: Database, database_url: URL
) -> None:
    cuts = []

    def cut(over: threading.Event) -> None:
        while not over.wait(0.4):
            with administration.connect() as connection:
                ended = connection.exec_driver_sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                    (database_url.database,),
                )
                cuts.append(len(ended.all()))

    with meanwhile(cut):
        rows = bench.work([site.at(f"/?{number}") for number in range(6)], concurrency=2)
    one_result_each(bench, rows)
    assert sum(cuts) > 10


def test_a_server_that_is_killed_and_started_again_loses_nothing(
    new_bench: Callable[..., Bench], site: HostileSite, settings: Settings
) -> None:
    directory = Path(tempfile.gettempdir()) / f"poolsql-restarted-{uuid4().hex[:8]}"
    with open_embedded_server(directory) as server:
        database = Database(make_url(server.url).set(drivername="postgresql+psycopg"), settings)
        upgrade(database)
        database.close()
        bench = new_bench(url=server.url)

        def restart(_: threading.Event) -> None:
            until(lambda: len(site.requests) >= 3, seconds=40)
            os.kill(int((server.data_directory / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
            with open_embedded_server(directory):
                pass

        with meanwhile(restart):
            rows = bench.work([site.at(f"/?{number}") for number in range(6)], concurrency=2)
        one_result_each(bench, rows)
        assert len(rows) == 6
        bench.fleet.close()
    shutil.rmtree(directory)


def test_a_driver_that_dies_ends_the_runner_and_says_so(bench: Bench, site: HostileSite) -> None:
    """Without its driver a worker would blame every browser for what none of them did."""
    before = set(drivers())

    async def kill_driver(session: AsyncSession, task: Task) -> Mapping[str, Any]:
        (driver,) = [process for process in drivers() if process not in before]
        driver.kill()
        return await read_heading(session, task)

    bench.handlers[site.at("/")] = kill_driver
    run_id = bench.create_run([site.at("/"), site.at("/?2")])
    with pytest.raises(DriverLostError):
        asyncio.run(asyncio.wait_for(bench.runner(run_id).run(), 30))
    assert bench.leases() == []
    bench.handlers.clear()
    asyncio.run(asyncio.wait_for(bench.runner(run_id, retries=RetryPolicy(delay=0)).run(), 60))
    assert {row.state for row in bench.tasks(run_id)} == {"done"}
    bench.forget_artifacts()


def drivers() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "run-driver" in " ".join(child.cmdline())]


def test_what_goes_wrong_around_a_visit_is_tried_again_and_ends_no_worker(
    bench: Bench, site: HostileSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    trouble = iter([ValueError("surprise"), RuntimeError("another")])

    def attach(*arguments: Any) -> bool:
        for error in trouble:
            raise error
        return attach_lease(*arguments)

    attach_lease = tasks.attach_lease
    monkeypatch.setattr(tasks, "attach_lease", attach)
    (row,) = bench.work([site.at("/")], retries=RetryPolicy(delay=0.1)).values()
    assert (row.state, row.tries) == ("done", 3)


def test_a_pool_without_a_free_profile_is_waited_for(bench: Bench, site: HostileSite) -> None:
    leases = [bench.pool.checkout(), bench.pool.checkout()]

    def give_back(_: threading.Event) -> None:
        misses = "SELECT FROM poolsql.misses WHERE pool_id = :pool"
        until(lambda: bench.rows(misses, pool=bench.pool.id), seconds=20)
        for lease in leases:
            lease.release()

    with meanwhile(give_back):
        (row,) = bench.work([site.at("/")], profile_wait=0.2).values()
    assert (row.state, row.tries) == ("done", 1)


def test_a_claim_outlives_a_long_wait_for_a_profile(
    new_bench: Callable[..., Bench], site: HostileSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With claims of a second, a task that waits for seconds is still its worker's, and tried once."""
    monkeypatch.setattr(runner_module, "CLAIM_SECONDS", 1.0)
    monkeypatch.setattr(runner_module, "CLAIMS_KEPT_EVERY", 0.1)
    bench = new_bench(profiles=1)
    lease = bench.pool.checkout()
    claimed = "SELECT FROM poolsql.tasks WHERE url = :url AND clock_timestamp() - changed_at > interval '2.5 seconds'"

    def give_back(_: threading.Event) -> None:
        until(lambda: bench.rows(claimed + " AND state = 'running'", url=site.at("/")), seconds=20)
        lease.release()

    with meanwhile(give_back):
        (row,) = bench.work([site.at("/")], upkeep_every=0.05).values()
    assert (row.state, row.tries) == ("done", 1)
    assert len(bench.visits(row)) == 1


def test_a_browser_that_does_not_start_ends_the_task_after_its_tries(
    new_bench: Callable[..., Bench], site: HostileSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = new_bench(hold="100ms", hold_cap="100ms")
    monkeypatch.setattr(bench.fleet.settings, "chromium", Path("/nonexistent/chromium"))
    task = asyncio.run(_until_tried(bench, site))
    assert task.outcome == "launch_failed"
    assert "/nonexistent/chromium" in task.detail
    assert site.requests == () or all(record.path == "/robots.txt" for record in site.requests)


async def _until_tried(bench: Bench, site: HostileSite) -> Any:
    run_id = bench.create_run([site.at("/")])
    running = asyncio.ensure_future(bench.runner(run_id, retries=RetryPolicy(retries=1, delay=0.1)).run())
    async with asyncio.timeout(30):
        while not (task := (await asyncio.to_thread(bench.tasks, run_id))[0]).outcome:  # noqa: ASYNC110 - the database
            await asyncio.sleep(0.05)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return task
