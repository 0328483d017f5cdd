"""Two pools on Redis: the one of tutorials, and the best that Redis can do with the same duties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import redis

from benchmarks.clients import Cycle

LEASE_SECONDS = 3600

# KEYS: the free profiles by the time from which they are offered, the leases by the time of their end, the numbers
# of leases. ARGV: token, seconds.
TAKE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)
if #found == 0 then return false end
local profile = found[1]
local lease = redis.call('INCR', KEYS[3])
redis.call('ZREM', KEYS[1], profile)
redis.call('ZADD', KEYS[2], now + ARGV[2], profile)
redis.call('HSET', 'lease:' .. profile, 'id', lease, 'token', ARGV[1], 'since', now)
return {profile, lease}
"""

# KEYS: as above, then the history. ARGV: profile, token, outcome, seconds of rest.
GIVE_BACK = """
local name = 'lease:' .. ARGV[1]
local lease = redis.call('HMGET', name, 'id', 'token', 'since')
if lease[2] ~= ARGV[2] then return false end
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
redis.call('DEL', name)
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZADD', KEYS[1], now + ARGV[4], ARGV[1])
redis.call('XADD', KEYS[4], '*', 'lease', lease[1], 'profile', ARGV[1], 'outcome', ARGV[3], 'since', lease[3])
return lease[1]
"""

KEYS = ("free", "leased", "leases", "history")


def fill_tutorial(socket: str, *, profiles: int, busy: int) -> None:
    """Lease the first so many: where everybody looks from the front, that is where those in use are."""
    with redis.Redis(unix_socket_path=socket) as client:
        client.flushall()
        with client.pipeline(transaction=False) as many:
            for number in range(min(busy, profiles)):
                many.set(f"lease:{number}", "somebody", ex=LEASE_SECONDS)
            many.execute()


@contextmanager
def tutorial(socket: str, profiles: int) -> Iterator[Cycle]:
    """For each profile: does it cool down, and if not, can it be locked? Given back by deleting the lock."""
    names = [(f"cooldown:{number}", f"lease:{number}") for number in range(profiles)]
    with redis.Redis(unix_socket_path=socket) as client:

        def cycle() -> None:
            for cooldown, lease in names:
                if not client.exists(cooldown) and client.set(lease, "me", nx=True, ex=LEASE_SECONDS):
                    client.delete(lease)
                    return
            raise RuntimeError("the tutorial's pool has no profile left")

        yield cycle


def fill_ideal(socket: str, *, profiles: int, busy: int) -> None:
    """Offer the profiles that are not busy; lease the others to somebody else."""
    with redis.Redis(unix_socket_path=socket) as client:
        client.flushall()
        with client.pipeline(transaction=False) as many:
            for number in range(profiles):
                if number < busy:
                    many.zadd("leased", {str(number): 2e9 + LEASE_SECONDS})
                    many.hset(f"lease:{number}", mapping={"id": -number, "token": "somebody", "since": 0})
                else:
                    many.zadd("free", {str(number): number})
            many.execute()


@contextmanager
def ideal(socket: str) -> Iterator[Cycle]:
    """One round trip each; the longest available first, guarded by a token, with a history."""
    with redis.Redis(unix_socket_path=socket) as client:
        take, give_back = client.register_script(TAKE), client.register_script(GIVE_BACK)

        def cycle() -> None:
            token = str(uuid4())
            profile, lease = take(keys=KEYS, args=[token, LEASE_SECONDS])
            ended = give_back(keys=KEYS, args=[profile, token, "success", 0])
            if int(ended) != lease:
                raise RuntimeError(f"lease {lease} could not be given back")

        yield cycle
