from __future__ import annotations

from typing import Any

import pytest

from poolsql.errors import BadInputError, LaunchFailedError
from poolsql.launchers.contract import LaunchRequest
from poolsql.launchers.rest.answers import BrowserState
from poolsql.launchers.rest.launcher import RestLauncher
from poolsql.launchers.rest.options import RestOptions
from poolsql.launchers.rest.presets import load_preset, preset_names, with_preset
from poolsql.launchers.rest.reading import read_options

OWN: dict[str, Any] = {
    "base_url": "https://vendor.example:45001/api/v2/",
    "headers": {"X-Api-Key": "file:/run/secrets/key", "X-Client": "poolsql"},
    "start": {
        "method": "GET",
        "path": "/profile/f/{folder}/p/{id}/start?headless_mode={headless}",
        "success": {"status": [200, 399], "equals": {"status.error_code": ""}},
    },
    "stop": {"method": "GET", "path": "/profile/stop?profile_id={id}"},
    "status": {
        "method": "GET",
        "path": "/profile/{id}",
        "value": "data.status",
        "states": {"Active": "running", "Inactive": "stopped"},
    },
    "cdp_url": "data.ws",
    "headless": True,
    "variables": {"folder": "main"},
    "request_timeout": "5s",
    "start_timeout": "2m",
}
PRESET: dict[str, Any] = {"preset": "justbrowser", "token": "env:JB_TOKEN"}


def read(**own: Any) -> RestOptions:
    return read_options({**OWN, **own})


def problems(own: dict[str, Any]) -> str:
    with pytest.raises(BadInputError, match="options of a rest launcher: ") as told:
        read_options(own)
    return str(told.value)


def test_the_preset_is_the_api_that_the_product_has() -> None:
    options = read_options(PRESET)
    assert options.base_url == "http://127.0.0.1:36542/api/v1"
    assert (options.start.method, options.stop.method) == ("POST", "POST")
    values = {"id": "profile_a1b2c3d4", **options.variables}
    assert options.start.path.fill(values) == "/profiles/profile_a1b2c3d4/start"
    assert options.stop.path.fill(values) == "/profiles/profile_a1b2c3d4/stop"
    assert options.start.body is not None
    assert options.start.body.fill(values) == {"headless": False}
    assert (options.stop.body, options.status) == (None, None)
    assert options.cdp_url.text == "data.cdp_url"
    assert options.token == "env:JB_TOKEN"


@pytest.mark.parametrize("name", preset_names())
def test_each_preset_can_be_used_with_nothing_but_a_token(name: str) -> None:
    assert read_options({"preset": name, "token": "env:T"}).variables.keys() == {"headless"}
    assert "token" not in load_preset(name)


def test_everything_can_be_said_without_a_preset() -> None:
    options = read()
    assert options.base_url == "https://vendor.example:45001/api/v2"
    assert (options.request_timeout, options.start_timeout) == (5, 120)
    assert dict(options.variables) == {"headless": True, "folder": "main"}
    assert options.start.success.status_is_good(399)
    assert options.start.success.problem({"status": {"error_code": "X"}}) is not None
    assert options.status_rule is not None
    assert options.status_rule.state({"data": {"status": "Inactive"}}) is BrowserState.STOPPED
    assert [header.reference for header in options.headers] == ["file:/run/secrets/key", None]


def test_own_values_win_over_the_preset_and_leave_the_rest_of_it() -> None:
    options = read_options(
        {
            **PRESET,
            "base_url": "http://127.0.0.1:1",
            "headless": True,
            "start": {"path": "/open/{id}"},
            "headers": {"X-Client": "me"},
        }
    )
    assert (options.base_url, options.start.method) == ("http://127.0.0.1:1", "POST")
    assert options.start.path.fill({"id": "x"}) == "/open/x"
    assert [header.name for header in options.headers] == ["Authorization", "X-Client"]
    assert options.variables == {"headless": True}
    assert with_preset({"start": {"body": {"a": 1}}}, {"start": {"body": {"b": 2}}}) == {"start": {"body": {"b": 2}}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"preset": "justbrowsr"}, "preset: 'justbrowsr' is not known; did you mean 'justbrowser'?"),
        ({"preset": 3}, "preset: must be the name"),
        ({"tokn": "env:X"}, "tokn: unknown; did you mean 'token'?"),
        ({"base_url": None}, "base_url: missing"),
        ({"base_url": 7}, "base_url: must be text"),
        ({"base_url": "ftp://x"}, "base_url: must have the form"),
        ({"base_url": "http://"}, "base_url: must have the form"),
        ({"base_url": "http://x/?a=1"}, "base_url: must have the form"),
        ({"base_url": "http://x:99999"}, "base_url: is no address"),
        ({"base_url": "http://x y"}, "base_url: must have the form"),
        ({"headers": []}, "headers: must be a table"),
        ({"headers": {"X Y": "a"}}, "headers.X Y: is no name"),
        ({"headers": {"X": "a\r\nb"}}, "headers.X: must be a text of one line"),
        ({"headers": {"X": 3}}, "headers.X: must be a text of one line"),
        ({"headers": {"X": "{"}}, "headers.X: a brace"),
        ({"headers": {"X": "{id}"}}, "headers.X: {id} may stand in a path or a body only"),
        ({"headers": {"X": "{token}"}}, "token is missing, and header X needs it"),
        ({"token": "env:T"}, "token is used by no header"),
        ({"start": None}, "start: missing"),
        ({"start": "POST"}, "start: must be a table"),
        ({"start": {**OWN["start"], "methd": "GET"}}, "start.methd: unknown; did you mean 'method'?"),
        ({"start": {**OWN["start"], "method": "get"}}, "start.method: must be one of"),
        ({"start": {**OWN["start"], "body": {}}}, "start.body: a GET has none"),
        ({"start": {"path": "no/slash/{id}"}}, "start.path: must be text that begins with a slash"),
        ({"start": {"path": "/{id"}}, "start.path: a brace"),
        ({"start": {"path": "/all"}}, "start: neither its path nor its body names the profile"),
        ({"start": {"path": "/{id}/{foldr}"}}, "start: {foldr} has no value; did you mean 'folder'?"),
        ({"start": {"path": "/{id}/{token}"}}, "start: {token} may stand in headers only"),
        ({"start": {"path": "/{id}", "body": {"a": ["}"]}}}, "start: body.a.0: a brace"),
        ({"start": {"path": "/{id}", "success": 3}}, "start.success: must be a table"),
        ({"start": {"path": "/{id}", "success": {"status": [300, 200]}}}, "start.success: status must be"),
        ({"start": {"path": "/{id}", "success": {"equals": {"a..b": 1}}}}, "start.success: 'a..b' is no path"),
        ({"start": {"path": "/{id}", "success": {"equals": {"a": []}}}}, "start.success: equals compares"),
        (
            {"start": {"path": "/{id}", "success": {"equal": {}}}},
            "start.success.equal: unknown; did you mean 'equals'?",
        ),
        ({"status": {"path": "/{id}", "value": "a"}}, "status.states: must be a table"),
        ({"status": {"path": "/{id}", "states": {"a": "running"}}}, "status.value: missing"),
        ({"status": {**OWN["status"], "states": {"a": "runing"}}}, "'runing' is no state; did you mean 'running'?"),
        ({"cdp_url": None}, "cdp_url: missing"),
        ({"cdp_url": "a b"}, "cdp_url: 'a b' is no path"),
        ({"errors": "limit"}, "errors: must be a table"),
        ({"errors": {"limits": "x"}}, "errors: 'limits' is no refusal; did you mean 'limit'?"),
        ({"errors": {"limit": []}}, "errors: limit must be a regular expression"),
        ({"errors": {"limit": ["a", ""]}}, "errors: limit must be a regular expression"),
        ({"errors": {"limit": 429}}, "errors: limit must be a regular expression"),
        ({"errors": {"limit": "("}}, "errors: limit is no regular expression"),
        ({"headless": "yes"}, "headless: must be true or false"),
        ({"variables": []}, "variables: must be a table"),
        ({"variables": {"id": "x"}}, "variables.id: cannot be the name"),
        ({"variables": {"a b": "x"}}, "variables.a b: cannot be the name"),
        ({"variables": {"folder": []}}, "variables.folder: must be a text"),
        ({"variables": {"folder": ".."}}, "variables.folder: cannot be a part of an address"),
        ({"variables": {"folder": "env:KEY"}}, "variables.folder: is sent as it is"),
        ({"variables": {"folder": float("inf")}}, "variables.folder: must be a finite number"),
        ({"variables": {"folder": "x", "seed": 1}}, "variables.seed: no path, body or header has the place {seed}"),
        ({"request_timeout": "0s"}, "request_timeout: must be more than 0"),
        ({"start_timeout": "soon"}, "start_timeout: "),
        ({"start_timeout": "1h"}, "start_timeout: must be more than 0 and at most 600 seconds"),
    ],
)
def test_what_cannot_be_right_is_named_with_its_place(change: dict[str, Any], expected: str) -> None:
    assert expected in problems({**OWN, **change})


def test_headless_is_refused_where_the_api_does_not_know_it() -> None:
    assert "headless: no path" in problems({**PRESET, "start": {"body": {}}, "headless": True})
    assert read_options({**PRESET, "start": {"body": {}}}).variables == {}


def test_all_problems_are_told_at_once() -> None:
    told = problems({**PRESET, "token": "plain", "hedless": 1, "start_timeout": -1})
    for problem in ("token is given ", "hedless: ", "start_timeout: "):
        assert problem in told


@pytest.mark.parametrize(
    "own",
    [
        {**PRESET, "token": "canary-8d21"},
        {**PRESET, "token": ["canary-8d21"]},
        {**PRESET, "headers": {"Authorization": "Bearer canary-8d21"}},
        {**OWN, "headers": {"X-Api-Key": "canary-8d21"}},
        {**OWN, "headers": {"Cookie": "canary-8d21"}},
        {**PRESET, "base_url": "http://me:canary-8d21@127.0.0.1/"},
    ],
)
def test_a_secret_in_the_clear_is_refused_and_not_repeated_i11(own: dict[str, Any]) -> None:
    told = problems(own)
    assert "canary" not in told
    assert "env:NAME or file:/path" in told


def test_a_profile_may_have_its_own_values_of_the_variables() -> None:
    options = read()
    assert options.values({}) == {"headless": True, "folder": "main"}
    assert options.values({"headless": False, "folder": "other"}) == {"headless": False, "folder": "other"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"foldr": "x"}, "foldr: unknown; did you mean 'folder'? (known: headless, folder)"),
        ({"folder": ""}, "folder: cannot be a part of an address"),
        ({"headless": 1}, "headless: must be true or false"),
    ],
)
def test_options_of_a_profile_are_checked_too(given: dict[str, Any], expected: str) -> None:
    launcher = RestLauncher("v", "here", OWN)
    with pytest.raises(BadInputError) as told:
        launcher.check_options(given)
    assert expected in str(told.value)
    with pytest.raises(LaunchFailedError, match="profile p1: "):
        launcher.prepare(LaunchRequest(lease_id=1, profile_id=1, profile_key="p1", options=given))


def test_the_handle_keeps_what_a_stop_needs_to_name_the_profile() -> None:
    launcher = RestLauncher("v", "here", OWN)
    request = LaunchRequest(lease_id=1, profile_id=1, profile_key="p1", options={"folder": "other"})
    handle = launcher.prepare(request)
    assert handle.variables == {"headless": True, "folder": "other"}
    assert launcher._stop_values(handle) == {"headless": True, "folder": "other", "id": "p1"}
    assert type(handle).from_json(handle.to_json()) == handle


@pytest.mark.parametrize(
    ("base_url", "here"),
    [
        ("http://127.0.0.1:36542/api/v1", True),
        ("http://localhost:5050", True),
        ("http://[::1]:5050", True),
        ("http://192.0.2.7:36542", False),
        ("https://vendor.example", False),
    ],
)
def test_a_product_behind_the_loopback_is_reached_from_its_machine_only(base_url: str, here: bool) -> None:
    launcher = RestLauncher("v", "here", {**OWN, "base_url": base_url})
    assert launcher.stops_here_only is here
    assert not launcher.pins_machine
    assert launcher.start_seconds == 120
