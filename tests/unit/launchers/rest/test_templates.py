from __future__ import annotations

from datetime import date
from urllib.parse import quote

import pytest

from poolsql.errors import BadInputError
from poolsql.launchers.rest.templates import JsonTemplate, Template, Value, as_text

VALUES: dict[str, Value] = {"id": "a/b c", "headless": False, "port": 9222, "ratio": 1.5}


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("", ""),
        ("/profiles/{id}/start", "/profiles/a/b c/start"),
        ("{id}{port}", "a/b c9222"),
        ("?headless={headless}", "?headless=false"),
        ("{{id}} {{{port}}}", "{id} {9222}"),
    ],
)
def test_places_are_filled(text: str, filled: str) -> None:
    assert Template.parse(text).fill(VALUES) == filled


def test_values_and_nothing_else_are_encoded() -> None:
    template = Template.parse("/a/{id}?x={ratio}&y=1")
    assert template.fill(VALUES, encode=lambda text: quote(text, safe="")) == "/a/a%2Fb%20c?x=1.5&y=1"
    assert template.names == {"id", "ratio"}


@pytest.mark.parametrize("text", ["{", "}", "{}", "{a b}", "{1}", "x{id", "id}", "{{id}", "{{{id}}"])
def test_a_brace_that_stands_for_nothing_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="a brace at character"):
        Template.parse(text)


def test_a_text_that_is_one_place_keeps_the_type_of_its_value() -> None:
    body = JsonTemplate.parse(
        {"headless": "{headless}", "args": ["{port}", "p={port}", 1, None, True], "deep": {"id": "{id}"}, "x": 0.5}
    )
    assert body.names == {"headless", "port", "id"}
    assert body.fill(VALUES) == {
        "headless": False,
        "args": [9222, "p=9222", 1, None, True],
        "deep": {"id": "a/b c"},
        "x": 0.5,
    }


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [{"b": "{"}]}, r"body\.a\.0\.b: a brace"),
        ({"a": date(2026, 1, 1)}, r"body\.a: .* is no JSON"),
        ([float("nan")], r"body\.0: nan is no JSON"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_place(value: object, place: str) -> None:
    with pytest.raises(BadInputError, match=place):
        JsonTemplate.parse(value)


@pytest.mark.parametrize(("value", "text"), [(None, "null"), (True, "true"), (False, "false"), (0, "0"), ("x", "x")])
def test_values_in_a_text_are_written_as_in_json(value: str | int | None, text: str) -> None:
    assert as_text(value) == text
