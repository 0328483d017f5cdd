"""That each benchmark runs and tells what it should. How fast anything was is no test's business."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from sqlalchemy import text

from benchmarks import checkout, handover
from benchmarks.fleets import filled_pool, fresh_fleet
from benchmarks.report import Case
from poolsql import Fleet


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with fresh_fleet() as opened:
        yield opened


def as_told(case: Case) -> Mapping[str, object]:
    """What a program reads of a case."""
    told = json.loads(json.dumps(case.as_json()))
    assert isinstance(told, dict)
    assert all(isinstance(value, int | float) and value >= 0 for name, value in told.items() if name != "benchmark")
    return told


def test_checkout_tells_what_each_contender_does(fleet: Fleet) -> None:
    told = as_told(checkout.measure(fleet, profiles=20, busy=10, clients=1, rounds=1, seconds=0.2))
    contenders = {"poolsql_per_s", "raw_psycopg_per_s", "pgbench_per_s"}
    if checkout.redis_is_here():
        contenders |= {"tutorial_redis_per_s", "ideal_redis_per_s"}
    assert set(told) == {"benchmark", "profiles", "busy", "clients", *contenders}
    assert (told["benchmark"], told["profiles"], told["busy"], told["clients"]) == ("checkout", 20, 10, 1)
    assert all(told[name] for name in contenders)


def test_handover_tells_how_long_it_takes_and_who_is_overtaken(fleet: Fleet) -> None:
    told = as_told(handover.measure(fleet, rounds=1, seconds=0.5, processes=1, threads=30))
    figures = {"handover_p50_ms", "handover_p99_ms", "overtaken_percent", "longest_to_mean"}
    assert set(told) == {"benchmark", "profiles", "waiters", "clients", *figures}
    assert told["waiters"] == 30


def test_a_filled_pool_has_what_was_asked_for(fleet: Fleet) -> None:
    status = filled_pool(fleet, profiles=30, busy=10).status()
    assert (status.available, status.counts["leased"]) == (20, 10)


def test_a_fresh_fleet_is_durable_and_leaves_nothing() -> None:
    with fresh_fleet() as opened, opened.database.connect() as connection:
        durable = [connection.execute(text(f"SHOW {name}")).scalar_one() for name in ("fsync", "synchronous_commit")]
        data = Path(connection.execute(text("SHOW data_directory")).scalar_one())
        assert data.exists()
    assert durable == ["on", "on"]
    assert not data.parent.exists()
