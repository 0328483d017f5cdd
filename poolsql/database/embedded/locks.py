"""Kernel file locks: what counts the users of a server and shows whether it lives.

All locks here are `flock` locks. They belong to an open file, not to a process id: the kernel frees them when the
last copy of the descriptor is gone, however its owner ended, and they hold across containers that share a directory.
Programs that we start get no copy unless they are meant to, and forked children close theirs at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poolsql.deadlines import Deadline, wait_until
from poolsql.errors import DatabaseUnavailableError

_descriptors: set[int] = set()
"""Every lock file that is open in this process."""


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """The descriptor of a lock file, made when missing, readable by its owner only; closed at the end."""
    descriptor = open_lock_file(path)
    try:
        yield descriptor
    finally:
        close_lock_file(descriptor)


def open_lock_file(path: Path) -> int:
    """Like `opened`, for a caller that closes the descriptor itself, with `close_lock_file`."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    _descriptors.add(descriptor)
    return descriptor


def close_lock_file(descriptor: int) -> None:
    """Close what `open_lock_file` opened; its lock stays with programs that were meant to inherit it."""
    _descriptors.discard(descriptor)
    os.close(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the exclusive lock if nobody holds any; never waits."""
    import fcntl  # noqa: PLC0415 - absent on Windows

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def share_lock(descriptor: int) -> None:
    """Take the shared lock, which keeps others from the exclusive one. Waits while somebody holds that."""
    import fcntl  # noqa: PLC0415 - absent on Windows

    fcntl.flock(descriptor, fcntl.LOCK_SH)


def unlock(descriptor: int) -> None:
    """Give the lock up for every copy of the descriptor, also that of a program which is being started just now."""
    import fcntl  # noqa: PLC0415 - absent on Windows

    fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def exclusive(path: Path, deadline: Deadline) -> Iterator[None]:
    """Run a block as the only one of all processes.

    Raises:
        DatabaseUnavailableError: Somebody else still holds the lock at the deadline.
    """
    with opened(path) as descriptor:
        if not wait_until(lambda: try_lock(descriptor), deadline):
            raise DatabaseUnavailableError(
                f"another process has been starting or stopping the server in {path.parent} for over "
                f"{deadline.seconds:g} s; find it with: fuser {path}"
            )
        try:
            yield
        finally:
            unlock(descriptor)


def _close_in_child() -> None:
    """A forked child holds nothing: it would keep locks for as long as it lives, without knowing."""
    while _descriptors:
        close_lock_file(next(iter(_descriptors)))


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_close_in_child)
