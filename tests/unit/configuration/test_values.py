"""Values on their way from TOML to jsonb and back."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pytest

from poolsql.configuration.canonical import as_json, same
from poolsql.configuration.changes import Action, Change, Difference, Plan
from poolsql.configuration.entries import FleetFile
from poolsql.configuration.locations import Locations
from poolsql.configuration.problems import Problems
from poolsql.configuration.toml_writing import toml_key, toml_table, toml_value
from poolsql.errors import BadInputError

VALUES: list[Any] = [
    True,
    7,
    -1.5,
    1e300,
    "plain",
    'quotes " and \\ and \n\t\r\b\f \x01 \x7f é 😀',
    [],
    ["a", ["b", 1], {"c": 2}],
    [f"https://a.test/{number}" for number in range(20)],
    {},
    {"a b": {"é": [1.25]}, "": "empty", 'q"': True},
    {"list": [f"https://a.test/{number}" for number in range(20)]},
    datetime(2026, 12, 1, 6, tzinfo=UTC),
    datetime(2026, 12, 1, 6, 0, 1),  # noqa: DTZ001 - TOML has such
    date(2026, 12, 1),
    time(6, 0, 1),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_is_written_is_read_the_same(value: Any) -> None:
    read = tomllib.loads(f"{toml_key('a key')} = {toml_value(value)}\n")["a key"]
    assert (read, type(read)) == (value, type(value))


def test_a_table_leaves_out_what_is_not_there() -> None:
    written = toml_table('[hosts."a.test"]', {"delay": None, "text": "x", "inner": {"a": None, "b": 1}})
    assert written == '[hosts."a.test"]\ntext = "x"\ninner = { b = 1 }\n'


def test_a_null_in_a_list_can_not_be_written() -> None:
    with pytest.raises(BadInputError, match="None is no value that TOML knows"):
        toml_value([1, None])


def test_dates_become_text_in_json() -> None:
    value = {"at": date(2026, 12, 1), "list": [time(6, 0)], "n": 1}
    assert as_json(value) == {"at": "2026-12-01", "list": ["06:00:00"], "n": 1}
    assert same(value, as_json(value))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1e5, 100000, True),
        ({"a": None}, {}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
        ("1", 1, False),
        (None, None, True),
        (None, "null", False),
    ],
)
def test_values_are_the_same_when_jsonb_could_not_tell_them_apart(one: Any, other: Any, alike: bool) -> None:
    assert same(one, other) is alike


def change(action: Action, **values: Any) -> Change:
    """A change of a profile."""
    return Change(action=action, kind="profile", **{"name": "l/a", **values})


def test_a_change_reads_as_a_line() -> None:
    assert str(change(Action.ADD)) == "+ profile l/a"
    assert str(change(Action.GONE, note="not in the file")) == "- profile l/a (not in the file)"
    differences = [Difference("seed", None, "7"), Difference("tags", ["x"], []), Difference("on", True, False)]
    assert str(change(Action.CHANGE, differences=differences, note="x")) == (
        '~ profile l/a: seed none → 7, tags ["x"] → [], on true → false (x)'
    )
    assert str(change(Action.CHANGE, differences=[Difference("list", "a" * 61, "")])) == "~ profile l/a: list changed"


def test_many_that_are_alike_share_a_line_and_others_do_not() -> None:
    many = [change(Action.ADD, name=f"l/{number}", group="launcher l in pool p") for number in range(21)]
    few = [change(Action.REMOVE, name=f"l/{number}", group="launcher l in pool p") for number in range(20)]
    plan = Plan(
        file=FleetFile(path=Path("fleet.toml"), collector=Problems(Locations(""))),
        prune=True,
        changes=[*many, *few],
    )
    assert plan.lines() == ["+ 21 profiles of launcher l in pool p", *(f"- profile l/{n}" for n in range(20))]
    assert plan.summary() == "21 to add, 20 to remove"
    assert plan.summary(done=True) == "21 added, 20 removed"
