"""Values of TOML as jsonb keeps them, and whether two mean the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time
from typing import Any


def as_json(value: Any) -> Any:
    """A value of TOML as JSON: dates and times become text."""
    match value:
        case Mapping():
            return {key: as_json(inner) for key, inner in value.items()}
        case list() | tuple():
            return [as_json(inner) for inner in value]
        case date() | time():
            return value.isoformat()
        case _:
            return value


def same(one: Any, other: Any) -> bool:
    """Whether two values mean the same once they have been jsonb: 1 and 1.0 do, 1 and true do not."""
    return _canonical(one) == _canonical(other)


def _canonical(value: Any) -> str:
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: Any) -> Any:
    match value:
        case Mapping():
            # TOML has no null: what is null and what is not there are the same.
            return {key: _plain(inner) for key, inner in value.items() if inner is not None}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case float():
            return int(value) if value.is_integer() else value
        case date() | time():
            return value.isoformat()
        case _:
            return value
