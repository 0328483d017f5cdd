"""The client's own clock: it only ever decides to give up *early*; the database clock decides the rest (I6)."""

from __future__ import annotations

import os
import threading
import time


def elapsed_clock() -> float:
    """Seconds on a clock that never steps back and also counts time that the machine was suspended.

    CLOCK_BOOTTIME where the platform has it. Elsewhere monotonic time may stand still during a suspend, so the
    larger progress of monotonic and wall clock is taken: that can only make a holder give up sooner.
    """
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    if boottime is not None:
        return time.clock_gettime(boottime)
    return _fallback.read()


class _LargerProgress:
    """Monotonic and wall clock joined: each reading advances by the larger of the two steps."""

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()
        self._total = 0.0
        self._lock = threading.Lock()

    def read(self) -> float:
        with self._lock:
            monotonic, wall = time.monotonic(), time.time()
            self._total += max(monotonic - self._monotonic, wall - self._wall, 0.0)
            self._monotonic, self._wall = monotonic, wall
            return self._total

    def after_fork(self) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        self._lock = threading.Lock()


_fallback = _LargerProgress()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_fallback.after_fork)
