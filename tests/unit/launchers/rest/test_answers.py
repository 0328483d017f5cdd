from __future__ import annotations

from typing import Any

import pytest

from poolsql.errors import BadInputError
from poolsql.launchers.rest.answers import MISSING, BrowserState, JsonPath, StatusRule, SuccessRule

DATA: Any = {"data": {"cdp_url": "ws://x", "list": [{"a": 1}], "none": None}, "code": 0, "ok": True}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("data.cdp_url", "ws://x"),
        ("code", 0),
        ("data.list.0.a", 1),
        ("data.none", None),
        ("data.missing", MISSING),
        ("data.list.1", MISSING),
        ("data.list.a", MISSING),
        ("code.x", MISSING),
        ("data.none.x", MISSING),
    ],
)
def test_values_are_found_by_their_path(path: str, value: object) -> None:
    assert JsonPath.parse(path).find(DATA) == value


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "a b", 1, None])
def test_what_is_no_path_is_refused(path: object) -> None:
    with pytest.raises(BadInputError, match="no path to a value"):
        JsonPath.parse(path)


@pytest.mark.parametrize(
    ("path", "wanted", "problem"),
    [
        ("code", 0, None),
        ("ok", True, None),
        ("data.none", None, None),
        ("code", 1, "code is '0' instead of '1'"),
        ("code", False, "code is '0' instead of 'false'"),
        ("ok", 1, "ok is 'true' instead of '1'"),
        ("data.missing", "", "it has no data.missing"),
    ],
)
def test_an_answer_must_have_the_wanted_values(path: str, wanted: Any, problem: str | None) -> None:
    assert SuccessRule(equals=((JsonPath(path), wanted),)).problem(DATA) == problem


@pytest.mark.parametrize(("status", "good"), [(199, False), (200, True), (204, True), (299, True), (300, False)])
def test_success_is_any_2xx_by_default(status: int, good: bool) -> None:
    assert SuccessRule().status_is_good(status) is good


@pytest.mark.parametrize(
    ("value", "state"),
    [(True, "running"), (False, "stopped"), ("Active", "starting"), ("Odd", "unknown"), (None, "unknown")],
)
def test_a_state_is_told_by_the_text_of_a_value(value: Any, state: str) -> None:
    rule = StatusRule(
        JsonPath("data.state"),
        {"true": BrowserState.RUNNING, "false": BrowserState.STOPPED, "Active": BrowserState.STARTING},
    )
    assert rule.state({"data": {"state": value}}) == state
    assert rule.state({"data": {}}) is BrowserState.UNKNOWN
