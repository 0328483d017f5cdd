"""The reference of fleet.toml names every key with its default, and the example is right."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import poolsql
from poolsql.configuration.job_reading import JOB_KEYS
from poolsql.configuration.profile_reading import PROFILE_KEYS
from poolsql.configuration.reading import HOST_KEYS, LAUNCHER_KEYS, POOL_KEYS, PROXY_KEYS, TABLES, read_fleet_file
from poolsql.durations import parse_duration
from poolsql.leasing.policy import PoolPolicy
from poolsql.settings import load_settings

ROOT = Path(poolsql.__file__).parents[1]


def rows(section: str) -> dict[str, str]:
    """Keys and defaults of a section of the reference."""
    text = (ROOT / "docs" / "fleet-toml.md").read_text()
    (body,) = re.findall(rf"^## {section}\n(.*?)(?=^## )", text, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \| ", body, re.MULTILINE))


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("pools", POOL_KEYS),
        ("launchers", LAUNCHER_KEYS),
        ("proxies", PROXY_KEYS),
        ("profiles", PROFILE_KEYS),
        ("hosts", HOST_KEYS),
        ("jobs", JOB_KEYS),
    ],
    ids=TABLES,
)
def test_the_reference_has_every_key(section: str, keys: tuple[str, ...]) -> None:
    assert sorted(rows(section)) == sorted(keys)


@pytest.mark.parametrize("field", fields(PoolPolicy), ids=lambda field: field.name)
def test_the_reference_has_the_defaults_of_a_pool(field: Any) -> None:
    told = rows("pools")[field.name]
    if field.default is None:
        assert told == "off"
    elif "timedelta" in field.type:
        assert parse_duration(told.split(",")[0].strip('`"')) == field.default
    else:
        assert told.split(",")[0] == f"`{field.default}`"


def test_the_example_is_right() -> None:
    file = read_fleet_file(ROOT / "examples" / "fleet.toml", load_settings())
    assert file.problems == []
    assert (len(file.profiles), sorted(file.jobs)) == (4, ["by-hand", "prices"])


def test_what_the_readme_shows_is_right_and_short(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(example.splitlines()) <= 10
    (tmp_path / "fleet.toml").write_text(example, encoding="utf-8")
    file = read_fleet_file(tmp_path / "fleet.toml", load_settings())
    assert file.problems == []
    assert (len(file.profiles), list(file.jobs)) == (1, ["titles"])
