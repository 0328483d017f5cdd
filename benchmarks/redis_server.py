"""A Redis of our own, on a socket in a directory of its own."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

# Below the path of a socket, which is short.
DIRECTORY = "/tmp"  # noqa: S108 - holds a directory with a random name

START_SECONDS = 10.0

DURABLE = {"appendonly": "yes", "appendfsync": "always"}
FLEETING = {"appendonly": "no"}


def redis_program() -> str | None:
    """Where Redis is, if it is here."""
    return shutil.which("redis-server")


@contextmanager
def fresh_redis(*, durable: bool) -> Iterator[str]:
    """A Redis with nothing in it; the path of its socket.

    Args:
        durable: Whether an answer means that it is on the disk, as it does with Postgres.

    Raises:
        RuntimeError: There is no Redis here, it does not start, or it is not as durable as it was told to be.
    """
    program = redis_program()
    if program is None:
        raise RuntimeError("there is no redis-server here; on Debian, as root: apt-get install redis-server")
    wanted = DURABLE if durable else FLEETING
    with tempfile.TemporaryDirectory(prefix="redis-", dir=DIRECTORY) as place:
        socket, log = Path(place) / "socket", Path(place) / "log"
        options = {"port": "0", "unixsocket": str(socket), "dir": place, "logfile": str(log), "save": "", **wanted}
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        server = subprocess.Popen([program, *arguments], stdin=subprocess.DEVNULL)  # noqa: S603 - found by its name
        try:
            with redis.Redis(unix_socket_path=str(socket), decode_responses=True) as client:
                _wait_until_ready(client, log)
                _check(client, wanted)
            yield str(socket)
        finally:
            server.terminate()
            server.wait(timeout=START_SECONDS)


def _wait_until_ready(client: redis.Redis, log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with suppress(redis.ConnectionError):
            client.ping()
            return
        time.sleep(0.02)
    told = log.read_text(encoding="utf-8") if log.exists() else "nothing"
    raise RuntimeError(f"redis-server does not answer after {START_SECONDS:g} s; it said: {told[-1000:]}")


def _check(client: redis.Redis, wanted: dict[str, str]) -> None:
    for name, value in wanted.items():
        found = client.config_get(name)
        if found != {name: value}:
            raise RuntimeError(f"Redis was started with {name} {value}, and has {found}")
