"""The program as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

import poolsql

ROOT = Path(poolsql.__file__).parents[1]


@dataclass(frozen=True)
class Done:
    """How a run of the program ended."""

    code: int
    out: str
    errors: str

    @property
    def line(self) -> str:
        """The only line on standard error, which is ours."""
        (line,) = self.errors.splitlines()
        assert line.startswith("poolsql: ")
        assert self.out == ""
        return line.removeprefix("poolsql: ")


class Program:
    """Runs the program in an empty directory, with nothing of the caller's settings."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.settings: dict[str, str] = {}

    def start(self, *arguments: str, **settings: str) -> subprocess.Popen[str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        ours = {"HOME": str(self._directory), "PYTHONPATH": str(ROOT), "POOLSQL_MACHINE": "here"}
        return subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "poolsql", *arguments],
            cwd=self._directory,
            env={**kept, **ours, **self.settings, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **settings: str) -> Done:
        """Run it to its end."""
        with self.start(*arguments, **settings) as process:
            try:
                out, errors = process.communicate(timeout=60)
            finally:
                process.kill()
        return Done(process.returncode, out, errors)


def address(url: URL) -> str:
    """An address as people write it, with the password quoted as libpq wants it."""
    shown = url.set(drivername="postgresql").render_as_string(hide_password=True)
    return shown.replace(":***@", f":{quote(str(url.password), safe='')}@")
