"""Checkout and release: the public API, the same SQL without it, and pools on Redis."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from benchmarks.clients import Cycle, cycles_per_second
from benchmarks.fleets import address, filled_pool
from benchmarks.pgbench import pgbench
from benchmarks.report import Case, Goal
from benchmarks.rounds import take_turns
from benchmarks.upkeep import upkeep
from poolsql import Fleet, connect
from poolsql.database.addresses import database_address
from poolsql.database.sessions import connection_arguments
from poolsql.errors import NoProfileAvailableError
from poolsql.leasing.checkout import CHECKOUT, Request
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reports import PLAIN_SUCCESS, LeaseName, release_parameters
from poolsql.leasing.worker import Worker
from poolsql.settings import load_settings

SIZES = ((20, 10), (200, 100), (2_000, 1_000), (20_000, 10_000))
CLIENTS = 8
GOALS: Mapping[int, tuple[Goal, ...]] = {
    20: (Goal("poolsql", "tutorial_redis", 1.7),),
    200: (Goal("poolsql", "tutorial_redis", 12),),
    2_000: (Goal("poolsql", "tutorial_redis", 130),),
    20_000: (
        Goal("poolsql", "raw_psycopg", 0.85),
        Goal("poolsql", "pgbench", 0.6),
        Goal("poolsql", "ideal_redis", 0.3),
    ),
}
"""By the number of profiles, for `CLIENTS`."""


def run(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """One case for each size of the pool."""
    for profiles, busy in SIZES:
        yield measure(fleet, profiles=profiles, busy=busy, clients=CLIENTS, rounds=rounds, seconds=seconds)
    yield measure(fleet, profiles=20, busy=0, clients=1, rounds=rounds, seconds=seconds)


def measure(fleet: Fleet, *, profiles: int, busy: int, clients: int, rounds: int, seconds: float) -> Case:
    """All contenders on one pool, which a daemon's housekeeping keeps up meanwhile."""
    pool = filled_pool(fleet, profiles=profiles, busy=busy)
    url = address(fleet)
    contenders: dict[str, Callable[[], float]] = {
        "poolsql": lambda: cycles_per_second(api, (url, pool.name), clients=clients, seconds=seconds),
        "raw_psycopg": lambda: cycles_per_second(raw, (url, pool.id), clients=clients, seconds=seconds),
        "pgbench": lambda: pgbench(url, pool.id, clients=clients, seconds=seconds),
    }
    with ExitStack() as servers, upkeep(fleet):
        if redis_is_here():
            contenders |= _on_redis(servers, profiles=profiles, busy=busy, clients=clients, seconds=seconds)
        figures = take_turns(contenders, rounds=rounds)
    return Case(
        name="checkout",
        given={"profiles": profiles, "busy": busy, "clients": clients},
        unit="per_s",
        figures=figures,
        goals=tuple(goal for goal in GOALS.get(profiles, ()) if goal.to in figures) if clients == CLIENTS else (),
    )


def redis_is_here() -> bool:
    """Whether both the server and the client of Redis are installed; if not, says what is missing."""
    missing = []
    if find_spec("redis") is None:
        missing.append("its Python client (pip install redis)")
    else:
        from benchmarks.redis_server import redis_program  # noqa: PLC0415 - needs the client, which may be missing

        if redis_program() is None:
            missing.append("redis-server (on Debian, as root: apt-get install redis-server)")
    if missing:
        print(f"Redis is left out; for it install {' and '.join(missing)}", file=sys.stderr)  # noqa: T201
    return not missing


def _on_redis(
    servers: ExitStack, *, profiles: int, busy: int, clients: int, seconds: float
) -> dict[str, Callable[[], float]]:
    from benchmarks import redis_pools, redis_server  # noqa: PLC0415 - need the client, which may be missing

    fleeting = servers.enter_context(redis_server.fresh_redis(durable=False))
    durable = servers.enter_context(redis_server.fresh_redis(durable=True))
    redis_pools.fill_tutorial(fleeting, profiles=profiles, busy=busy)
    redis_pools.fill_ideal(durable, profiles=profiles, busy=busy)
    tutorial = (redis_pools.tutorial, (fleeting, profiles))
    ideal = (redis_pools.ideal, (durable,))
    return {
        "tutorial_redis": lambda: cycles_per_second(*tutorial, clients=clients, seconds=seconds),
        "ideal_redis": lambda: cycles_per_second(*ideal, clients=clients, seconds=seconds),
    }


@contextmanager
def api(url: str, pool: str) -> Iterator[Cycle]:
    """The public API."""
    with connect(url, machine="here") as fleet:
        shop = fleet.pool(pool)

        def cycle() -> None:
            lease = None
            while lease is None:
                # With almost as many clients as free profiles, all that a checkout saw may be gone when it gets there.
                with suppress(NoProfileAvailableError):
                    lease = shop.checkout()
            lease.release()

        yield cycle


@contextmanager
def raw(url: str, pool_id: int) -> Iterator[Cycle]:
    """The same texts and parameters on a plain connection, by the quickest cursor that psycopg has."""
    worker = Worker(machine="here", pid=1, process_started="", version="")
    given = database_address(url)
    plain = given.set(drivername="postgresql").render_as_string(hide_password=False)
    arguments = connection_arguments(given, load_settings())
    with (
        psycopg.connect(plain, autocommit=True, **arguments) as connection,
        psycopg.RawCursor(connection, row_factory=namedtuple_row) as cursor,
    ):

        def cycle() -> None:
            row: Any = None
            while row is None:
                cursor.execute(CHECKOUT.numbered, CHECKOUT.in_order(Request(pool_id=pool_id).parameters(worker)))
                row = cursor.fetchone()
            name = LeaseName(row.lease_id, row.token)
            cursor.execute(
                PLAIN_SUCCESS.numbered, PLAIN_SUCCESS.in_order(release_parameters(name, outcome=Outcome.SUCCESS))
            )
            (_,) = cursor.fetchall()

        yield cycle
