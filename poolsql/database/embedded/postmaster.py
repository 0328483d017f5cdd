"""The server's main process: what its file says, starting it, stopping it."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg

from poolsql.database.embedded.account import Account, start_as
from poolsql.database.embedded.binaries import ServerBinaries
from poolsql.database.embedded.cluster import SUPERUSER, last_lines
from poolsql.database.embedded.layout import Layout, make_private
from poolsql.database.embedded.locks import opened, try_lock
from poolsql.deadlines import Deadline
from poolsql.errors import DatabaseError, DatabaseUnavailableError

DATABASE = "poolsql"

_PORT = 5432
"""Nothing listens on it; it only names the socket."""
_SOCKET_PATH_BYTES = 103
"""What every system takes for the path of a socket: 107 bytes on Linux, 103 on macOS."""
_SOCKET_PARENTS = ("/tmp", "/var/tmp")  # noqa: S108 - the directory made there is private and has a random name
_SOCKET_PREFIX = "poolsql-"
_LOG_BYTES = 10_000_000
_STOP_LADDER = (("SIGINT", 30.0), ("SIGQUIT", 10.0))
"""Signals, by name since Windows lacks the second, and the seconds that each is given: a clean end, then an end that
the next start recovers from."""

_SETTINGS = {
    # fsync, full_page_writes and synchronous_commit keep their defaults, on: a lost commit could lease a profile twice.
    "listen_addresses": "",
    "port": str(_PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "max_wal_size": "256MB",
    # Parallel workers exchange data through /dev/shm, of which a container has 64 MB.
    "max_parallel_workers_per_gather": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    # Statements and failing rows may hold what must not be in a log.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PostmasterFile:
    """What ``postmaster.pid`` says; it may be left over from a server that was killed."""

    pid: int
    socket_directory: str
    ready: bool

    @classmethod
    def read(cls, data: Path) -> PostmasterFile | None:
        """None: there is none, or not yet a process id in it."""
        try:
            lines = os.fsdecode((data / "postmaster.pid").read_bytes()).split("\n")
        except FileNotFoundError:
            return None
        if not re.fullmatch(r"-?\d+", lines[0]):
            return None
        # A server in single-user mode writes its process id as a negative number. Later lines come one by one.
        lines += [""] * 8
        return cls(pid=abs(int(lines[0])), socket_directory=lines[4], ready=lines[7].strip() == "ready")


def server_url(socket_directory: str, database: str = DATABASE) -> str:
    """The address of a database of a server with this socket directory."""
    return f"postgresql://{SUPERUSER}@/{database}?host={quote(socket_directory, safe='')}&port={_PORT}"


def connect_once(socket_directory: str, deadline: Deadline) -> str:
    """See that the server answers and has poolsql's database, which is made when missing; returns its address.

    Raises:
        psycopg.Error: It does not answer, or cannot make the database.
    """
    patience = max(2, int(deadline.left()))  # libpq takes whole seconds, and 2 for anything below
    with psycopg.connect(
        server_url(socket_directory, "postgres"), connect_timeout=patience, autocommit=True
    ) as session:
        # Made here, and not where the data directory is made, because a crash between the two would leave it missing.
        if session.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
            session.execute(f"CREATE DATABASE {DATABASE}")
    return server_url(socket_directory)


def start_postmaster(
    layout: Layout, binaries: ServerBinaries, account: Account | None, *, server_lock: int, deadline: Deadline
) -> str:
    """Start the server and wait until it takes connections; returns the address of poolsql's database.

    Args:
        layout: Its start lock is held by the caller.
        binaries: Programs of the version of the data directory.
        account: Whom the server runs as.
        server_lock: Descriptor that holds the server lock: proof that no process of a server is left here. The
            server inherits it; the caller closes its own copy.
        deadline: By when the server must answer. A server that is late is left to finish its recovery.

    Raises:
        DatabaseUnavailableError: It does not start; the message holds the end of its log.
    """
    left_over = PostmasterFile.read(layout.data)
    socket_directory = _socket_directory(layout, account, left_over)
    arguments = [binaries.program("postgres"), "-D", os.fspath(layout.data)]
    for name, value in {**_SETTINGS, "unix_socket_directories": socket_directory}.items():
        arguments += ["-c", f"{name}={value}"]
    # Postgres takes a left-over file for a living server when its process id is in use again. Told that the id is
    # its grandparent's, it does not. Its check of the shared memory stays: that is no reason to remove the file.
    variables = {"PG_GRANDPARENT_PID": str(left_over.pid)} if left_over else {}
    if layout.log.exists() and layout.log.stat().st_size > _LOG_BYTES:
        layout.log.replace(layout.log.with_suffix(".log.1"))
    with os.fdopen(os.open(layout.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as output:
        log_start = output.seek(0, os.SEEK_END)
        process = start_as(
            account, arguments, output=output, inherited=[server_lock], variables=variables, own_session=True
        )
    try:
        url = _wait_until_ready(layout, process, log_start, deadline)
    finally:
        # Whoever stops the server, its entry in the process table goes when it ends, not when we do.
        threading.Thread(target=process.wait, name="poolsql-embedded-server", daemon=True).start()
    log.debug("embedded server started in %s (process %d)", layout.directory, process.pid)
    return url


def stop_postmaster(layout: Layout) -> None:
    """Stop the server, if one runs, and wait until its last process is gone. The caller holds the start lock.

    Raises:
        DatabaseError: It does not end.
    """
    with opened(layout.server_lock) as descriptor:
        if try_lock(descriptor):
            return
        found = PostmasterFile.read(layout.data)
        if not _signal_until_gone(layout, descriptor):
            raise DatabaseError(
                f"the embedded server in {layout.directory} does not stop (process "
                f"{found.pid if found else 'unknown'}); look into {layout.log}"
            )
        if found is not None and _is_ours(layout, found.socket_directory):
            shutil.rmtree(found.socket_directory, ignore_errors=True)
    log.debug("embedded server in %s stopped", layout.directory)


def log_end(layout: Layout, start: int = 0) -> str:
    """The end of the server's log, in one line, for an error message."""
    try:
        with layout.log.open("rb") as file:
            file.seek(max(start, file.seek(0, os.SEEK_END) - 10_000))
            return last_lines(file.read().decode("utf-8", errors="replace"))
    except FileNotFoundError:
        return "there is no log"


def _wait_until_ready(layout: Layout, process: subprocess.Popen[bytes], log_start: int, deadline: Deadline) -> str:
    while True:
        ended = process.poll() is not None
        found = PostmasterFile.read(layout.data)
        if not ended and found is not None and found.pid == process.pid and found.ready:
            try:
                return connect_once(found.socket_directory, deadline)
            except psycopg.Error as error:
                trouble = f"it takes no connection ({str(error).strip()})"
        else:
            trouble = f"it ended with code {process.returncode}" if ended else "it is not ready yet; try again later"
        if ended or not deadline.pause():
            raise DatabaseUnavailableError(
                f"the embedded server in {layout.directory} did not start: {trouble}. "
                f"The end of {layout.log}: {log_end(layout, log_start)}"
            )


def _signal_until_gone(layout: Layout, descriptor: int) -> bool:
    for step, seconds in _STOP_LADDER:
        signalled = False
        deadline = Deadline(seconds)
        while True:
            # Looked for each time: a server that is only just starting has not written its process id yet, and one
            # that was killed leaves children that end by themselves.
            if not signalled and (pid := _living_postmaster(layout)) is not None:
                os.kill(pid, signal.Signals[step])
                signalled = True
            if try_lock(descriptor):
                return True
            if not deadline.pause():
                break
    return False


def _living_postmaster(layout: Layout) -> int | None:
    """The process id of this directory's server; None when the file's id is dead or somebody else's by now."""
    found = PostmasterFile.read(layout.data)
    if found is None:
        return None
    try:
        process = psutil.Process(found.pid)
        alive = process.status() != psutil.STATUS_ZOMBIE and os.fspath(layout.data) in process.cmdline()
    except psutil.Error:
        return None
    return found.pid if alive else None


def _socket_directory(layout: Layout, account: Account | None, left_over: PostmasterFile | None) -> str:
    """A private directory with a path that Postgres, libpq and the kernel all can take.

    The server's own directory where possible: it is found by everybody who finds the server, and no cleaner of
    temporary files looks there. Else the one of the server that was killed, so that addresses stay true; else a new
    one. The server writes it into ``postmaster.pid``, where others look for it.
    """
    inside = os.fspath(layout.socket)
    if len(f"{inside}/.s.PGSQL.{_PORT}") <= _SOCKET_PATH_BYTES and re.fullmatch(r"[A-Za-z0-9/._-]+", inside):
        make_private(layout.socket, account)
        _clear_socket(layout.socket)
        return inside
    if left_over is not None and _is_ours(layout, left_over.socket_directory):
        _clear_socket(Path(left_over.socket_directory))
        return left_over.socket_directory
    for parent in _SOCKET_PARENTS:
        try:
            made = tempfile.mkdtemp(prefix=_SOCKET_PREFIX, dir=parent)
        except OSError:
            continue
        make_private(Path(made), account)
        return made
    raise DatabaseUnavailableError(
        f"the path of {layout.directory} is too long, or too unusual, for the server's socket, and none of "
        f"{', '.join(_SOCKET_PARENTS)} is writable; set POOLSQL_DATA_DIR to a short path"
    )


def _is_ours(layout: Layout, socket_directory: str) -> bool:
    """Whether it is the temporary directory that was made for this server's socket, and exists."""
    place = Path(socket_directory)
    if os.fspath(place.parent) not in _SOCKET_PARENTS or not place.name.startswith(_SOCKET_PREFIX):
        return False
    try:
        found = place.lstat()
    except FileNotFoundError:
        return False
    # Anybody may make directories there; ours belongs to the server's user and is closed to others.
    return found.st_mode == stat.S_IFDIR | 0o700 and found.st_uid == layout.data.stat().st_uid


def _clear_socket(directory: Path) -> None:
    """Remove the socket that a killed server left; its lock file would be taken for a living server's."""
    for path in directory.glob(".s.PGSQL.*"):
        path.unlink(missing_ok=True)
