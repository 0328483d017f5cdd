from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from poolsql.errors import BadInputError
from poolsql.scraping.extraction import Field, ValueType, parse_fields
from poolsql.scraping.numbers import DecimalMark
from poolsql.scraping.steps import PageSteps

DOCUMENT = Path(__file__).parents[3] / "docs" / "extraction.md"


def parse(toml: str) -> dict[str, Field]:
    return parse_fields(tomllib.loads(toml))


def test_a_text_is_a_selector_and_a_table_says_more() -> None:
    assert parse("""
        title = "h1"
        price = { css = ".price", type = "decimal", decimal_mark = "," }
        links = { css = "a", attribute = "href", all = true, type = "url" }
        stock = { css = ".stock", type = "integer", default = 0 }
        sold = { css = ".sold", type = "boolean" }
        note = { css = ".note", required = false }
    """) == {
        "title": Field("h1"),
        "price": Field(".price", type=ValueType.DECIMAL, decimal_mark=DecimalMark.COMMA),
        "links": Field("a", "href", all=True, type=ValueType.URL),
        "stock": Field(".stock", required=False, type=ValueType.INTEGER, default=0),
        "sold": Field(".sold", type=ValueType.BOOLEAN),
        "note": Field(".note", required=False),
    }


@pytest.mark.parametrize(
    ("kind", "written", "kept"),
    [
        ("text", "'none'", "none"),
        ("text", "''", ""),
        ("integer", "-3", -3),
        ("decimal", "0", "0"),
        ("decimal", "0.10", "0.1"),
        ("decimal", "'1234.50'", "1234.50"),
        ("url", "'https://shop.example'", "https://shop.example/"),
        ("json", "{ a = [1] }", {"a": [1]}),
    ],
)
def test_a_default_has_the_form_of_a_value(kind: str, written: str, kept: Any) -> None:
    field = parse(f"x = {{ css = 'p', type = '{kind}', default = {written} }}")["x"]
    assert field.default == kept
    assert type(field.default) is type(kept)
    assert not field.required
    listed = parse(f"x = {{ css = 'p', type = '{kind}', all = true, default = [{written}] }}")["x"]
    assert listed.default == [kept]


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("{ css = 'p', typ = 'text' }", "extract.x.typ: unknown; did you mean 'type'?"),
        ("{ css = 'p', zzz = 1 }", "extract.x.zzz: unknown$"),
        ("{ attribute = 'href' }", "extract.x.css: missing"),
        ("{ css = 'p', type = 'number' }", "extract.x.type: 'number' is none of text, integer, decimal"),
        ("{ css = 'p', type = 'integr' }", "did you mean 'integer'?"),
        ("{ css = 'p', type = 5 }", "extract.x.type: 5 is none of"),
        ("{ css = 'p', all = 'yes' }", "extract.x.all: 'yes' is neither true nor false"),
        ("{ css = 'p', required = 0 }", "extract.x.required: 0 is neither"),
        ("{ css = 'p', attribute = 'a b' }", "extract.x.attribute: 'a b' is no name of an attribute"),
        ("{ css = 'p', attribute = ['a'] }", "extract.x.attribute: .* is no name"),
        ("{ css = 'p', default = 5 }", "extract.x.default: 5 is no text"),
        ("{ css = 'p', type = 'integer', default = '5' }", "extract.x.default: '5' is no integer"),
        ("{ css = 'p', type = 'integer', default = true }", "extract.x.default: True is no integer"),
        ("{ css = 'p', type = 'integer', default = 1.5 }", "extract.x.default: 1.5 is no integer"),
        ("{ css = 'p', type = 'decimal', default = 'none' }", "extract.x.default: 'none' is no decimal"),
        ("{ css = 'p', type = 'decimal', default = nan }", "extract.x.default: nan is no decimal"),
        ("{ css = 'p', type = 'url', default = '/x' }", "extract.x.default: '/x': not an http"),
        ("{ css = 'p', all = true, default = 'a' }", "extract.x.default: 'a' is no list"),
        ("{ css = 'p', all = true, default = ['a', 1] }", "extract.x.default: 1 is no text"),
        ("{ css = 'p', required = true, default = 'a' }", "extract.x.default: is never used while required = true"),
        (
            "{ css = 'p', type = 'boolean', required = false }",
            "extract.x.required: a boolean is true or false by itself",
        ),
        ("{ css = 'p', type = 'boolean', default = false }", "extract.x.default: a boolean"),
        ("{ css = 'p', type = 'boolean', all = true }", "extract.x.all: a boolean"),
        ("{ css = 'p', decimal_mark = ',' }", "extract.x.decimal_mark: is only for type = 'decimal'"),
        ("{ css = 'p', type = 'decimal', decimal_mark = ';' }", "extract.x.decimal_mark: ';' is none of"),
        ("{ css = 'h1,' }", "extract.x.css: 'h1,' is no CSS selector"),
        ("'h1,'", "extract.x: 'h1,' is no CSS selector"),
        ("''", "extract.x: the CSS selector is empty"),
        ("5", "extract.x: 5 is no CSS selector"),
        ("['h1']", "extract.x: .* is no CSS selector"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(field: str, told: str) -> None:
    with pytest.raises(BadInputError, match=told):
        parse(f"x = {field}")


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadInputError) as raised:
        parse("""
            a = { css = "..x", typ = "text", all = 1 }
            b = "h1"
            c = { type = "nothing" }
        """)
    told = str(raised.value).split("; ")
    assert [problem.split(":")[0] for problem in told if problem.startswith("extract.")] == [
        "extract.a.typ",
        "extract.a.css",
        "extract.a.all",
        "extract.c.css",
        "extract.c.type",
    ]


def test_names_that_cannot_be_kept_are_told() -> None:
    for name in (" ", "a\0b", "x" * 501):
        with pytest.raises(BadInputError, match=r"field .* must be a text"):
            parse_fields({name: "h1"})


@pytest.mark.parametrize("values", [{}, None, "h1", ["h1"]])
def test_no_fields_at_all_are_told(values: object) -> None:
    with pytest.raises(BadInputError, match="write at least one field"):
        parse_fields(values)


def test_what_the_document_shows_is_taken() -> None:
    examples = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    job, steps, handler = (tomllib.loads(example) for example in examples)
    prices = job["jobs"]["prices"]
    assert parse_fields(prices.pop("extract")).keys() == {"title", "price", "images"}
    assert PageSteps.parse(prices).wait_for == "#offers"
    assert len(PageSteps.parse(steps).click) == 2
    assert handler.keys() == {"handler"}


def test_the_document_names_every_key_and_type() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    for kind in ValueType:
        assert f"\n| `{kind.value}` |" in document
    for key in Field.__dataclass_fields__:
        assert f"\n| `{key}` |" in document
