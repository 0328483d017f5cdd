"""That each benchmark runs and tells what it should. How fast anything was is no test's business."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from benchmarks import checkout, crash, endurance, flat, handover, reap, renew
from benchmarks.__main__ import BENCHMARKS, named
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
    numbers = {name: value for name, value in told.items() if name not in {"benchmark", "ratios"}}
    assert all(isinstance(value, int | float) and value >= 0 for value in numbers.values())
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


SMALL: Mapping[str, Any] = {"clients": 1, "rounds": 1, "seconds": 0.2}

FLAT: Mapping[str, tuple[Callable[..., Case], Mapping[str, Any], set[str]]] = {
    "flat.sizes": (flat.measure_sizes, {"profiles": 100}, {"poolsql_per_s", "small_pool_per_s"}),
    "flat.cooling": (flat.measure_cooling, {"profiles": 100}, {"poolsql_per_s", "none_cooling_per_s"}),
    "flat.tags": (flat.measure_tags, {"profiles": 100, "one_in": 10}, {"poolsql_per_s", "no_tag_per_s"}),
    "flat.cycles": (
        endurance.measure_cycles,
        {"profiles": 100, "cycles": 50, "first": 20},
        {"poolsql_per_s", "first_cycles_per_s"},
    ),
    "flat.snapshot": (
        endurance.measure_snapshot,
        {"profiles": 100, "held_seconds": 0.3},
        {"poolsql_per_s", "no_snapshot_per_s"},
    ),
    "reap": (reap.measure, {"profiles": 100, "expired": 600}, {"poolsql_per_s", "usual_per_s", "reap_s"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLAT)
def test_what_is_to_stay_flat_is_told_beside_what_it_is_measured_by(fleet: Fleet, name: str) -> None:
    measure, size, figures = FLAT[name]
    told = as_told(measure(fleet, **size, **SMALL))
    assert told["benchmark"] == name
    assert told.keys() >= {"profiles", "busy", "clients", "ratios", *figures}
    assert all(told[figure] for figure in figures)


def test_a_checkout_that_passes_over_others_is_timed(fleet: Fleet) -> None:
    told = as_told(flat.measure_hosts(fleet, profiles=100, on_host=40, rounds=1, seconds=0.2))
    assert (told["benchmark"], told["cooling_on_host"]) == ("flat.hosts", 40)
    assert told["poolsql_ms"]
    assert told["no_host_ms"]


def test_renewals_are_timed(fleet: Fleet) -> None:
    told = as_told(renew.measure_leases(fleet, profiles=40, leases=10, rounds=1, seconds=0.2))
    assert (told["benchmark"], told["leases"]) == ("renew.leases", 10)
    assert told["poolsql_ms"]


def test_what_an_idle_worker_says_and_keeps_open_is_counted(fleet: Fleet) -> None:
    told = as_told(renew.measure_idle(fleet, idle_seconds=1, settles=1))
    assert (told["extra_connections"], told["statements_per_10_s"]) == (1, 0)


def test_the_first_part_of_a_name_stands_for_all_that_begin_with_it() -> None:
    assert named("checkout") == ["checkout"]
    assert named("flat") == [name for name in BENCHMARKS if name.startswith("flat.")]
    assert named("flat.tags") == ["flat.tags"]
    assert named("fla") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "circumstances", [pytest.param(crash.TOGETHER, id="on one machine"), pytest.param(crash.APART, id="on two")]
)
def test_crash_tells_when_the_profiles_of_killed_workers_are_back(
    fleet: Fleet, circumstances: crash.Circumstances
) -> None:
    told = as_told(crash.measure(fleet, circumstances, kills=2, at_once=2, ttl=timedelta(seconds=20)))
    figures = {"back_p50_ms", "back_p99_ms", "back_longest_ms"}
    assert set(told) == {"benchmark", "machines", "profiles", "clients", "kills", *figures}
    assert (told["machines"], told["kills"]) == (circumstances.machines, 2)


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
