"""The examples of the page on launchers are launchers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from poolsql.fleet.browsers import build_launcher
from poolsql.leasing.registry import LauncherRow
from poolsql.settings import Settings

PAGE = Path(__file__).parents[4] / "docs" / "launchers.md"
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_can_be_used(example: str, settings: Settings) -> None:
    document = tomllib.loads(example)
    assert document["launchers"]
    for name, options in document["launchers"].items():
        kind = options.pop("kind", "rest")
        launcher = build_launcher(LauncherRow(name, kind, options), settings)
        assert launcher.kind == kind
        for profile in document.get("profiles", []):
            if profile["launcher"] == name:
                known = {"pool", "launcher", "id"}
                launcher.check_options({key: value for key, value in profile.items() if key not in known})
