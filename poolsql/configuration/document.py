"""From a file to a TOML document whose values can be kept, with the line of each."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from poolsql.configuration.locations import Locations, Path
from poolsql.configuration.problems import FleetFileError, Problem, Problems

_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_LARGEST_INTEGER = 2**63


def read_document(path: FilePath) -> tuple[dict[str, Any], Problems]:
    """Read a TOML file; a byte order mark and line ends of Windows are as good as none.

    Returns:
        Its values, and a collector of problems that knows their lines. Values that no database can keep are noted.

    Raises:
        FleetFileError: The file cannot be read, or is no TOML.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _broken(path, 1, f"cannot read the file ({error.strerror})") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise _broken(path, line, f"not a text in UTF-8 (byte {error.start:,}); save it as such") from error
    try:
        document = tomllib.loads(text)
        problems = Problems(Locations(text))
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from None
    except RecursionError:
        raise _broken(path, 1, "broken TOML: lists or tables are too deep in each other") from None
    except ValueError as error:  # an integer of more digits than Python reads
        raise _broken(path, 1, f"broken TOML: {error}") from None
    try:
        for place, problem in _unkeepable(document, ()):
            problems.add(place, problem)
    except RecursionError:
        raise _broken(path, 1, "lists or tables are too deep in each other") from None
    return document, problems


def _syntax_error(path: FilePath, text: str, message: str) -> FleetFileError:
    place = _PLACE.search(message)
    told = _PLACE.sub("", message)
    told = told[:1].lower() + told[1:]
    if place is None or place[1] is None:
        return _broken(path, text.rstrip().count("\n") + 1, f"broken TOML: {told}, at the end of the file")
    return _broken(path, int(place[1]), f"broken TOML: {told}, at column {place[2]}")


def _broken(path: FilePath, line: int, message: str) -> FleetFileError:
    return FleetFileError(path, [Problem(line, "", message)])


def _unkeepable(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    match value:
        case Mapping():
            for key, inner in value.items():
                if "\0" in key:
                    yield (*path, key), "its name holds a NUL character, which Postgres cannot keep"
                yield from _unkeepable(inner, (*path, key))
        case list():
            for number, inner in enumerate(value):
                yield from _unkeepable(inner, (*path, number))
        case str() if "\0" in value:
            yield path, "holds a NUL character, which Postgres cannot keep"
        case float() if not math.isfinite(value):
            yield path, f"{value} is no number that can be used here"
        case int() if abs(value) >= _LARGEST_INTEGER:
            yield path, "the number is too large"
        case _:
            pass
