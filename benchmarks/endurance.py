"""Whether checkout stays as fast as it was: after many cycles, and while a long transaction keeps all dead rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from benchmarks.checkout import api
from benchmarks.clients import cycles_per_second, rate_of
from benchmarks.fleets import address, filled_pool, fresh_fleet
from benchmarks.report import Case, Goal
from benchmarks.rounds import take_turns
from benchmarks.upkeep import upkeep
from poolsql import Fleet
from poolsql.database.addresses import database_address

CLIENTS = 8
PROFILES = 20_000

CYCLES = 100_000
"""By default; a million take a quarter of an hour."""
FIRST = 10_000
"""How many are the first ones, with which the last ones are compared."""

HELD_SECONDS = 60.0


def cycles(fleet: Fleet, *, rounds: int, seconds: float, cycles: int = CYCLES) -> Iterator[Case]:
    """A fleet after so many cycles, and a new one in its first ones."""
    yield measure_cycles(
        fleet, profiles=PROFILES, clients=CLIENTS, rounds=rounds, seconds=seconds, cycles=cycles, first=FIRST
    )


def snapshot(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """Another connection's open transaction of a minute."""
    yield measure_snapshot(
        fleet, profiles=PROFILES, clients=CLIENTS, rounds=rounds, seconds=seconds, held_seconds=HELD_SECONDS
    )


def measure_cycles(
    fleet: Fleet, *, profiles: int, clients: int, rounds: int, seconds: float, cycles: int, first: int
) -> Case:
    """Wear a fleet; then it and new ones take turns, so that both meet the same machine."""
    worn = filled_pool(fleet, profiles=profiles, busy=profiles // 2)
    print(f"\r{cycles:,} cycles first", end="", file=sys.stderr, flush=True)  # noqa: T201

    def first_ones() -> float:
        with fresh_fleet() as new, upkeep(new):
            pool = filled_pool(new, profiles=profiles, busy=profiles // 2)
            return rate_of(first, api, (address(new), pool.name), clients=clients)

    with upkeep(fleet):
        rate_of(cycles, api, (address(fleet), worn.name), clients=clients)
        figures = take_turns(
            {
                "poolsql": lambda: cycles_per_second(
                    api, (address(fleet), worn.name), clients=clients, seconds=seconds
                ),
                "first_cycles": first_ones,
            },
            rounds=rounds,
        )
    return Case(
        name="flat.cycles",
        given={"profiles": profiles, "busy": profiles // 2, "clients": clients, "cycles": cycles},
        unit="per_s",
        figures=figures,
        goals=(Goal("poolsql", "first_cycles", 0.85),),
    )


def measure_snapshot(
    fleet: Fleet, *, profiles: int, clients: int, rounds: int, seconds: float, held_seconds: float
) -> Case:
    """The mean rate of the whole time for which a snapshot is held, and that without one."""
    pool = filled_pool(fleet, profiles=profiles, busy=profiles // 2)
    url = address(fleet)
    with upkeep(fleet) as housekeeping:

        def held() -> float:
            with _held_snapshot(url):
                rate = cycles_per_second(api, (url, pool.name), clients=clients, seconds=held_seconds)
            # What the snapshot has kept goes before the other's turn.
            housekeeping.run_once()
            return rate

        figures = take_turns(
            {
                "poolsql": held,
                "no_snapshot": lambda: cycles_per_second(api, (url, pool.name), clients=clients, seconds=seconds),
            },
            rounds=rounds,
        )
    return Case(
        name="flat.snapshot",
        given={"profiles": profiles, "busy": profiles // 2, "clients": clients, "held_seconds": held_seconds},
        unit="per_s",
        figures=figures,
        goals=(Goal("poolsql", "no_snapshot", 0.4),),
    )


@contextmanager
def _held_snapshot(url: str) -> Iterator[None]:
    """An open transaction that has looked at something, as a report or a forgotten console leaves one."""
    plain = database_address(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT FROM poolsql.profiles LIMIT 1")
        yield
