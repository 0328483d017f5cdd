"""The program in this process: what it answers to a command line."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from poolsql.cli.main import run
from poolsql.settings import process_settings


@dataclass(frozen=True)
class Answer:
    """How a command ended, and what it printed."""

    code: int
    out: str
    errors: str

    @property
    def json(self) -> Any:
        """The one JSON document on standard output."""
        assert (self.code, self.errors) == (0, ""), self.errors
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def line(self) -> str:
        """The one line of an answer that went well."""
        assert (self.code, self.errors) == (0, ""), self.errors
        (line,) = self.out.splitlines()
        return line

    @property
    def refusal(self) -> str:
        """The one line that says why nothing was done."""
        assert (self.code, self.out) == (2, "")
        (line,) = self.errors.splitlines()
        return line.removeprefix("poolsql: ")

    @property
    def table(self) -> list[list[str]]:
        """The cells of a table that was not printed on a terminal, by the places of its headings."""
        heading, *lines = self.out.splitlines()
        starts = [0, *(place + 2 for place in range(len(heading) - 2) if heading[place : place + 2] == "  ")]
        starts = [start for start in starts if heading[start : start + 1].strip()]
        ends = [*starts[1:], None]
        return [
            [line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in [heading, *lines]
        ]


class Calls:
    """Runs commands on a test's database: ``calls("pool", "status")``."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Answer:
        self._capsys.readouterr()
        process_settings.cache_clear()
        root = logging.getLogger()
        before, level = list(root.handlers), logging.getLogger("poolsql").level
        try:
            code = run([str(argument) for argument in arguments])
        finally:
            # The handler of the program writes to what was standard error for this call.
            root.handlers[:] = before
            logging.getLogger("poolsql").setLevel(level)
            process_settings.cache_clear()
        out, errors = self._capsys.readouterr()
        return Answer(code, out, errors)
