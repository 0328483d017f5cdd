"""Writing values as TOML. No library of ours writes it, and a fleet.toml needs few of its forms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from poolsql.errors import BadInputError

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST_LINE = 100
"""Characters of a list that is written on one line."""


def toml_key(name: str) -> str:
    """A key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else _text(name)


def toml_value(value: Any) -> str:
    """A value; lists that are long are written over several lines.

    Raises:
        BadInputError: A list holds a null, or something in it is no value of TOML.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            pairs = [f"{toml_key(key)} = {toml_value(inner)}" for key, inner in value.items() if inner is not None]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case list() | tuple():
            return _list([toml_value(inner) for inner in value])
        case _:
            raise BadInputError(f"{value!r} is no value that TOML knows")


def toml_table(header: str, values: Mapping[str, Any]) -> str:
    """A table with its header, such as ``[pools.shop]``; keys whose values are None are left out."""
    lines = [f"{toml_key(key)} = {toml_value(value)}" for key, value in values.items() if value is not None]
    return "\n".join([header, *lines, ""])


def _list(items: list[str]) -> str:
    if sum(map(len, items)) + 2 * len(items) <= _LONGEST_LINE and not any("\n" in item for item in items):
        return f"[{', '.join(items)}]"
    return "[\n" + "".join(f"    {item},\n" for item in items) + "]"


def _text(text: str) -> str:
    # JSON's escapes are TOML's, except that TOML wants DEL escaped too.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
