from __future__ import annotations

import pytest

from poolsql.errors import BadInputError
from poolsql.scraping.selectors import checked_selector


@pytest.mark.parametrize(
    "css",
    [
        "h1",
        "h1, h2 > a[href^='x' i]",
        "div:has(> p):not(.a, .b)",
        ":is(h1, h2):where(.x)",
        "li:nth-child(2 of .x)",
        "#a\\.b",
        "dialog:modal",
        "input:valid",
        "input:user-invalid",
        '[title=":contains(x) text= ::before"]',
        "my-element",
        "a /* a comment */ b",
        "überschrift",
        "*",
    ],
)
def test_what_browsers_take_is_let_through(css: str) -> None:
    assert checked_selector(f" {css}\n", "place") == css


@pytest.mark.parametrize(
    ("css", "told"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        (5, "5 is no CSS selector; write a text"),
        (None, "None is no CSS selector"),
        ("h1,", "'h1,' is no CSS selector: .* position [23]"),
        ("..x", "malformed class selector"),
        ("div >", "no CSS selector"),
        ("a[href", "malformed attribute selector"),
        ("a:hass(b)", "':hass' was detected as a pseudo-class"),
        ("a:validd", "':validd' was detected"),
        ("#1", "malformed id selector"),
        ("a:not()", "expected a selector"),
        ("p::first-line", "pseudo-element such as ::before is no element"),
        ("h1:contains('x')", "CSS cannot look for text"),
        ("h1:has-text('x')", "CSS cannot look for text"),
        ("text=Sold", "CSS cannot look for text"),
        ("//div[@id='x']", "looks like XPath"),
        ("//*", "looks like XPath"),
        ("/html/body", "looks like XPath"),
        ("h1\x00", "holds a NUL"),
        ("a" * 2001, "more than 2,000 characters"),
        ('[a="' + "\\" * 1501, "no CSS selector"),
    ],
)
def test_what_browsers_refuse_is_told_with_its_place(css: object, told: str) -> None:
    with pytest.raises(BadInputError, match=told) as raised:
        checked_selector(css, "extract.price")
    assert str(raised.value).startswith("extract.price: ")
    assert "\n" not in str(raised.value)
