"""The program on a terminal, as somebody sits before it."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.integration.cli.programs import ROOT

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class OnTerminal:
    """One run of the program on a pseudo-terminal of 100 columns."""

    def __init__(self, *arguments: object, settings: Mapping[str, str]) -> None:
        self._screen, program_side = pty.openpty()
        kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
        ours = {
            "PYTHONPATH": str(ROOT),
            "POOLSQL_MACHINE": "here",
            "TERM": "xterm",
            "COLUMNS": "100",
            "LANG": "C.UTF-8",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "poolsql", *(str(argument) for argument in arguments)],
            env={**kept, **ours, **settings},
            stdin=program_side,
            stdout=program_side,
            stderr=program_side,
            start_new_session=True,
        )
        os.close(program_side)
        self.raw = ""

    @property
    def text(self) -> str:
        """What was printed up to now, without colours and movements."""
        return _CONTROL.sub("", self.raw)

    def until_text(self, text: str, *, seconds: float = 60.0) -> None:
        """Wait until a text has been printed."""
        give_up_at = time.monotonic() + seconds
        while text not in self.text:
            assert time.monotonic() < give_up_at, f"not printed: {text!r} in {self.text!r}"
            assert self._read(), f"it ended without {text!r}: {self.text!r}"

    def write(self, text: str) -> None:
        """Type a line."""
        os.write(self._screen, text.encode())

    def end(self, *, seconds: float = 60.0) -> int:
        """Wait for its end; returns its exit code."""
        give_up_at = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < give_up_at, f"it goes on: {self.text!r}"
        return self.process.wait(10)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._screen)

    def _read(self) -> bool:
        """Read what is there within a second; False when there is nobody left to write."""
        ready, _, _ = select.select([self._screen], [], [], 1.0)
        if not ready:
            return True
        try:
            printed = os.read(self._screen, 65536)
        except OSError:  # what Linux answers when the other side is closed
            return False
        self.raw += printed.decode(errors="replace")
        return bool(printed)
