"""Moving on many leases that expired at once, while others go on borrowing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

from sqlalchemy import text

from benchmarks.checkout import api
from benchmarks.clients import cycles_per_second, rate_during
from benchmarks.fleets import BUSY, address, filled_pool, in_bulk
from benchmarks.report import AtMost, Case, Goal
from benchmarks.rounds import Figures, take_turns
from benchmarks.upkeep import upkeep
from poolsql import Fleet

CLIENTS = 8
PROFILES = 20_000
EXPIRED = 100_000

EXPIRE = "UPDATE poolsql.leases SET expires_at = clock_timestamp() WHERE pool_id = :pool"


def run(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """One case: 100,000 leases."""
    yield measure(fleet, expired=EXPIRED, profiles=PROFILES, clients=CLIENTS, rounds=rounds, seconds=seconds)


def measure(fleet: Fleet, *, expired: int, profiles: int, clients: int, rounds: int, seconds: float) -> Case:
    """Checkouts of one pool, alone and while a reaper moves on the leases of another one."""
    pool = filled_pool(fleet, profiles=profiles, busy=profiles // 2)
    lost = filled_pool(fleet, profiles=expired, busy=0)
    client = (api, (address(fleet), pool.name))

    def reaping() -> float:
        with in_bulk(fleet) as connection:
            connection.execute(text(BUSY), {"pool": lost.id, "busy": expired, "worker": uuid4()})
            connection.execute(text(EXPIRE), {"pool": lost.id})
        return rate_during(reap, *client, clients=clients)

    def reap() -> None:
        began = time.perf_counter()
        moved = fleet.reap().expired
        took.append(time.perf_counter() - began)
        if moved < expired:
            raise RuntimeError(f"the reaper moved {moved} leases on, not {expired}")

    took: list[float] = []
    with upkeep(fleet):
        figures = take_turns(
            {
                "poolsql_per_s": reaping,
                "usual_per_s": lambda: cycles_per_second(*client, clients=clients, seconds=seconds),
            },
            rounds=rounds,
        )
    return Case(
        name="reap",
        given={"profiles": profiles, "busy": profiles // 2, "clients": clients, "expired": expired},
        unit="",
        # The first one is that of the round that does not count.
        figures={**figures, "reap_s": Figures(tuple(took[1:]))},
        goals=(Goal("poolsql_per_s", "usual_per_s", 0.5),),
        limits=(AtMost("reap_s", 30.0),),
    )
