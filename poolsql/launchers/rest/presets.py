"""Presets: data files that describe the API of one product each, in the same words as a launcher's options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from poolsql.errors import BadInputError
from poolsql.text import did_you_mean

_SUFFIX = ".toml"


def preset_names() -> list[str]:
    """The names of all presets, sorted."""
    folder = files("poolsql.launchers.rest") / "presets"
    return sorted(file.name.removesuffix(_SUFFIX) for file in folder.iterdir() if file.name.endswith(_SUFFIX))


def load_preset(name: str) -> dict[str, Any]:
    """The options of a preset.

    Raises:
        BadInputError: There is none of that name.
    """
    known = preset_names()
    if name not in known:
        raise BadInputError(f"{name!r} is not known{did_you_mean(name, known)} (known: {', '.join(known)})")
    file = files("poolsql.launchers.rest") / "presets" / f"{name}{_SUFFIX}"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def with_preset(preset: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A preset's options with a launcher's own, which win; tables of both are joined, except within a ``body``."""
    joined = dict(preset)
    for name, value in own.items():
        before = joined.get(name)
        if name != "body" and isinstance(before, Mapping) and isinstance(value, Mapping):
            joined[name] = with_preset(before, value)
        else:
            joined[name] = value
    return joined
