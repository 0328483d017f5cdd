from __future__ import annotations

import tomllib

import pytest

from poolsql.errors import BadInputError
from poolsql.scraping.steps import Click, PageSteps


def parse(toml: str) -> PageSteps:
    return PageSteps.parse(tomllib.loads(toml))


def test_steps_are_read_in_all_their_forms() -> None:
    assert parse("") == PageSteps()
    assert parse("""
        wait_until = "networkidle"
        wait_for = " #list "
        click = ["#more", { css = ".consent", optional = true }, { css = "#tab", wait_for = "#panel" }]
    """) == PageSteps(
        "networkidle", "#list", (Click("#more"), Click(".consent", optional=True), Click("#tab", wait_for="#panel"))
    )
    assert parse("click = '#more'").click == (Click("#more"),)
    assert parse("click = { css = '#more', optional = true }").click == (Click("#more", optional=True),)


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        ("wait_untill = 'load'", "wait_untill: unknown; did you mean 'wait_until'?"),
        (
            "wait_until = 'loaded'",
            "wait_until: 'loaded' is none of commit, .*; did you mean '(dom)?(content)?load(ed)?'",
        ),
        ("wait_until = 5", "wait_until: 5 is none of"),
        ("wait_until = []", "wait_until: \\[\\] is none of"),
        ("wait_for = 'h1,'", "wait_for: 'h1,' is no CSS selector"),
        ("wait_for = ''", "wait_for: the CSS selector is empty"),
        ("wait_for = 5", "wait_for: 5 is no CSS selector"),
        ("click = 5", "click 1: 5 is no CSS selector"),
        ("click = ['a', '..b']", "click 2: '..b' is no CSS selector"),
        ("click = [{ optional = true }]", "click 1.css: missing"),
        ("click = [{ css = 'a', optional = 1 }]", "click 1.optional: 1 is neither true nor false"),
        ("click = [{ css = 'a', option = true }]", "click 1.option: unknown; did you mean 'optional'?"),
        ("click = [{ css = 'a', wait_for = ':nope' }]", "click 1.wait_for: ':nope' is no CSS selector"),
        ("wait_for = ''\nclick = 5", "wait_for: .*; click 1: "),
    ],
)
def test_what_is_wrong_is_told_with_its_place(toml: str, told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        parse(toml)


def test_the_names_are_those_that_parse_reads() -> None:
    for name in PageSteps.NAMES:
        with pytest.raises(BadInputError) as raised:
            PageSteps.parse({name: 5})
        assert "unknown" not in str(raised.value)
