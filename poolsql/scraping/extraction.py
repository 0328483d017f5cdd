"""Taking values out of a page: CSS selectors, and what the text that they find is to be read as.

Values are fit for JSON. A decimal number is kept as a text with the very digits of the page (``"1234.50"``): a JSON
number would go through a binary float. Postgres reads it back with ``(result->>'price')::numeric``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar, assert_never

from playwright.async_api import Page

from poolsql.errors import BadInputError, PoolsqlError
from poolsql.leasing.checks import checked_name
from poolsql.scraping.numbers import DecimalMark, NotANumberError, read_decimal, read_integer
from poolsql.scraping.selectors import checked_selector
from poolsql.targets import parse_target
from poolsql.text import clean_json, did_you_mean

Choice = TypeVar("Choice", bound=StrEnum)

LONGEST_VALUE = 20_000
"""Characters of one text that are taken over; a page may hold megabytes in one element."""

LONGEST_JSON = 1_000_000
"""Characters of JSON in one element."""

MOST_ELEMENTS = 10_000
"""Elements that one field takes with `all`."""

_MOST_CHARACTERS = 10_000_000
"""That one page's values may have altogether."""

# A form field named "textContent" or "querySelectorAll" takes that name's place, so the methods are not looked up on
# the page's own objects.
_READ = """
([fields, mostElements, mostCharacters]) => {
    const own = (kind, name) => Object.getOwnPropertyDescriptor(kind, name).get;
    const [textOf, baseOf] = [own(Node.prototype, 'textContent'), own(Node.prototype, 'baseURI')];
    const find = Document.prototype.querySelectorAll;
    const read = Element.prototype.getAttribute;
    let left = mostCharacters;
    const take = (element, field) => {
        let value;
        if (field.attribute !== null) value = read.call(element, field.attribute);
        else if (field.type === 'url') value = read.call(element, 'href') ?? read.call(element, 'src');
        else value = textOf.call(element);
        if (value === null) return null;
        if (field.type === 'text') value = value.slice(0, field.longest).trim().replace(/\\s+/g, ' ');
        if (field.type === 'boolean') value = '';
        if (value.length > field.longest) throw new Error(`a value of ${value.length} characters is too long`);
        left -= value.length;
        if (left < 0) throw new Error(`the values of this page have more than ${mostCharacters} characters`);
        if (field.type === 'url' && value.trim() !== '') {
            try {
                return new URL(value, baseOf.call(document)).href;
            } catch {
                throw new Error(`'${value.slice(0, 200)}' is no address`);
            }
        }
        return value;
    };
    const all = field => {
        let elements;
        try {
            elements = find.call(document, field.css);
        } catch {
            throw new Error(`'${field.css}' is no CSS selector for this browser`);
        }
        if (!field.all) return elements.length === 0 ? [] : [take(elements[0], field)].filter(value => value !== null);
        if (elements.length > mostElements) throw new Error(`more than ${mostElements} elements`);
        return [...elements].map(element => take(element, field)).filter(value => value !== null);
    };
    return fields.map(field => {
        try {
            return [all(field), null];
        } catch (error) {
            return [[], error.message];
        }
    });
}
"""


class ElementMissingError(PoolsqlError):
    """A required element is not on the page."""


class ValueRefusedError(PoolsqlError):
    """What the page has for a field is not of the field's type, or the browser does not take the field's selector."""


class ValueType(StrEnum):
    """What the text of an element is read as."""

    TEXT = "text"
    """As it is, with white space folded."""
    INTEGER = "integer"
    DECIMAL = "decimal"
    """A number with all its digits, kept as a text."""
    BOOLEAN = "boolean"
    """Whether the element, and its attribute if one is named, is there."""
    URL = "url"
    """The absolute address in its attribute; by default `href`, or else `src`."""
    JSON = "json"
    """A value written as JSON, as in ``<script type="application/ld+json">``."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a page."""

    css: str
    attribute: str | None = None
    """The attribute to read; None: the element's text."""
    required: bool = True
    """Whether a page without it fails the task; of `all` at least one is required."""
    all: bool = False
    """A list of what all elements have; otherwise the value of the first."""
    type: ValueType = ValueType.TEXT
    default: Any = None
    """What a value that is not required is when it is missing; with `all` an empty list stands in for None."""
    decimal_mark: DecimalMark | None = None
    """Of numbers that do not tell it themselves, such as ``1,234``."""


async def extract(page: Page, fields: Mapping[str, Field]) -> dict[str, Any]:
    """Read the fields from a loaded page, in one call to it.

    An element without text counts as missing for all types but text and boolean.

    Raises:
        ElementMissingError: Required fields are missing; all of them are named.
        ValueRefusedError: Values cannot be read as what they should be; all of them are named.
    """
    asked = [
        {
            "css": field.css,
            "attribute": field.attribute,
            "all": field.all,
            "type": field.type.value,
            "longest": LONGEST_JSON if field.type is ValueType.JSON else LONGEST_VALUE,
        }
        for field in fields.values()
    ]
    answers = await page.evaluate(_READ, [asked, MOST_ELEMENTS, _MOST_CHARACTERS])
    values: dict[str, Any] = {}
    missing: list[str] = []
    problems: list[str] = []
    for (name, field), (found, problem) in zip(fields.items(), answers, strict=True):
        try:
            if problem is not None:
                raise ValueRefusedError(problem)  # noqa: TRY301 - told with all others
            values[name] = _value(field, found)
        except ElementMissingError:
            missing.append(f"{name} ({field.css})")
        except (ValueRefusedError, NotANumberError) as error:
            problems.append(f"{name} ({field.css}): {error}")
    if problems:
        raise ValueRefusedError("; ".join(problems))
    if missing:
        raise ElementMissingError(f"the page has no element for {', '.join(missing)}")
    return values


def parse_fields(values: object) -> dict[str, Field]:
    """Fields as ``fleet.toml`` has them: each a CSS selector, or a table with ``css`` and more.

    Raises:
        BadInputError: Something cannot be right; the message names all of it.
    """
    if not isinstance(values, Mapping) or not values:
        raise BadInputError("extract: write at least one field and its CSS selector, such as { title = 'h1' }")
    fields: dict[str, Field] = {}
    problems: list[str] = []
    for name, written in values.items():
        place = f"extract.{name}"
        try:
            checked_name(name, "field")
            fields[name] = _field(written, place)
        except BadInputError as error:
            problems.append(str(error))
    if problems:
        raise BadInputError("; ".join(problems))
    return fields


def _value(field: Field, found: Sequence[str]) -> Any:
    if field.type is ValueType.BOOLEAN:
        return bool(found)
    present = [text for text in found if field.type is ValueType.TEXT or text.strip()]
    if not present:
        if field.required:
            raise ElementMissingError
        return [] if field.all and field.default is None else field.default
    read = [_read(field, text) for text in present]
    return read if field.all else read[0]


def _read(field: Field, text: str) -> Any:
    match field.type:
        case ValueType.TEXT | ValueType.URL:
            return text
        case ValueType.INTEGER:
            return read_integer(text)
        case ValueType.DECIMAL:
            return format(read_decimal(text, mark=field.decimal_mark), "f")
        case ValueType.BOOLEAN:
            return True
        case ValueType.JSON:
            try:
                return clean_json(json.loads(text))
            except (ValueError, RecursionError) as error:
                raise ValueRefusedError(f"is no JSON ({error})") from None
        case _:
            assert_never(field.type)


def _field(written: object, place: str) -> Field:
    if not isinstance(written, Mapping):
        return Field(checked_selector(written, place))
    return _FieldTable(written, place).field()


class _FieldTable:
    """A field's table while it is checked: everything that is wrong is told at once."""

    _KEYS = ("css", "attribute", "all", "type", "required", "default", "decimal_mark")

    def __init__(self, table: Mapping[str, Any], place: str) -> None:
        self._table = table
        self._place = place
        self._problems: list[str] = []

    def field(self) -> Field:
        for key in self._table:
            if key not in self._KEYS:
                self._wrong(key, f"unknown{did_you_mean(str(key), self._KEYS)}")
        css = self._selector()
        attribute = self._attribute()
        takes_all = self._flag("all", otherwise=False)
        kind = self._choice("type", ValueType, ValueType.TEXT)
        mark = self._choice("decimal_mark", DecimalMark, None)
        default = self._table.get("default")
        required = self._flag("required", otherwise=default is None)
        if default is not None and required:
            self._wrong("default", "is never used while required = true; leave one of them out")
        if mark is not None and kind is not ValueType.DECIMAL:
            self._wrong("decimal_mark", "is only for type = 'decimal'")
        if kind is ValueType.BOOLEAN:
            for key in {"all", "required", "default"} & self._table.keys():
                self._wrong(key, "a boolean is true or false by itself; leave it out")
        elif default is not None and kind is not None:
            default = self._default(default, kind, takes_all=takes_all)
        if self._problems or kind is None:
            raise BadInputError("; ".join(self._problems))
        return Field(css, attribute, required, takes_all, kind, default, mark)

    def _wrong(self, key: str, problem: str) -> None:
        self._problems.append(f"{self._place}.{key}: {problem}")

    def _selector(self) -> str:
        if "css" not in self._table:
            self._wrong("css", "missing; write the CSS selector")
            return ""
        try:
            return checked_selector(self._table["css"], f"{self._place}.css")
        except BadInputError as error:
            self._problems.append(str(error))
            return ""

    def _attribute(self) -> str | None:
        attribute = self._table.get("attribute")
        if attribute is None:
            return None
        if not isinstance(attribute, str) or not attribute.strip() or len(attribute.split()) > 1:
            self._wrong("attribute", f"{attribute!r} is no name of an attribute, such as 'href'")
            return None
        return attribute.strip()

    def _flag(self, key: str, *, otherwise: bool) -> bool:
        value = self._table.get(key, otherwise)
        if not isinstance(value, bool):
            self._wrong(key, f"{value!r} is neither true nor false")
            return otherwise
        return value

    def _choice(self, key: str, choices: type[Choice], otherwise: Choice | None) -> Choice | None:
        value = self._table.get(key)
        if value is None:
            return otherwise
        try:
            return choices(value)
        except ValueError:
            known = ", ".join(choices)
            self._wrong(
                key, f"{value!r} is none of {known}{did_you_mean(str(value), [choice.value for choice in choices])}"
            )
            return None

    def _default(self, default: object, kind: ValueType, *, takes_all: bool) -> Any:
        try:
            if not takes_all:
                return _checked_default(default, kind)
            if not isinstance(default, list):
                self._wrong("default", f"{default!r} is no list; with all = true write one, such as []")
                return None
            return [_checked_default(value, kind) for value in default]
        except BadInputError as error:
            self._wrong("default", str(error))
            return None


def _checked_default(default: object, kind: ValueType) -> Any:
    match kind:
        case ValueType.TEXT if isinstance(default, str):
            return default
        case ValueType.INTEGER if isinstance(default, int) and not isinstance(default, bool):
            return default
        case ValueType.DECIMAL if isinstance(default, int | float) and not isinstance(default, bool):
            if math.isfinite(default):
                return format(Decimal(str(default)), "f")
        case ValueType.DECIMAL if isinstance(default, str):
            try:
                return format(read_decimal(default, mark=DecimalMark.POINT), "f")
            except NotANumberError:
                pass
        case ValueType.URL if isinstance(default, str):
            return parse_target(default).url
        case ValueType.JSON:
            return clean_json(default)
        case _:
            pass
    raise BadInputError(f"{default!r} is no {kind.value}")
