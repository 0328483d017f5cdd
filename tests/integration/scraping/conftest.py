"""A fleet with real browsers for the runner's tests, and the promise that none of them leaves anything behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.fleet.fleet import Fleet, connect
from poolsql.fleet.pool import Pool
from poolsql.fleet.session import AsyncSession
from poolsql.scraping import tasks
from poolsql.scraping.extraction import Field, extract
from poolsql.scraping.runner import Runner
from poolsql.scraping.runner_options import RunnerOptions
from poolsql.scraping.tasks import Task
from poolsql.scraping.visiting import Handler
from poolsql.targets import parse_target
from tests.fixtures.conditions import until

ONLY_LOCAL = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


async def read_heading(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    """The handler of most tests: the heading, which has to be there."""
    return await extract(session.page, {"heading": Field("h1")})


@dataclass
class Bench:
    """A fleet with a pool of real browsers."""

    fleet: Fleet
    pool: Pool
    url: str
    directory: Path
    """Where everything of its browsers is, in processes' arguments too."""
    handlers: dict[str, Handler] = field(default_factory=dict)
    """Handlers of single pages, by address."""

    def create_run(self, urls: Sequence[str]) -> int:
        return tasks.create_run(self.fleet.database, "test", self.pool.id, [parse_target(url) for url in urls])

    def runner(self, run_id: int, **options: Any) -> Runner:
        async def handle(session: AsyncSession, task: Task) -> Mapping[str, Any]:
            return await self.handlers.get(task.url, read_heading)(session, task)

        values: dict[str, Any] = {"profile_wait": 20.0, "task_timeout": 20.0, "upkeep_every": 0.2, **options}
        return Runner(self.fleet, self.pool, run_id, handle, RunnerOptions(**values))

    def work(self, urls: Sequence[str], *, seconds: float = 90.0, **options: Any) -> dict[str, Any]:
        """Run over pages until all is done; returns the tasks by address."""
        run_id = self.create_run(urls)
        asyncio.run(asyncio.wait_for(self.runner(run_id, **options).run(), seconds))
        return {row.url: row for row in self.tasks(run_id)}

    def rows(self, query: str, **parameters: Any) -> list[Any]:
        with self.fleet.database.connect() as connection:
            return list(connection.execute(text(query), parameters).all())

    def tasks(self, run_id: int) -> list[Any]:
        return self.rows("SELECT * FROM poolsql.tasks WHERE run_id = :run ORDER BY id", run=run_id)

    def visits(self, task: Any) -> list[Any]:
        return self.rows("SELECT * FROM poolsql.visits WHERE task_id = :id ORDER BY id", id=task.id)

    def leases(self) -> list[Any]:
        return self.rows("SELECT * FROM poolsql.leases WHERE pool_id = :pool", pool=self.pool.id)

    def forget_artifacts(self) -> None:
        """Remove what Playwright leaves when its process is killed."""
        for left in (self.directory / "tmp").glob("playwright-artifacts-*"):
            shutil.rmtree(left)

    def browsers(self) -> list[psutil.Process]:
        """Processes that mention the bench's directory."""
        return [process for process in psutil.process_iter() if str(self.directory) in _arguments(process)]


def _arguments(process: psutil.Process) -> str:
    try:
        return "" if process.pid == os.getpid() else " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.fixture
def new_bench(database_url: URL, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    """Makes a pool of real browsers: ``new_bench(profiles=2, url=…, **policy)``; nothing of it may be left after."""
    # A short path: Chromium's socket must fit in 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="poolsql-"))
    temporary = directory / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    benches: list[Bench] = []

    def make(*, profiles: int = 2, url: str | None = None, **policy: Any) -> Bench:
        address = url or database_url.render_as_string(hide_password=False)
        fleet = connect(address, data_dir=directory, machine="here")
        name = f"bench-{uuid4().hex[:8]}"
        fleet.define_launcher(name, resolver_rules=ONLY_LOCAL)
        pool = fleet.define_pool(name, **{"ttl": "10s", "renew": "2s", "max_lease": "2m", **policy})
        for number in range(profiles):
            pool.add_profile(f"profile-{number}", launcher=name)
        benches.append(Bench(fleet, pool, address, directory))
        return benches[-1]

    yield make
    for bench in benches:
        bench.fleet.close()
    left = [process for bench in benches for process in bench.browsers()]
    for process in left:
        process.kill()
    assert left == [], "browsers were left running"
    until(lambda: list(temporary.iterdir()) == [], seconds=5)
    shutil.rmtree(directory)


@pytest.fixture
def bench(new_bench: Callable[..., Bench]) -> Bench:
    """A pool of two real browsers."""
    return new_bench()
