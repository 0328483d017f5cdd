"""Processes of this machine, named so that a reused process id is never taken for the process that had it before.

A process is named by its id and its *start mark*, a text that no other process with this id ever has. On Linux the
mark is the boot and the clock tick in which the process started, which no step of the wall clock changes; elsewhere
it is the start time that the system reports. Names are only comparable where both sides see the same process table:
containers that share a machine name must share the process namespace too.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_HAS_START_TICKS = _BOOT_ID.exists()
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Windows has no SIGKILL; there `os.kill` ends a process at once for any number that is no console event."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for all time: `mark` tells it from every other process that gets or had the same `pid`."""

    pid: int
    mark: str


@dataclass(frozen=True, slots=True)
class LivingProcess:
    """A process that was seen alive, and the session it belongs to (None where the system has no sessions)."""

    identity: ProcessIdentity
    session: int | None

    def arguments(self) -> list[str]:
        """Its command line; empty when it ended meanwhile or belongs to somebody else."""
        try:
            return psutil.Process(self.identity.pid).cmdline()
        except (psutil.Error, OSError):
            return []

    def environment(self) -> Mapping[str, str]:
        """The environment it was started with; empty when it ended meanwhile or belongs to somebody else."""
        try:
            return psutil.Process(self.identity.pid).environ()
        except (psutil.Error, OSError):
            return {}


def identify(pid: int) -> ProcessIdentity | None:
    """Name the process that has this id now, also one that ended and was not yet reaped; None if there is none."""
    entry = _read(pid)
    return None if entry is None else ProcessIdentity(pid, entry.mark)


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether exactly this process still runs. A zombie runs no more; a stopped (SIGSTOP) process is alive."""
    entry = _read(identity.pid)
    return entry is not None and entry.alive and entry.mark == identity.mark


def living_processes() -> Iterator[LivingProcess]:
    """All processes of this machine that are alive, except the calling one."""
    own = os.getpid()
    for pid in psutil.pids():
        entry = _read(pid)
        if pid != own and entry is not None and entry.alive:
            yield LivingProcess(ProcessIdentity(pid, entry.mark), entry.session)


def kill(identity: ProcessIdentity) -> bool:
    """End exactly this process at once. False: it was not alive any more, or it is not ours to kill."""
    return _deliver(identity, _KILL)


def interrupt(identity: ProcessIdentity) -> bool:
    """Send exactly this process what Ctrl-C sends. False: not alive, not ours, or a system that cannot do it."""
    # On Windows a console event goes to everybody on the console, the caller included.
    return os.name == "posix" and _deliver(identity, signal.SIGINT)


def _deliver(identity: ProcessIdentity, number: int) -> bool:
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except (AttributeError, OSError):
        # No such call here: between the check and the signal the id could, in theory, get another owner.
        return is_alive(identity) and _sent(lambda: os.kill(identity.pid, number))
    try:
        # The descriptor holds on to the process, so what is checked now is what gets the signal.
        return is_alive(identity) and _sent(lambda: signal.pidfd_send_signal(descriptor, number))
    finally:
        os.close(descriptor)


def _sent(send: Callable[[], None]) -> bool:
    try:
        send()
    except (ProcessLookupError, PermissionError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Entry:
    """One line of the process table."""

    mark: str
    session: int | None
    alive: bool


def _read(pid: int) -> _Entry | None:
    return _read_linux(pid) if _HAS_START_TICKS else _read_elsewhere(pid)


def _read_linux(pid: int) -> _Entry | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name, in parentheses, and may itself hold blanks and parentheses. After it:
    # state, parent, group, session (3), …, number of threads (17), …, start tick (19).
    fields = text[text.rindex(")") + 1 :].split()
    # The first thread can have ended while others of the process still run: a zombie to look at, but alive.
    alive = fields[0] not in {"Z", "X"} or int(fields[17]) > 1
    return _Entry(mark=f"{_boot_id()}/{fields[19]}", session=int(fields[3]), alive=alive)


def _read_elsewhere(pid: int) -> _Entry | None:
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            alive = process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
            mark = f"{process.create_time():.6f}"
    except (psutil.Error, OSError):
        return None
    return _Entry(mark=mark, session=_session(pid), alive=alive)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (AttributeError, OSError):
        return None


@lru_cache(maxsize=1)
def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()
