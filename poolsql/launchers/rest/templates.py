"""Texts and JSON with places for values: ``/profiles/{id}/start``, ``{"headless": "{headless}"}``.

``{name}`` is a place for a value; ``{{`` and ``}}`` are the braces themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from poolsql.errors import BadInputError
from poolsql.text import Json

Value = str | int | float | bool
"""What a place can be filled with."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}|[{}]")


@dataclass(frozen=True, slots=True)
class _Place:
    name: str


@dataclass(frozen=True, slots=True)
class Template:
    """A text with places."""

    pieces: tuple[str | _Place, ...]

    @classmethod
    def parse(cls, text: str) -> Template:
        """Read a text with places.

        Raises:
            BadInputError: A brace stands alone, or what is in braces is no name.
        """
        pieces: list[str | _Place] = []
        end = 0
        for match in _TOKEN.finditer(text):
            pieces.append(text[end : match.start()])
            end = match.end()
            if match[1] is not None:
                pieces.append(_Place(match[1]))
            elif match[0] in {"{{", "}}"}:
                pieces.append(match[0][0])
            else:
                raise BadInputError(
                    f"a brace at character {match.start() + 1} stands for nothing; write {{name}} for a value and "
                    f"{match[0] * 2} for the brace itself"
                )
        pieces.append(text[end:])
        return cls(tuple(piece for piece in pieces if piece))

    @property
    def names(self) -> frozenset[str]:
        """The names of its places."""
        return frozenset(piece.name for piece in self.pieces if isinstance(piece, _Place))

    @property
    def sole_name(self) -> str | None:
        """The name of its place when there is nothing around it."""
        match self.pieces:
            case (_Place(name),):
                return name
            case _:
                return None

    def fill(self, values: Mapping[str, Value], *, encode: Callable[[str], str] = str) -> str:
        """The text with each place filled; `encode` is applied to each value's text."""
        return "".join(
            encode(as_text(values[piece.name])) if isinstance(piece, _Place) else piece for piece in self.pieces
        )


def as_text(value: Json) -> str:
    """A value as it stands in a text: as in JSON, without the quotes of a text."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


@dataclass(frozen=True, slots=True)
class JsonTemplate:
    """JSON whose texts have places. A text that is one place and nothing else becomes the value with its type."""

    content: object
    """Dictionaries, lists and plain values, with a `Template` for each text."""

    @classmethod
    def parse(cls, value: object) -> JsonTemplate:
        """Read JSON with places.

        Raises:
            BadInputError: A text is malformed, or something in it is no JSON; the message says where.
        """
        return cls(_parsed(value, "body"))

    @property
    def names(self) -> frozenset[str]:
        """The names of its places."""
        return frozenset(name for template in _templates(self.content) for name in template.names)

    def fill(self, values: Mapping[str, Value]) -> Json:
        """The JSON with each place filled."""
        return _filled(self.content, values)


def _parsed(value: object, place: str) -> object:
    match value:
        case str():
            try:
                return Template.parse(value)
            except BadInputError as error:
                raise BadInputError(f"{place}: {error}") from None
        case None | bool() | int():
            return value
        case float() if isfinite(value):
            return value
        case list() | tuple():
            return [_parsed(item, f"{place}.{number}") for number, item in enumerate(value)]
        case Mapping():
            return {str(key): _parsed(item, f"{place}.{key}") for key, item in value.items()}
        case _:
            raise BadInputError(f"{place}: {value!r:.50} is no JSON; write it as text")


def _templates(content: object) -> Iterator[Template]:
    match content:
        case Template():
            yield content
        case list():
            for item in content:
                yield from _templates(item)
        case dict():
            yield from _templates(list(content.values()))
        case _:
            return


def _filled(content: object, values: Mapping[str, Value]) -> Json:
    match content:
        case Template():
            name = content.sole_name
            return content.fill(values) if name is None else values[name]
        case list():
            return [_filled(item, values) for item in content]
        case dict():
            return {key: _filled(item, values) for key, item in content.items()}
        case None | bool() | int() | float():
            return content
        case _:
            raise TypeError(f"not made by JsonTemplate.parse: {content!r}")
