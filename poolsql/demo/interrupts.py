"""Ctrl-C and its kin: they end the demo, but never in the middle of taking something up or down."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

NUMBERS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """While it is entered, the first signal raises KeyboardInterrupt once; all further ones are only noted.

    A signal that comes while they are held is raised when they are let go; one that comes while everything is being
    taken down is raised at the very end, so that the exit code tells of it.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._holds = 0
        self._pending = False
        self._raised = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Finish this block first: what it starts would have nobody to stop it otherwise."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1
            self._raise_if_due()

    def hold_for_good(self) -> None:
        """Everything is being taken down from now on."""
        self._holds += 1

    def forgive(self) -> None:
        """The interrupt was what was waited for: it is no reason to end with an error."""
        self._pending = False

    def __enter__(self) -> Self:
        # Elsewhere than in the main thread nobody may set handlers, and no signal arrives.
        if threading.current_thread() is threading.main_thread():
            for number in NUMBERS:
                self._before[number] = signal.signal(number, self._received)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._pending and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt

    def _received(self, number: int, frame: FrameType | None) -> None:
        self._pending = True
        self._raise_if_due()

    def _raise_if_due(self) -> None:
        if self._pending and not self._raised and not self._holds:
            self._raised = True
            raise KeyboardInterrupt
