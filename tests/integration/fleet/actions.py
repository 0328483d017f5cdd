"""Actions of `worker_program` in processes of their own."""

from __future__ import annotations

import json
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]


class Program:
    """One action of `worker_program` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def told(self) -> dict[str, Any]:
        """The next thing that it tells."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], 30)
        line = self.process.stdout.readline() if ready else ""
        assert line, f"the program told nothing; its errors: {self.errors()}"
        told: dict[str, Any] = json.loads(line)
        return told

    def go_on(self) -> None:
        """Let it go on where it waits for a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def freeze(self) -> None:
        """Let this process alone stand still; its browser goes on."""
        self.process.send_signal(signal.SIGSTOP)

    def wake_up(self) -> None:
        """Let it go on after `freeze`."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(30)

    def errors(self) -> str:
        """What it wrote to standard error, once it is over."""
        self.process.kill()
        assert self.process.stderr is not None
        return self.process.stderr.read()


@contextmanager
def program(action: str, *, warnings: str = "error", inside: Sequence[str] = (), **asked: Any) -> Iterator[Program]:
    """Run an action; it is killed at the end if it still runs.

    Args:
        action: One of `worker_program`.
        warnings: What Python does about them.
        inside: What the command begins with: a program that runs another one in its own place.
        asked: What the action is told.
    """
    command = [sys.executable, "-W", warnings, "-m", "tests.integration.fleet.worker_program", action]
    with subprocess.Popen(
        [*inside, *command, json.dumps(asked)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Program(process)
        finally:
            process.kill()
