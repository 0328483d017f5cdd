"""Whether checkout stays as fast as it is in a small pool: whatever the pool's size, and whatever most of it does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from sqlalchemy import text

from benchmarks.checkout import api
from benchmarks.clients import Cycle, cycles_per_second
from benchmarks.fleets import address, filled_pool, fresh_fleet, in_bulk
from benchmarks.report import AtMost, Case, Goal
from benchmarks.rounds import take_turns
from benchmarks.upkeep import upkeep
from poolsql import Fleet, Pool, connect

CLIENTS = 8

HOST = "shop.test"
RARE = "rare"

COOL = """
UPDATE poolsql.profiles SET available_at = clock_timestamp() + interval '1 day', waits_for = 'cooldown'
WHERE pool_id = :pool AND id % 100 < :percent
"""

TAG = """
WITH tagged AS (
    UPDATE poolsql.profiles
    SET tags = CASE WHEN id % :one_in = 0 THEN ARRAY['common', :rare] ELSE ARRAY['common'] END
    WHERE pool_id = :pool
    RETURNING id, tags
)
INSERT INTO poolsql.profile_tags (tag, profile_id) SELECT unnest(tagged.tags), tagged.id FROM tagged
"""

# Those that a checkout would take first: it has to pass over all of them.
COOL_ON_HOST = """
INSERT INTO poolsql.cooldowns (profile_id, host, until, in_a_row, outcome, set_at)
SELECT id, :host, clock_timestamp() + interval '1 day', 1, 'blocked', clock_timestamp()
FROM (
    SELECT id FROM poolsql.profiles WHERE pool_id = :pool AND available_at IS NOT NULL
    ORDER BY available_at LIMIT :number
) AS first
"""


def sizes(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """A million profiles, half of them busy, and twenty."""
    yield measure_sizes(fleet, profiles=1_000_000, clients=CLIENTS, rounds=rounds, seconds=seconds)


def cooling(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """Nine of ten profiles wait for the end of a cooldown."""
    yield measure_cooling(fleet, profiles=100_000, clients=CLIENTS, rounds=rounds, seconds=seconds)


def tags(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """A tag that one profile in a thousand carries."""
    yield measure_tags(fleet, profiles=100_000, one_in=1_000, clients=CLIENTS, rounds=rounds, seconds=seconds)


def hosts(fleet: Fleet, *, rounds: int, seconds: float) -> Iterator[Case]:
    """The profiles that come first cool on the site that is asked for."""
    yield measure_hosts(fleet, profiles=20_000, on_host=5_000, rounds=rounds, seconds=seconds)


def measure_sizes(fleet: Fleet, *, profiles: int, clients: int, rounds: int, seconds: float) -> Case:
    """A large pool and a small one, each on a server of its own: the small one shares no index with the large one."""
    with fresh_fleet() as other, upkeep(fleet), upkeep(other):
        large = filled_pool(fleet, profiles=profiles, busy=profiles // 2)
        small = filled_pool(other, profiles=20, busy=10)
        figures = take_turns(
            {
                "poolsql": lambda: cycles_per_second(
                    api, (address(fleet), large.name), clients=clients, seconds=seconds
                ),
                "small_pool": lambda: cycles_per_second(
                    api, (address(other), small.name), clients=clients, seconds=seconds
                ),
            },
            rounds=rounds,
        )
    return Case(
        name="flat.sizes",
        given={"profiles": profiles, "busy": profiles // 2, "clients": clients},
        unit="per_s",
        figures=figures,
        goals=(Goal("poolsql", "small_pool", 0.7),),
    )


def measure_cooling(fleet: Fleet, *, profiles: int, clients: int, rounds: int, seconds: float) -> Case:
    """Two pools of one size; nine of ten of the one's profiles are cooling."""
    cool, warm = (filled_pool(fleet, profiles=profiles, busy=0) for _ in range(2))
    with in_bulk(fleet) as connection:
        connection.execute(text(COOL), {"pool": cool.id, "percent": 90})
    url = address(fleet)
    with upkeep(fleet):
        figures = take_turns(
            {
                "poolsql": lambda: cycles_per_second(api, (url, cool.name), clients=clients, seconds=seconds),
                "none_cooling": lambda: cycles_per_second(api, (url, warm.name), clients=clients, seconds=seconds),
            },
            rounds=rounds,
        )
    return Case(
        name="flat.cooling",
        given={"profiles": profiles, "busy": 0, "cooling": profiles * 9 // 10, "clients": clients},
        unit="per_s",
        figures=figures,
        goals=(Goal("poolsql", "none_cooling", 0.8),),
    )


def measure_tags(fleet: Fleet, *, profiles: int, one_in: int, clients: int, rounds: int, seconds: float) -> Case:
    """One pool, with and without asking for a tag that few of its profiles carry."""
    pool = filled_pool(fleet, profiles=profiles, busy=0)
    with in_bulk(fleet) as connection:
        connection.execute(text(TAG), {"pool": pool.id, "one_in": one_in, "rare": RARE})
    url = address(fleet)
    with upkeep(fleet):
        figures = take_turns(
            {
                "poolsql": lambda: cycles_per_second(tagged, (url, pool.name), clients=clients, seconds=seconds),
                "no_tag": lambda: cycles_per_second(api, (url, pool.name), clients=clients, seconds=seconds),
            },
            rounds=rounds,
        )
    return Case(
        name="flat.tags",
        given={"profiles": profiles, "busy": 0, "tagged": profiles // one_in, "clients": clients},
        unit="per_s",
        figures=figures,
        goals=(Goal("poolsql", "no_tag", 0.3),),
    )


def measure_hosts(fleet: Fleet, *, profiles: int, on_host: int, rounds: int, seconds: float) -> Case:
    """How long one checkout takes (the median of a round) that passes over many profiles, and one that need not.

    In two pools: a checkout that names no host takes those that are passed over, and puts them last.
    """
    pool, other = (filled_pool(fleet, profiles=profiles, busy=0) for _ in range(2))
    with in_bulk(fleet) as connection:
        connection.execute(text(COOL_ON_HOST), {"pool": pool.id, "host": HOST, "number": on_host})
    with upkeep(fleet), connect(address(fleet), machine="here") as borrower:
        shop, plain = borrower.pool(pool.name), borrower.pool(other.name)
        figures = take_turns(
            {
                "poolsql": lambda: _checkout_ms(shop, host=HOST, seconds=seconds),
                "no_host": lambda: _checkout_ms(plain, host=None, seconds=seconds),
            },
            rounds=rounds,
        )
    return Case(
        name="flat.hosts",
        given={"profiles": profiles, "busy": 0, "cooling_on_host": on_host, "clients": 1},
        unit="ms",
        figures=figures,
        limits=(AtMost("poolsql", 10.0),),
    )


@contextmanager
def tagged(url: str, pool: str) -> Iterator[Cycle]:
    """The public API, asked for the rare tag."""
    with connect(url, machine="here") as fleet:
        shop = fleet.pool(pool)
        yield lambda: shop.checkout(tags=[RARE]).release()


def _checkout_ms(shop: Pool, *, host: str | None, seconds: float) -> float:
    taken = []
    ends_at = time.perf_counter() + seconds
    while (began := time.perf_counter()) < ends_at:
        lease = shop.checkout(host=host)
        taken.append(time.perf_counter() - began)
        lease.release()
    return 1000 * median(taken)
