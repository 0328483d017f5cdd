"""What a worker costs that only keeps what it has: renewals, and idleness."""

from __future__ import annotations

import multiprocessing
import re
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, cast

from sqlalchemy import text
from sqlalchemy.pool import QueuePool

from benchmarks.fleets import address, filled_pool
from benchmarks.report import AtMost, Case
from benchmarks.rounds import Figures, take_turns
from poolsql import Fleet, connect
from poolsql.database.addresses import database_address
from poolsql.leasing.reports import renew

PROFILES = 20_000
LEASES = 100

IDLE_SECONDS = 60.0
SETTLES = 8.0
"""Seconds until a worker that does nothing any more has ended its threads."""

NAME = "poolsql-idle"
"""By which the server knows the connections of the worker that does nothing."""


def leases(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """A worker with 100 leases."""
    yield measure_leases(fleet, profiles=PROFILES, leases=LEASES, rounds=rounds, seconds=seconds)


def idle(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """A worker that has nothing to do."""
    yield measure_idle(fleet, idle_seconds=IDLE_SECONDS, settles=SETTLES)


def measure_leases(fleet: Fleet, *, profiles: int, leases: int, rounds: int, seconds: float) -> Case:
    """The median time of one renewal of all leases of a worker, as its keeper does it."""
    pool = filled_pool(fleet, profiles=profiles, busy=profiles // 2)
    with connect(address(fleet), machine="here") as borrower:
        held = borrower.pool(pool.name).checkout_many(leases)
        names = [lease.name for lease in held]

        def renewal_ms() -> float:
            taken = []
            ends_at = time.perf_counter() + seconds
            while (began := time.perf_counter()) < ends_at:
                renewed = renew(borrower.database, borrower.worker, names, patience=0)
                taken.append(time.perf_counter() - began)
                if len(renewed) != leases:
                    raise RuntimeError(f"{len(renewed)} of {leases} leases were renewed")
            return 1000 * median(taken)

        figures = take_turns({"poolsql": renewal_ms}, rounds=rounds)
        for lease in held:
            lease.release()
    return Case(
        name="renew.leases",
        given={"profiles": profiles, "busy": profiles // 2, "clients": 1, "leases": leases},
        unit="ms",
        figures=figures,
        limits=(AtMost("poolsql", 3.0),),
    )


def measure_idle(fleet: Fleet, *, idle_seconds: float, settles: float) -> Case:
    """A process that has borrowed once: its connections beside those of its pool, and its statements.

    The server itself writes down every statement of that process, so none is missed; once in all, since a round takes
    a minute and tells a whole number.
    """
    pool = filled_pool(fleet, profiles=20, busy=0)
    url = database_address(address(fleet)).update_query_dict(
        {"application_name": NAME, "options": "-clog_statement=all"}
    )
    spawn = multiprocessing.get_context("spawn")
    pooled, ends = spawn.Queue(), spawn.Event()
    asked = (url.render_as_string(hide_password=False), pool.name, settles)
    idler = spawn.Process(target=_idle, args=(*asked, pooled, ends))
    idler.start()
    try:
        kept = pooled.get(timeout=settles + 60)
        backends = _backends(fleet)
        before = _statements(fleet, backends)
        if not before:
            raise RuntimeError("the server's log tells of no statement, not even of those that borrowed")
        time.sleep(idle_seconds)
        made = _statements(fleet, backends) - before
        connections = len(backends | _backends(fleet)) - kept
    finally:
        ends.set()
        idler.join(timeout=30)
        if idler.is_alive():
            idler.kill()
    figures = {"extra_connections": connections, "statements_per_10_s": 10 * made / idle_seconds}
    return Case(
        name="renew.idle",
        given={"profiles": 20, "busy": 0, "clients": 1, "idle_seconds": idle_seconds},
        unit="",
        figures={name: Figures((float(value),)) for name, value in figures.items()},
        limits=(AtMost("extra_connections", 1), AtMost("statements_per_10_s", 1)),
    )


def _idle(url: str, pool: str, settles: float, pooled: Any, ends: Any) -> None:
    with connect(url, machine="here") as fleet:
        fleet.pool(pool).checkout().release()
        time.sleep(settles)
        pooled.put(cast("QueuePool", fleet.database.engine.pool).checkedin())
        ends.wait()


def _backends(fleet: Fleet) -> set[int]:
    with fleet.database.connect() as connection:
        found = connection.execute(
            text("SELECT pid FROM pg_stat_activity WHERE application_name = :name"), {"name": NAME}
        )
        return set(found.scalars())


def _statements(fleet: Fleet, backends: set[int]) -> int:
    """How many statements the server's log tells of these processes of its."""
    with fleet.database.connect() as connection:
        log = Path(connection.execute(text("SHOW data_directory")).scalar_one()).parent / "server.log"
    ours = re.compile(rf"\[({'|'.join(map(str, backends))})\] LOG:  (statement|execute)")
    return sum(1 for line in log.read_text(encoding="utf-8").splitlines() if ours.search(line))
