"""How commands print: JSON for programs; for people a table on a terminal, plain aligned lines elsewhere.

JSON has the fields of what `poolsql.operations` returns: moments as ISO 8601 in UTC, durations in seconds. What is
printed is redacted, except what `print_json` is told to be data, and holds nothing that a terminal would obey; what is
cut off or wrapped is so on a terminal only.
"""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import json
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any
from uuid import UUID

from poolsql.durations import format_duration, format_moment

if TYPE_CHECKING:
    from rich.console import Console

NOTHING = "-"
"""What stands in a table for a value that is not there."""


def say(text: str) -> None:
    """Print one line, which may be blank."""
    sys.stdout.write(f"{_safe(text)}\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print one line that is not the answer, such as progress, on standard error."""
    sys.stderr.write(f"{_safe(text)}\n")
    sys.stderr.flush()


def print_json(value: object, *, data: Collection[str] = ()) -> None:
    """Print one JSON document; on one line, so that several are JSON lines.

    Args:
        value: What to print.
        data: Names of fields that hold what the user's pages and targets say: these are told as they are.
    """
    # Where the output cannot show every character, an escape tells it all the same.
    unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json.dumps(_redacted(as_json(value), data), ensure_ascii=not unicode) + "\n")
    sys.stdout.flush()


def print_rows(rows: Sequence[Any], columns: Mapping[str, str], *, as_json: bool, none: str) -> None:
    """Print dataclasses: as a JSON list with all their fields, or as a table of some.

    Args:
        rows: The dataclasses.
        columns: Heading and name of the field, in order.
        as_json: Which of the two.
        none: The line to print instead of an empty table.
    """
    if as_json:
        print_json(rows)
    elif not rows:
        say(none)
    else:
        print_table(list(columns), [[getattr(row, name) for name in columns.values()] for row in rows])


def print_facts(value: Any, *, skip: Iterable[str] = ()) -> None:
    """Print the fields of one dataclass, one a line; those that are not there are left out."""
    left_out = {*skip}
    facts = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in left_out}
    told = {name.replace("_", " "): shown(fact) for name, fact in facts.items() if fact not in (None, (), [], {})}
    width = max(map(len, told), default=0)
    for name, fact in told.items():
        say(f"{name:<{width}}  {fact}")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as the output can show it."""
    cells = [[shown(value) for value in row] for row in rows]
    if on_terminal():
        from rich.box import SIMPLE_HEAD
        from rich.table import Table
        from rich.text import Text

        # A column in which nothing stands takes the place of those that have something to tell.
        told = [column for column in range(len(headings)) if any(row[column] != NOTHING for row in cells)]
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for column in told:
            table.add_column(headings[column], overflow="fold")
        for row in cells:
            table.add_row(*(Text(row[column]) for column in told))
        console().print(table)
        return
    lines = [list(headings), *cells]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def shown(value: object) -> str:
    """A value for people, on one line and redacted."""
    return _safe(_text(value))


def on_terminal() -> bool:
    """Whether standard output is a terminal that can show tables."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def console() -> Console:
    """Standard output by way of rich, which knows COLUMNS and NO_COLOR."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def as_json(value: object) -> Any:  # noqa: PLR0911 - one return a kind
    """A value as JSON has it."""
    match value:
        case Enum():
            return value.value
        case datetime():
            return format_moment(value)
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case Mapping():
            return {str(key): as_json(item) for key, item in value.items()}
        case list() | tuple():
            return [as_json(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        case _ if is_dataclass(value):
            return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
        case _:
            return str(value)


def _text(value: object) -> str:  # noqa: PLR0911 - one return a kind
    match value:
        case None | "":
            return NOTHING
        case bool():
            return "yes" if value else "no"
        case Enum():
            return str(value.value)
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        case timedelta():
            return format_duration(value)
        case Mapping():
            return json.dumps(as_json(value), ensure_ascii=False) if value else NOTHING
        case list() | tuple():
            return ", ".join(_text(item) for item in value) or NOTHING
        case _:
            return str(value)


def _safe(text: str) -> str:
    from poolsql.logs import one_line
    from poolsql.redaction import redact

    return one_line(redact(text))


def _redacted(value: Any, data: Collection[str]) -> Any:
    from poolsql.redaction import redact

    match value:
        case str():
            return redact(value)
        case dict():
            return {key: item if key in data else _redacted(item, data) for key, item in value.items()}
        case list():
            return [_redacted(item, data) for item in value]
        case _:
            return value
