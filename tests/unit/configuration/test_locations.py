"""Every value of a TOML document is found on its line, however the document is written."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping
from typing import Any

import pytest

from poolsql.configuration.locations import Locations, Path

DOCUMENT = '''\
# a comment with [brackets] and "quotes"
first = 1
text = """
[not.a.table]
key = "no key"
ends with two quotes"""""
literal = \'\'\'
# no comment, it's text\'\'\'
when = 1979-05-27 07:32:00 # a date with a blank
"quoted \\u00e9" . 'part' . bare = true

[pools.shop]
ttl = "90s" # {
list = [ # [
    "one", "two, with ] and #",

    { a = 1, b.c = [
        2,
    ] }, # last
]
[[profiles]]
id = 'a'
[profiles.options]
headless = true
[[profiles]]
id = "b\\"]"
[profiles.options]
headless = false
[[profiles.places]]
name = 1
[[profiles.places]]
name = 2
[hosts."shop.example:8080"]
'''

PLACES: dict[Path, int] = {
    ("first",): 2,
    ("text",): 3,
    ("literal",): 7,
    ("when",): 9,
    ("quoted é",): 10,
    ("quoted é", "part", "bare"): 10,
    ("pools",): 12,
    ("pools", "shop"): 12,
    ("pools", "shop", "ttl"): 13,
    ("pools", "shop", "list"): 14,
    ("pools", "shop", "list", 0): 15,
    ("pools", "shop", "list", 1): 15,
    ("pools", "shop", "list", 2): 17,
    ("pools", "shop", "list", 2, "a"): 17,
    ("pools", "shop", "list", 2, "b", "c"): 17,
    ("pools", "shop", "list", 2, "b", "c", 0): 18,
    ("profiles",): 21,
    ("profiles", 0): 21,
    ("profiles", 0, "options", "headless"): 24,
    ("profiles", 1): 25,
    ("profiles", 1, "id"): 26,
    ("profiles", 1, "options", "headless"): 28,
    ("profiles", 1, "places", 0, "name"): 30,
    ("profiles", 1, "places", 1, "name"): 32,
    ("hosts", "shop.example:8080"): 33,
}


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_each_value_has_its_line(line_end: str) -> None:
    text = DOCUMENT.replace("\n", line_end)
    found = Locations(text).items()
    assert {path: found[path] for path in PLACES} == PLACES
    assert set(found) == set(_paths(tomllib.loads(text)))


def test_what_is_not_there_has_the_line_of_what_is_around_it() -> None:
    lines = Locations(DOCUMENT)
    assert lines.line(("pools", "shop", "renew")) == 12
    assert lines.line(("profiles", 1, "options", "absent", "deeper")) == 27
    assert lines.line(("absent",)) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "a = 1", "[a]", "a = [\n]", "a={}"])
def test_short_documents_have_their_places(text: str) -> None:
    assert set(Locations(text).items()) == set(_paths(tomllib.loads(text)))


@pytest.mark.parametrize("seed", range(200))
def test_generated_documents_are_located_as_they_were_written(seed: int) -> None:
    writer = _Writer(random.Random(seed))
    text = writer.document()
    assert Locations(text).items() == writer.lines
    assert set(writer.lines) == set(_paths(tomllib.loads(text)))


def _paths(value: Any, path: Path = ()) -> list[Path]:
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [place for key, item in inner for place in [(*path, key), *_paths(item, (*path, key))]]


class _Writer:
    """Writes a document by chance, and notes where it put what."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._end = chance.choice(["\n", "\r\n"])
        self._text = ""
        self._names = 0
        self.lines: dict[Path, int] = {}

    def document(self) -> str:
        self._pairs(())
        for _ in range(self._chance.randrange(6)):
            self._fill()
            if self._chance.random() < 0.5:
                self._tables()
            else:
                name, written = self._new_name()
                self._note((name,))
                inner, inner_written = self._new_name()
                self._note((name, inner))
                self._put(f"[{self._blank()}{written}{self._blank()}.{inner_written} ]{self._rest()}")
                self._pairs((name, inner))
        return self._text

    def _tables(self) -> None:
        name, written = self._new_name()
        self._note((name,))
        for number in range(self._chance.randint(1, 3)):
            self._note((name, number))
            self._put(f"[[{self._blank()}{written}{self._blank()}]]{self._rest()}")
            self._pairs((name, number))
            if self._chance.random() < 0.5:
                inner, inner_written = self._new_name()
                self._note((name, number, inner))
                self._put(f"[{written}.{inner_written}]{self._rest()}")
                self._pairs((name, number, inner))

    def _pairs(self, table: Path) -> None:
        for _ in range(self._chance.randrange(4)):
            self._fill()
            self._pair(table, depth=0)
            self._put(self._rest())

    def _pair(self, table: Path, *, depth: int) -> None:
        for number in range(self._chance.choice([1, 1, 2, 3])):
            name, written = self._new_name()
            table = (*table, name)
            self._note(table)
            self._put(f"{'.' if number else ''}{self._blank()}{written}{self._blank()}")
        self._put(f"={self._blank()}")
        self._value(table, depth=depth)

    def _value(self, path: Path, *, depth: int) -> None:
        kind = self._chance.randrange(9 if depth < 3 else 7)
        if kind == 7:
            self._put("[")
            for number in range(self._chance.randrange(4)):
                self._fill()
                self._note((*path, number))
                self._value((*path, number), depth=depth + 1)
                self._fill()
                self._put(",")
            self._fill()
            self._put("]")
        elif kind == 8:
            self._put("{")
            for number in range(self._chance.randrange(3)):
                self._put(f"{',' if number else ''}{self._blank()}")
                self._pair(path, depth=depth + 1)
            self._put(f"{self._blank()}}}")
        else:
            texts = [
                "12",
                "true",
                "1979-05-27 07:32:00",
                '"text, ] } # \\" \\\\"',
                "'literal \" \\'",
                f'"""{self._end}two ""{self._end}lines \\""" # = [x] \\{self._end}  """""',
                f"'''a{self._end}''b'''''",
            ]
            self._put(texts[kind])

    def _new_name(self) -> tuple[str, str]:
        self._names += 1
        name = f"k{self._names}"
        return self._chance.choice(
            [
                (name, name),
                (f"{name} .é", f'"{name} .\\u00e9"'),
                (f"{name}]#", f"'{name}]#'"),
                (f'{name}"', f'"{name}\\""'),
            ]
        )

    def _fill(self) -> None:
        """Blanks, lines and comments, where they may stand."""
        for _ in range(self._chance.randrange(3)):
            self._put(self._chance.choice(["", " ", "\t"]) + self._rest())
        self._put(self._blank())

    def _rest(self) -> str:
        """The rest of a line."""
        return self._chance.choice(["", "# [x] = \"'", "  # {"]) + self._end

    def _blank(self) -> str:
        return self._chance.choice(["", " ", "\t "])

    def _put(self, text: str) -> None:
        self._text += text

    def _note(self, path: Path) -> None:
        self.lines[path] = self._text.count("\n") + 1
