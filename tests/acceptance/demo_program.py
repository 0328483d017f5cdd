"""The demo as a user starts it."""

from __future__ import annotations

import shlex
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.fixtures.programs import Program


class DemoProgram(Program):
    """One run of ``python scheduler.py demo …``."""

    def __init__(self, *arguments: str, directory: Path, **environment: str) -> None:
        super().__init__("demo", *arguments, directory=directory, **environment)

    @property
    def sockets(self) -> Path:
        """Where its server's socket is, which may be elsewhere than the rest: a socket's path has to be short."""
        (host,) = parse_qs(urlsplit(shlex.split(self.line_with("postgresql://"))[1]).query)["host"]
        return Path(host)
