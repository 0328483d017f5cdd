"""One start at a time on a directory, among all processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poolsql.deadlines import Deadline, wait_until
from poolsql.errors import LaunchFailedError, LaunchFault, StopNotProvenError

_FILE = "poolsql-start.lock"


@contextmanager
def only_starter(directory: Path) -> Iterator[None]:
    """Hold the right to start a browser on the directory; the kernel takes it back when this process dies.

    Without it two starts could both find the directory unused, and the one whom Chromium refuses could take the
    other's address for its own. On Windows only the lease prevents that.

    Raises:
        LaunchFailedError: Somebody else is starting a browser on it.
    """
    if os.name != "posix":
        yield
        return
    import fcntl  # noqa: PLC0415 - not on Windows

    descriptor = os.open(directory / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LaunchFailedError(
                f"profile directory {directory}: another process is starting or stopping a browser on it; wait "
                "until that is done",
                fault=LaunchFault.PROFILE,
            ) from error
        yield
    finally:
        os.close(descriptor)


@contextmanager
def no_start_under_way(directory: Path, patience: Deadline) -> Iterator[None]:
    """Keep starts off the directory, once there is none under way.

    A worker that is frozen in the middle of a start has no browser that could be found, but will have one when it
    goes on: until then nobody can prove that nothing runs.

    Raises:
        StopNotProvenError: A start is still under way when the time is up.
    """
    if os.name != "posix" or not directory.is_dir():
        yield
        return
    import fcntl  # noqa: PLC0415 - not on Windows

    def locked() -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    descriptor = os.open(directory / _FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not wait_until(locked, patience):
            raise StopNotProvenError(
                f"browser on {directory}: a process is still starting it, or is frozen in the middle of that; let it "
                "go on, or end it"
            )
        yield
    finally:
        os.close(descriptor)
