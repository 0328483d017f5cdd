"""Taking values out of a page by CSS selectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Page

from poolsql.errors import PoolsqlError

_READ = """
(fields) => Object.fromEntries(Object.entries(fields).map(([name, field]) => {
    const element = document.querySelector(field.css);
    if (element === null) return [name, null];
    const value = field.attribute === null ? element.textContent : element.getAttribute(field.attribute);
    return [name, value === null ? null : value.slice(0, field.limit).trim().replace(/\\s+/g, ' ')];
}))
"""

LONGEST_VALUE = 20_000
"""Characters of one value that are taken over; a page may hold megabytes in one element."""


class ElementMissingError(PoolsqlError):
    """A required element is not on the page."""


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a page."""

    css: str
    attribute: str | None = None
    """The attribute to read; None: the element's text, with white space folded."""
    required: bool = True


async def extract(page: Page, fields: Mapping[str, Field]) -> dict[str, str | None]:
    """Read the fields from a loaded page, in one call to it.

    Raises:
        ElementMissingError: Required fields are missing; all of them are named.
    """
    asked: dict[str, Any] = {
        name: {"css": field.css, "attribute": field.attribute, "limit": LONGEST_VALUE} for name, field in fields.items()
    }
    values: dict[str, str | None] = await page.evaluate(_READ, asked)
    missing = [
        f"{name} ({fields[name].css})" for name, value in values.items() if value is None and fields[name].required
    ]
    if missing:
        raise ElementMissingError(f"the page has no element for {', '.join(missing)}")
    return values
