"""Chromium's lock on a user data directory: who holds it, and when it may be taken away.

``SingletonLock`` is a symbolic link to ``<host>-<process id>``. Chromium itself refuses a directory whose lock names
another host for ever, although a container that was restarted or a volume that moved leaves just that; and when the
lock's owner does not answer for 20 seconds, it kills that process and takes the directory (both measured). So the
lease holder decides here, before Chromium is asked.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from poolsql.errors import LaunchFailedError, LaunchFault
from poolsql.launchers.local.browser_processes import find_browser
from poolsql.launchers.processes import identify, is_alive

_LOCK = "SingletonLock"
_SOCKET = "SingletonSocket"
_COOKIE = "SingletonCookie"
_ANSWER_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Whom a lock names."""

    host: str
    pid: int

    def lives_here(self) -> bool:
        """Whether a process with this id runs on this host; after a reboot it can be any process."""
        identity = identify(self.pid) if self.host == socket.gethostname() else None
        return identity is not None and is_alive(identity)


def read_lock(directory: Path) -> LockOwner | None:
    """Whom the directory's lock names; None without a lock, or with one that names nobody."""
    target = _link_target(directory / _LOCK)
    host, _, pid = (target or "").rpartition("-")
    return LockOwner(host, int(pid)) if host and pid.isdecimal() else None


def take_unused(directory: Path) -> None:
    """Make sure that no browser uses the directory, and take away what a dead one left in it.

    Only the holder of the profile's lease may call this.

    Raises:
        LaunchFailedError: A browser, or a part of one, uses the directory.
    """
    running = find_browser(str(directory), None)
    if running:
        raise LaunchFailedError(
            f"profile directory {directory}: in use by a browser on this machine (process {running.pids()}); "
            "stop that browser first",
            fault=LaunchFault.PROFILE,
        )
    if _is_answered(directory):
        owner = read_lock(directory)
        raise LaunchFailedError(
            f"profile directory {directory}: in use by a browser outside this process table "
            f"({f'{owner.host}, process {owner.pid}' if owner else 'owner unknown'}; another container?); "
            "stop that browser first",
            fault=LaunchFault.PROFILE,
        )
    _remove(directory)


def remove_stale_lock(directory: Path) -> None:
    """Take away the lock of a browser of this host that was killed; one whose owner lives, or is elsewhere, stays."""
    owner = read_lock(directory)
    if owner is not None and owner.host == socket.gethostname() and not owner.lives_here():
        _remove(directory)


def _is_answered(directory: Path) -> bool:
    """Whether somebody listens on the lock's socket; a frozen browser does, too."""
    target = _link_target(directory / _SOCKET)
    if target is None or not hasattr(socket, "AF_UNIX"):
        return False
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_ANSWER_SECONDS)
        try:
            client.connect(target)
        except (BlockingIOError, TimeoutError):
            return True  # its queue is full, so there is somebody whose queue it is
        except OSError:
            return False
    return True


def _remove(directory: Path) -> None:
    """Remove the lock, and the directory for its socket that a killed browser leaves among the temporary files."""
    target = _link_target(directory / _SOCKET)
    if target is not None and Path(target).is_absolute():
        folder = Path(target).parent
        if "chrom" in folder.name.lower() or "edge" in folder.name.lower():
            for name in (_SOCKET, _COOKIE):
                with suppress(OSError):
                    (folder / name).unlink()
            with suppress(OSError):
                folder.rmdir()
    for name in (_LOCK, _SOCKET, _COOKIE):
        with suppress(OSError):
            (directory / name).unlink()


def _link_target(path: Path) -> str | None:
    try:
        return os.readlink(path)  # noqa: PTH115 - the target is no path of a file, but "host-pid"
    except OSError:
        return None
