"""A process that uses an embedded server: `client.py DIRECTORY USER MODE`, told what to do by lines on its input.

USER is a user id to become, or `-`. With the mode `hold` it prints the address, waits for a line and closes; with
`leave` it ends without closing; with `fork` it forks, prints the child's id, waits for a line, closes, and kills the
child after another line. With a number it opens, queries and closes that many times. An error of poolsql's is
printed as its class and message.
"""

from __future__ import annotations

import contextlib
import fcntl  # noqa: F401  # loaded while it can be
import os
import signal
import sys
from pathlib import Path

import psycopg

from poolsql.database.embedded import EmbeddedServer, open_embedded_server
from poolsql.errors import PoolsqlError


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def become(user: str) -> None:
    # What psycopg loads on its first connection: the interpreter may be out of the other user's reach.
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect("host=/nowhere")
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))


def main(directory: Path, mode: str) -> None:
    if mode.isdecimal():
        for _ in range(int(mode)):
            with open_embedded_server(directory) as server, psycopg.connect(server.url) as session:
                session.execute("SELECT 1")
        say("done")
        return
    server = open_embedded_server(directory)
    say(server.url)
    sys.stdin.readline()
    if mode == "hold":
        server.close()
    if mode == "fork":
        close_before_child(server)


def close_before_child(server: EmbeddedServer) -> None:
    child = os.fork()
    if child == 0:
        server.close()  # not the child's to close
        signal.pause()
    say(str(child))
    sys.stdin.readline()
    server.close()
    say("closed")
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


if sys.argv[2] != "-":
    become(sys.argv[2])
try:
    main(Path(sys.argv[1]), sys.argv[3])
except PoolsqlError as error:
    say(f"{type(error).__name__}: {error}")
