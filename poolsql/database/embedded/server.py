"""Opening and closing the embedded server: who comes first starts it, who leaves last stops it.

Three locked files carry it all. `start.lock` makes looking, starting and stopping exclusive. `users.lock` is held,
shared, by each user, so that the kernel strikes a killed one off. `server.lock` is held by the server's own processes.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from poolsql.database.embedded.account import Account, server_account
from poolsql.database.embedded.cluster import prepare_cluster
from poolsql.database.embedded.layout import Layout, check_directory, make_directory
from poolsql.database.embedded.locks import (
    close_lock_file,
    exclusive,
    open_lock_file,
    opened,
    share_lock,
    try_lock,
    unlock,
)
from poolsql.database.embedded.postmaster import (
    PostmasterFile,
    connect_once,
    log_end,
    start_postmaster,
    stop_postmaster,
)
from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError, DatabaseUnavailableError

_CLOSE_SECONDS = 60.0


class EmbeddedServer:
    """One use of a running embedded server; made by `open_embedded_server`, a context manager.

    A process that ends without `close` closes when the interpreter exits; one that is killed is struck off by the
    kernel, and the next user's `close` stops the server. A forked child has no use of its own until it opens one.

    Attributes:
        url: Address of the database ``poolsql``, as its superuser; good for psycopg and, after `database_address`,
            for SQLAlchemy. Stays true when the server is killed and opened again.
        data_directory: Postgres's own data directory.
    """

    def __init__(self, layout: Layout, url: str, users_lock: int) -> None:
        self.url = url
        self.data_directory = layout.data
        self._layout = layout
        self._users_lock: int | None = users_lock
        self._process = os.getpid()
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up this use; the last one stops the server, unless it was told to keep running. Idempotent.

        The use is given up in any case, also when an error is raised.

        Raises:
            DatabaseUnavailableError: Another process held the start lock for too long.
            DatabaseError: The server was told to stop and did not within 40 seconds.
        """
        descriptor, self._users_lock = self._users_lock, None
        if descriptor is None:
            return
        atexit.unregister(self.close)
        if os.getpid() != self._process:
            return  # a forked child, whose copy of the descriptor is closed; the number may mean another file by now
        unlock(descriptor)
        close_lock_file(descriptor)
        with _told_as_ours(self._layout):
            _stop_when_unused(self._layout, Deadline(_CLOSE_SECONDS))


def open_embedded_server(directory: Path, *, timeout: float = 60) -> EmbeddedServer:
    """Start the server that lives in `directory`, or join it when it runs.

    Args:
        directory: For this server alone; made when missing, private. See `default_directory`.
        timeout: Seconds for everything, including the making of a data directory and the wait for others who are
            starting or stopping the server.

    Raises:
        BadInputError: The directory, the platform or the data in it cannot be used; the message says what to do.
        DatabaseUnavailableError: The server does not start or answer in time; the message holds its last words.
    """
    _refuse_windows()
    deadline = Deadline(timeout)
    layout = Layout.of(directory)
    with _told_as_ours(layout):
        account = server_account(layout.data)
        check_directory(layout, account)
        make_directory(layout, account)
        with exclusive(layout.start_lock, deadline):
            users_lock = open_lock_file(layout.users_lock)
            try:
                share_lock(users_lock)
                return EmbeddedServer(layout, _ensure_server(layout, account, deadline), users_lock)
            except BaseException as error:
                unlock(users_lock)
                close_lock_file(users_lock)
                if not isinstance(error, Exception):
                    # Ctrl-C, for one: what was being started for us would have nobody to stop it.
                    _stop_unless_used(layout)
                raise


def stop_embedded_server(directory: Path, *, timeout: float = 60) -> bool:
    """Stop the server that lives in `directory` if nobody uses it: one whose last user was killed is still there.

    Args:
        directory: As it was opened.
        timeout: Seconds to wait for others who are starting or stopping the server.

    Returns:
        Whether no server runs there any more. False: it has users, and the last one will stop it.

    Raises:
        BadInputError: The platform has no embedded server, or the directory is not ours to touch.
        DatabaseUnavailableError: Another process held the start lock for too long.
        DatabaseError: The server was told to stop and did not within 40 seconds.
    """
    _refuse_windows()
    layout = Layout.of(directory)
    deadline = Deadline(timeout)
    with _told_as_ours(layout):
        if not layout.directory.exists():
            return True
        check_directory(layout, server_account(layout.data))
        return _stop_when_unused(layout, deadline)


def _refuse_windows() -> None:
    if sys.platform == "win32":
        raise BadInputError("the embedded server needs Linux or macOS; set POOLSQL_DATABASE_URL to a Postgres server")


@contextmanager
def _told_as_ours(layout: Layout) -> Iterator[None]:
    """Turn what the system refuses (a full disk, no locks, no change of owners) into an error of poolsql's."""
    try:
        yield
    except OSError as error:
        raise DatabaseUnavailableError(f"the embedded server in {layout.directory} has trouble: {error}") from error


def _ensure_server(layout: Layout, account: Account | None, deadline: Deadline) -> str:
    """Start the server, or wait until the running one answers; the caller holds the start lock."""
    trouble = "it is still starting or stopping"
    while True:
        with opened(layout.server_lock) as descriptor:
            if try_lock(descriptor):
                binaries = prepare_cluster(layout, account, server_lock=descriptor, deadline=deadline)
                return start_postmaster(layout, binaries, account, server_lock=descriptor, deadline=deadline)
        found = PostmasterFile.read(layout.data)
        if found is not None and found.ready:
            try:
                return connect_once(found.socket_directory, deadline)
            except psycopg.Error as error:
                # Overloaded or hung, or killed with children that still end: then the lock comes free soon.
                trouble = str(error).strip()
        if not deadline.pause():
            raise DatabaseUnavailableError(
                f"the embedded server in {layout.directory} runs (process {found.pid if found else 'unknown'}) but "
                f"does not answer within {deadline.seconds:g} s: {trouble}. The end of {layout.log}: {log_end(layout)}"
            )


def _stop_when_unused(layout: Layout, deadline: Deadline) -> bool:
    """Stop the server unless it has users; whether it is stopped."""
    if not layout.in_use():
        # Never opened, or its directory was removed: Postgres ends itself within a minute of losing its files.
        return True
    with exclusive(layout.start_lock, deadline):
        return _stop_unless_used(layout)


def _stop_unless_used(layout: Layout) -> bool:
    """Stop the server unless it has users; the caller holds the start lock."""
    with opened(layout.users_lock) as users:
        if not try_lock(users):
            return False
        stop_postmaster(layout)
    return True
