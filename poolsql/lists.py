"""Text files with one entry a line: read as a whole, or refused with all that is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from poolsql.errors import BadInputError

Entry = TypeVar("Entry")

MOST_SHOWN = 20
"""Lines or names that one message tells; a file in the wrong form has thousands."""

_COMMENT = re.compile(r"(?:^|\s)#.*")


LONGEST_LIST = 500_000_000
"""Bytes of a file that are read into memory."""


def read_list(path: Path | None, entry: Callable[[str, int], Entry], *, wanted: str) -> list[Entry]:
    """Read a file with one entry a line; blank lines, and ``#`` at the start or after a blank, are skipped.

    Args:
        path: The file; None: standard input.
        entry: Makes an entry of a line's text and number; raises `BadInputError` when it is wrong.
        wanted: What the file lacks when it is empty, such as ``id; write one a line``.

    Raises:
        BadInputError: It cannot be read, is not UTF-8, has no entry, or lines are wrong: by their numbers.
    """
    name = "standard input" if path is None else str(path)
    try:
        data = sys.stdin.buffer.read() if path is None else _content(path)
    except ValueError as error:
        raise BadInputError(f"{name!r}: no file can have this name ({error})") from None
    except OSError as error:
        raise BadInputError(f"{name}: cannot read the file ({error.strerror})") from error
    return parse_list(data, entry, name=name, wanted=wanted)


def _content(path: Path) -> bytes:
    """A regular file: a pipe or a device may never end."""
    if path.exists() and not path.is_file():
        raise BadInputError(f"{path}: is no file; give one with an entry a line")
    with path.open("rb") as file:
        data = file.read(LONGEST_LIST + 1)
    if len(data) > LONGEST_LIST:
        raise BadInputError(f"{path}: longer than {LONGEST_LIST:,} bytes; use several files, or a query")
    return data


def parse_list(data: bytes, entry: Callable[[str, int], Entry], *, name: str, wanted: str) -> list[Entry]:
    """`read_list` for what was read already.

    Raises:
        BadInputError: As `read_list`.
    """
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name}: not a text in UTF-8 (byte {error.start:,}); save it as such") from error
    entries: list[Entry] = []
    problems: list[str] = []
    for number, line in enumerate(content.split("\n"), start=1):
        text = _COMMENT.sub("", line).strip()
        if not text:
            continue
        try:
            entries.append(entry(text, number))
        except BadInputError as error:
            problems.append(f"line {number}: {error}")
    if problems:
        count = "1 line is" if len(problems) == 1 else f"{len(problems):,} lines are"
        raise BadInputError(f"{name}: {count} wrong: {some_of(problems, '; ')}")
    if not entries:
        raise BadInputError(f"{name}: names no {wanted}")
    return entries


def some_of(texts: Sequence[str], separator: str = ", ") -> str:
    """The first of many texts, and how many more there are."""
    more = f"{separator}and {len(texts) - MOST_SHOWN:,} more" if len(texts) > MOST_SHOWN else ""
    return separator.join(texts[:MOST_SHOWN]) + more
