"""Text and results from pages, made fit for Postgres.

A page decides what it says: a NUL byte, half a surrogate pair, fifty megabytes, a structure that contains itself.
Postgres refuses the first two in `text` and `jsonb` alike, and none of them may end a worker. What is changed is
changed visibly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from difflib import get_close_matches
from enum import Enum

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None

DEFAULT_TEXT_LIMIT = 100_000
"""Characters of one value that are kept."""

_KEY_LIMIT = 200
# json.dumps refuses integers of more than 4,300 digits, which is about 14,300 bits.
_INTEGER_BITS = 14_000


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of one result is kept; beyond that a mark says what was cut."""

    text: int = DEFAULT_TEXT_LIMIT
    """Characters of one text."""
    depth: int = 50
    """Levels of lists and dictionaries in each other."""
    items: int = 100_000
    """Values altogether. Lists that share parts can unfold to billions of values out of a few."""
    total_text: int = 10_000_000
    """Characters altogether; a jsonb value ends at 255 MB."""


def clean_text(value: object, *, limit: int = DEFAULT_TEXT_LIMIT) -> str:
    """Make text storable: NUL and lone surrogates become U+FFFD, a pair of surrogates becomes its character.

    What is no text becomes its ``str()``: an exception that is given as a detail must not keep a report out.

    Text of more than `limit` characters is cut and ends with a mark that names its real length; the mark comes on
    top of `limit`.
    """
    text = value if isinstance(value, str) else _described(value)
    kept = text[:limit].replace("\0", "\ufffd")
    if not kept.isascii():
        # Encoded as UTF-16 a pair is one character again, and only a lone half is left for "replace".
        kept = kept.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if len(text) > limit:
        return f"{kept}… [cut: {len(text):,} characters]"
    return kept


def clean_json(value: object, *, limits: Limits | None = None) -> Json:
    """Make any Python value storable as jsonb.

    NaN and the infinities become None, as JavaScript's own ``JSON.stringify`` has it. Dates, times and enumeration
    members become text, bytes are read as UTF-8, sets and tuples become lists; any other object, `Decimal` among
    them, becomes its ``str()``. Keys become text; two keys that become equal keep both values, the later one under
    a key with a number.
    """
    return _Cleaner(limits or Limits()).clean(value, depth=0)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about a word that is not known: ``; did you mean 'pool'?``, or nothing."""
    alike = get_close_matches(word, known, n=1)
    return f"; did you mean {str(alike[0])!r}?" if alike else ""


class _Cleaner:
    """One walk over one result, with what is left of its limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._items_left = limits.items
        self._text_left = limits.total_text
        self._path: set[int] = set()

    def clean(self, value: object, *, depth: int) -> Json:  # noqa: PLR0911 - one return a kind
        self._items_left -= 1
        match value:
            # An enumeration member may be a str or int as well, so it comes first.
            case Enum():
                return self.clean(value.value, depth=depth)
            case None | bool():
                return value
            case int():
                return (
                    int(value)
                    if value.bit_length() <= _INTEGER_BITS
                    else f"[cut: integer of {value.bit_length():,} bits]"
                )
            case float():
                return float(value) if math.isfinite(value) else None
            case str():
                return self._text(value)
            case bytes() | bytearray():
                return self._text(value.decode("utf-8", "replace"))
            case datetime() | date() | time():
                return value.isoformat()
            case Mapping() | list() | tuple() | set() | frozenset():
                return self._container(value, depth)
            case _:
                return self._text(_described(value))

    def _text(self, value: str) -> str:
        cleaned = clean_text(value, limit=min(self._limits.text, max(self._text_left, 0)))
        self._text_left -= len(cleaned)
        return cleaned

    def _container(self, value: Mapping[object, object] | Iterable[object], depth: int) -> Json:
        if id(value) in self._path:
            return "[cut: contains itself]"
        if depth >= self._limits.depth:
            return f"[cut: more than {self._limits.depth} levels]"
        self._path.add(id(value))
        try:
            if isinstance(value, Mapping):
                return self._mapping(value, depth)
            return self._list(value, depth)
        finally:
            self._path.discard(id(value))

    def _list(self, value: Iterable[object], depth: int) -> Json:
        cleaned: list[Json] = []
        for item in value:
            if self._items_left <= 0:
                cleaned.append(self._too_many())
                break
            cleaned.append(self.clean(item, depth=depth + 1))
        return cleaned

    def _mapping(self, value: Mapping[object, object], depth: int) -> Json:
        cleaned: dict[str, Json] = {}
        for key, item in value.items():
            if self._items_left <= 0:
                cleaned[self._too_many()] = None
                break
            cleaned[_free_key(self._key(key), cleaned)] = self.clean(item, depth=depth + 1)
        return cleaned

    def _key(self, key: object) -> str:
        match key:
            case str():
                text = key
            case Enum():
                text = str(key.value)
            case None | bool():
                text = {None: "null", True: "true", False: "false"}[key]
            case _:
                text = _described(key)
        cleaned = clean_text(text, limit=_KEY_LIMIT)
        self._text_left -= len(cleaned)
        return cleaned

    def _too_many(self) -> str:
        return f"[cut: more than {self._limits.items:,} values]"


def _free_key(key: str, taken: Mapping[str, object]) -> str:
    number = 2
    free = key
    while free in taken:
        free = f"{key} ({number})"
        number += 1
    return free


def _described(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a stranger's __str__ may raise anything, and its result still has to be kept
        return f"[{type(value).__name__} without text]"
