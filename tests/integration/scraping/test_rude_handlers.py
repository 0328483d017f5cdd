"""Handlers that raise what nobody expects, or do not end when they are cut off: each is an outcome of its task."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from poolsql.fleet.session import AsyncSession
from poolsql.scraping import visiting
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.tasks import Task
from tests.integration.scraping.conftest import Bench
from tests.sites.hostile import HostileSite


class _MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.fixture
def site() -> Iterator[HostileSite]:
    with HostileSite() as running:
        yield running


def raising(error: BaseException) -> Any:
    async def handle(_: AsyncSession, __: Task) -> Mapping[str, Any]:
        raise error

    return handle


async def cancels_itself(_: AsyncSession, __: Task) -> Mapping[str, Any]:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)
    return {}


async def swallows_its_end(_: AsyncSession, __: Task) -> Mapping[str, Any]:
    for _round in range(60):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
    return {}


def test_each_is_one_try_of_its_task(bench: Bench, site: HostileSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visiting, "CUT_OFF_WITHIN", 0.5)
    handlers = {
        "keyboard": raising(KeyboardInterrupt()),
        "exit": raising(SystemExit(3)),
        "generator": raising(GeneratorExit()),
        "cancelled": raising(asyncio.CancelledError()),
        "group": raising(BaseExceptionGroup("two", [KeyboardInterrupt(), ValueError()])),
        "mute": raising(_MuteError()),
        "cancels": cancels_itself,
        "swallows": swallows_its_end,
    }
    urls = {name: site.at(f"/?{name}") for name in handlers}
    for name, handler in handlers.items():
        bench.handlers[urls[name]] = handler
    good = site.at("/?good")
    rows = bench.work([*urls.values(), good], task_timeout=3.0, concurrency=2, retries=RetryPolicy(retries=0))
    assert rows[good].state == "done", "the worker goes on"
    for name, url in urls.items():
        row = rows[url]
        assert (row.state, row.tries) == ("failed", 1), name
        expected = {"swallows": "task_timeout", "cancelled": "cancelled"}.get(name, "task_failed")
        assert row.outcome == expected, name
        (seen,) = bench.visits(row)
        assert seen.outcome == row.outcome
