"""The demo as a user starts it: a process of its own, in a temporary directory of its own that must be empty after."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil

from tests.fixtures.conditions import until

ROOT = Path(__file__).parents[2]


class DemoProgram:
    """One run of ``python scheduler.py demo …``."""

    def __init__(self, *arguments: str, directory: Path, **environment: str) -> None:
        self._began = time.monotonic()
        self.lines: list[str] = []
        # What the caller's terminal is like must not decide how tables look.
        caller = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        self.process = subprocess.Popen(
            [sys.executable, "scheduler.py", "demo", *arguments],
            cwd=ROOT,
            env={**caller, "TMPDIR": str(directory), "PYTHONUNBUFFERED": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def sockets(self) -> Path:
        """Where its server's socket is, which may be elsewhere than the rest: a socket's path has to be short."""
        (host,) = parse_qs(urlsplit(shlex.split(self.line_with("postgresql://"))[1]).query)["host"]
        return Path(host)

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self._began

    def line_with(self, text: str, *, seconds: float = 60.0) -> str:
        """Wait for a line that contains a text."""

        def found() -> str | None:
            line = next((line for line in self.lines.copy() if text in line), None)
            assert line is not None or self._reader.is_alive(), f"it ended without {text!r}:\n{self.output}"
            return line

        return until(found, seconds=seconds) or ""

    def wait(self, *, seconds: float) -> int:
        """Wait for its end; returns the exit code."""
        code = self.process.wait(timeout=seconds)
        self._reader.join(timeout=10)
        return code

    def press_ctrl_c(self) -> None:
        """What a terminal does: everything in the foreground gets it."""
        os.killpg(self.process.pid, signal.SIGINT)

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))


@contextmanager
def demo_directory() -> Iterator[Path]:
    """A directory for everything temporary; at the end nothing may be in it, and no process may know it."""
    # Short, because sockets are in it; open to pass through, because root's server runs as somebody else.
    directory = Path(tempfile.mkdtemp(prefix="demo-", dir="/tmp"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        left = [process for process in psutil.process_iter() if _knows(process, str(directory))]
        for process in left:
            process.kill()
    assert left == [], "the demo left processes"
    assert sorted(directory.iterdir()) == [], "the demo left files"
    directory.rmdir()


def _knows(process: psutil.Process, directory: str) -> bool:
    try:
        return process.pid != os.getpid() and directory in "\0".join([*process.cmdline(), *process.environ().values()])
    except psutil.Error:
        return False
