"""Presence: one direct connection for each worker, whose end tells others that the worker is gone.

It holds a session advisory lock, which the server frees within milliseconds when the process dies, and it listens for
leases that are handed to this worker's waiting checkouts. It sends nothing while nothing happens: its thread sleeps on
the socket. Nothing depends on it but speed (I8): without it leases expire by their TTL, and those who wait look
for themselves.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable
from uuid import UUID

import psycopg
from psycopg.rows import scalar_row
from sqlalchemy.engine import URL

from poolsql.clocks import elapsed_clock
from poolsql.database.addresses import libpq_parameters
from poolsql.database.engine import Database
from poolsql.database.poolers import Connector
from poolsql.database.sessions import keeps_its_session
from poolsql.database.statements import Statement
from poolsql.leasing.worker import Worker
from poolsql.settings import Settings

log = logging.getLogger(__name__)

PRESENCE_CLASS = 0x504F4F4D
"""First key of the locks that say that a worker lives; the second is the worker's ``lock_key``."""

PRESENT = Statement.load("poolsql.leasing", "present")

FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds before a connection that was lost is made anew; doubled from the first to the longest, which is well within
the grace after which a missing worker loses its leases (`absence.GRACE_SECONDS`)."""

FIRST_CONNECTION_SECONDS = 2.0
"""How long the first ticket of a worker waits for the connection that will tell it of its lease."""

CLOSE_SECONDS = 5.0
"""How long the thread is waited for at the end; it keeps no process alive."""

CHANNEL = "poolsql_"
"""Followed by the worker's ``lock_key``."""

# Set on the server's side: only those free the lock of a machine that vanished with its network, after 8 s either way:
# a notification that is not acknowledged for so long, or 4 s of silence and two questions, 2 s apart.
_SERVER_SIDE = {
    "tcp_user_timeout": "8s",
    "tcp_keepalives_idle": "4",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "2",
}


class Presence:
    """Says that a worker lives, from a thread of its own, until it is closed."""

    def __init__(self, url: URL, settings: Settings, worker: Worker, *, called: Callable[[UUID | None], None]) -> None:
        """Set it up; `start` begins it.

        Args:
            url: The direct address of the database: behind a transaction pooler presence is off, and says so.
            called: Told the request that a lease was handed to, or None when some may have been missed. From the
                thread; must return soon.
        """
        self._url = url
        self._connector = Connector(url, settings)
        self._worker = worker
        self._called = called
        self._waker, self._wakes = socket.socketpair()
        self._settled = threading.Event()
        self._listening = False
        self._closed = False
        self._socket: tuple[int, os.stat_result] | None = None
        self._thread = threading.Thread(target=self._run, name="poolsql-presence", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def listens(self) -> bool:
        """Whether this worker is told at once of a lease that is handed to it; waits for its first connection."""
        self._settled.wait(timeout=FIRST_CONNECTION_SECONDS)
        return self._listening

    def close(self) -> None:
        """End it: the lock is free when this returns, or the database is out of reach."""
        if self._waker.fileno() == -1:
            return  # closed before
        self._closed = True
        self._waker.send(b"\0")
        if self._thread.is_alive():
            self._thread.join(timeout=CLOSE_SECONDS)
        if not self._thread.is_alive():
            self._waker.close()
            self._wakes.close()

    def forget(self) -> None:
        """In a forked child: let go of the parent's connection, which would else outlive the parent in the child.

        It stays open in the parent, and nothing is sent.
        """
        if self._socket is None:
            return
        number, known = self._socket
        with contextlib.suppress(OSError):  # closed at the moment of the fork
            if os.path.samestat(os.fstat(number), known):
                # Replaced, not closed: libpq believes that the number is its own.
                nothing = os.open(os.devnull, os.O_RDWR)
                os.dup2(nothing, number, inheritable=False)
                os.close(nothing)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed:
            connected_at = elapsed_clock()
            try:
                with self._connector.connect(libpq_parameters(self._url), autocommit=True) as connection:
                    if hasattr(os, "fork"):  # elsewhere a socket is no file
                        self._socket = connection.pgconn.socket, os.fstat(connection.pgconn.socket)
                    if not self._take(connection):
                        return
                    self._listen(connection)
            except psycopg.Error as error:
                log.info("presence of worker %s: %s", self._worker.id, str(error).strip())
            except Exception:
                log.exception("presence of worker %s failed unexpectedly, trying again", self._worker.id)
            finally:
                self._socket = None
                self._listening = False
                self._settled.set()
            if elapsed_clock() - connected_at > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            self._sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)

    def _take(self, connection: psycopg.Connection[object]) -> bool:
        """Take the lock and listen; False when this connection can't keep either."""
        if not keeps_its_session(connection):
            log.warning(
                "presence is off: a connection pooler stands between this process and the database, so dead workers "
                "are found by their ttl only and waiting checkouts look once a second; set "
                "POOLSQL_DIRECT_DATABASE_URL to an address that bypasses it"
            )
            return False
        for name, value in _SERVER_SIDE.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        while not _only(connection, "SELECT pg_try_advisory_lock(%s, %s)", PRESENCE_CLASS, self._worker.lock_key):
            # Held by this worker's last connection, whose end the server has not noticed yet.
            if self._closed or self._sleep(1.0):
                return False
        connection.execute(f"LISTEN {CHANNEL}{self._worker.lock_key:d}".encode())
        connection.execute(
            "UPDATE poolsql.workers SET present_at = clock_timestamp() WHERE id = %s", (self._worker.id,)
        )
        self._listening = True
        self._settled.set()
        # What was handed over while nobody listened.
        self._called(None)
        return True

    def _listen(self, connection: psycopg.Connection[object]) -> None:
        server = connection.pgconn
        with selectors.DefaultSelector() as either:
            either.register(server.socket, selectors.EVENT_READ)
            either.register(self._wakes, selectors.EVENT_READ)
            while not self._closed:
                # What the statements before have brought along, or what has arrived since.
                server.consume_input()
                while (notification := server.notifies()) is not None:
                    self._called(UUID(notification.extra.decode()))
                either.select()

    def _sleep(self, seconds: float) -> bool:
        """Sleep until the time is over or this is closed; whether it is closed."""
        with selectors.DefaultSelector() as waker:
            waker.register(self._wakes, selectors.EVENT_READ)
            waker.select(seconds)
        return self._closed


def present_keys(database: Database) -> set[int]:
    """The lock keys of the workers that are present now.

    Raises:
        DatabaseError: The database failed.
    """
    return {row.lock_key for row in database.run(PRESENT, {"class": PRESENCE_CLASS})}


def _only(connection: psycopg.Connection[object], query: str, *parameters: object) -> object:
    with connection.cursor(row_factory=scalar_row) as cursor:
        return cursor.execute(query.encode(), parameters).fetchone()
