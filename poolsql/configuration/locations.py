"""On which line of a TOML document each of its values stands: tomllib reads values, and tells no places."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""The way to a value: names of keys, and numbers of items from 0."""

_BLANK = re.compile(r"[ \t\r]*")
_BLANK_LINES_AND_COMMENTS = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    # A multi-line string may end with up to two quotes of its own before the three that close it.
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*""""{0,2}'
    r"|'''(?:[^']|'(?!''))*''''{0,2}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_OTHER_VALUE = re.compile(r"[^,\]}\n#]*")


class Locations:
    """The lines of a document, from 1.

    Args:
        text: A document that tomllib has read without an error.
    """

    def __init__(self, text: str) -> None:
        self._lines = _Scan(text).lines

    def line(self, path: Path) -> int:
        """The line of a value: of its key, or of the item itself in a list.

        What the document does not hold has the line of the innermost table or list around it; 1 for the document.
        """
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def items(self) -> Mapping[Path, int]:
        """All values with their lines."""
        return self._lines


class _Scan:
    """One walk through a document. It is known to be right, so only what separates values has to be found."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]
        self._last_items: dict[Path, int] = {}
        self.lines: dict[Path, int] = {}
        table: Path = ()
        while self._skip(_BLANK_LINES_AND_COMMENTS):
            if self._text.startswith("[[", self._at):
                table = self._list_of_tables()
            elif self._text[self._at] == "[":
                table = self._table()
            else:
                self._pair(table)

    def _table(self) -> Path:
        line = self._line()
        self._at += 1
        table = self._existing(self._key(), line)
        self._at += 1
        return table

    def _list_of_tables(self) -> Path:
        line = self._line()
        self._at += 2
        *parents, name = self._key()
        self._at += 2
        table = (*self._existing(parents, line), name)
        number = self._last_items.get(table, -1) + 1
        self._last_items[table] = number
        self._note(table, line)
        self._note((*table, number), line)
        return (*table, number)

    def _existing(self, names: list[str], line: int) -> Path:
        """The way to a table; where it leads through a list of tables, the last one is meant."""
        path: Path = ()
        for name in names:
            path = (*path, name)
            self._note(path, line)
            if path in self._last_items:
                path = (*path, self._last_items[path])
        return path

    def _pair(self, table: Path) -> None:
        line = self._line()
        for name in self._key():
            table = (*table, name)
            self._note(table, line)
        self._at += 1  # the equals sign
        self._value(table)

    def _key(self) -> list[str]:
        """A key with its dots, and the blanks around it."""
        names: list[str] = []
        while True:
            self._skip(_BLANK)
            bare = _BARE_KEY.match(self._text, self._at)
            if bare is not None:
                names.append(bare[0])
                self._at = bare.end()
            else:
                quoted = self._string()
                names.append(next(iter(tomllib.loads(f"{quoted} = 0"))))
            self._skip(_BLANK)
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _value(self, path: Path) -> None:
        self._skip(_BLANK)
        match self._text[self._at]:
            case '"' | "'":
                self._string()
            case "[":
                self._list(path)
            case "{":
                self._inline_table(path)
            case _:
                self._skip(_OTHER_VALUE)

    def _list(self, path: Path) -> None:
        self._at += 1
        number = 0
        while self._next_item("]"):
            self._note((*path, number), self._line())
            self._value((*path, number))
            number += 1

    def _inline_table(self, path: Path) -> None:
        self._at += 1
        while self._next_item("}"):
            self._pair(path)

    def _next_item(self, end: str) -> bool:
        """Go to the next item, or behind the end, which is False."""
        self._skip(_BLANK_LINES_AND_COMMENTS)
        if self._text[self._at] == ",":
            self._at += 1
            self._skip(_BLANK_LINES_AND_COMMENTS)
        if self._text[self._at] != end:
            return True
        self._at += 1
        return False

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        assert found is not None  # noqa: S101 - a value that begins with a quote is a string
        self._at = found.end()
        return found[0]

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        """Go behind what matches, which may be nothing; whether the document goes on there."""
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at
        return self._at < len(self._text)

    def _note(self, path: Path, line: int) -> None:
        self.lines.setdefault(path, line)

    def _line(self) -> int:
        return bisect_right(self._breaks, self._at - 1) + 1
