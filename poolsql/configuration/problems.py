"""What is wrong in a fleet.toml: collected, not raised, so that all of it is told at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path as FilePath

from poolsql.configuration.locations import Locations, Path
from poolsql.errors import BadInputError
from poolsql.redaction import redact

_NAMED = re.compile(r"([A-Za-z_][\w-]*(?:\.[\w-]+)*)(: |(?![\w-]))")
"""What a problem begins with when it begins with its key."""


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that cannot be right."""

    line: int
    """From 1."""
    where: str
    """The table and key, such as ``pools.shop.ttl``; empty: the file as a whole."""
    message: str

    def __str__(self) -> str:
        # In brackets: what follows a word such as token and a colon is taken for a secret, and hidden.
        return f"[{self.where}] {self.message}" if self.where else self.message


class FleetFileError(BadInputError):
    """A fleet.toml is wrong; nothing was changed.

    Attributes:
        path: The file.
        problems: All that is wrong, by line.
    """

    def __init__(self, path: FilePath, problems: Iterable[Problem]) -> None:
        self.path = path
        self.problems: Sequence[Problem] = sorted(set(problems))
        count = len(self.problems)
        counted = "1 thing is wrong" if count == 1 else f"{count:,} things are wrong"
        super().__init__(f"{path}: {counted}: " + "; ".join(self.lines(20)))

    def lines(self, most: int = 200) -> list[str]:
        """One line a problem: ``fleet.toml:12: [pools.shop.ttl] …``; beyond `most`, one for all others."""
        lines = [redact(f"{self.path}:{problem.line}: {problem}") for problem in self.problems[:most]]
        left = len(self.problems) - most
        return [*lines, f"{self.path}: and {left:,} more"] if left > 0 else lines


class Problems:
    """Collects what is wrong in one file."""

    def __init__(self, locations: Locations) -> None:
        self._locations = locations
        self.found: list[Problem] = []

    def fresh(self) -> Problems:
        """A collector for the same file, with nothing found yet."""
        return Problems(self._locations)

    def add(self, path: Path, message: str) -> None:
        """Note a problem of the value at a path."""
        where = ".".join(_shown(name) for name in path if isinstance(name, str))
        self.found.append(Problem(self._locations.line(path), where, message))

    def add_told(self, table: Path, keys: Iterable[str], message: str) -> None:
        """Note what a check of a whole table said: problems joined by semicolons, many of which begin with their key.

        Each gets the place of its key: a word with a colon, or one of `keys`. One that begins with none belongs to the
        one before, or to the table.
        """
        known = {*keys}
        pieces: list[tuple[Path, str]] = []
        for piece in message.split("; "):
            named = _NAMED.match(piece)
            if named is not None and named[2]:
                pieces.append(((*table, *named[1].split(".")), piece[named.end() :]))
            elif named is not None and named[1] in known:
                pieces.append(((*table, named[1]), piece))
            elif pieces:
                path, before = pieces.pop()
                pieces.append((path, f"{before}; {piece}"))
            else:
                pieces.append((table, piece))
        for path, told in pieces:
            self.add(path, told)

    def line(self, path: Path) -> int:
        """The line of a value."""
        return self._locations.line(path)


def _shown(name: str) -> str:
    return name if name and not {".", " ", '"'} & set(name) else f'"{name}"'
