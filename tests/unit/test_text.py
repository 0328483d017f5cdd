from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest

from poolsql.text import Limits, clean_json, clean_text, did_you_mean


class _Colour(StrEnum):
    RED = "red"


class _Size(IntEnum):
    BIG = 3


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("", ""),
        ("plain", "plain"),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("\udc00", "\ufffd"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("\ud83d\ude00 ü", "😀 ü"),
        ("😀\ude00", "😀\ufffd"),
        ("a\r\n\tb\x07", "a\r\n\tb\x07"),
    ],
)
def test_text_becomes_storable_and_nothing_else_changes(raw: str, clean: str) -> None:
    assert clean_text(raw) == clean
    assert "\0" not in clean
    assert clean_text(raw).encode().decode() == clean


class Wordless:
    def __str__(self) -> str:
        raise TypeError


@pytest.mark.parametrize(
    ("value", "clean"), [(ValueError("a\0b"), "a\ufffdb"), (5, "5"), (Wordless(), "[Wordless without text]")]
)
def test_what_is_no_text_becomes_its_text(value: object, clean: str) -> None:
    assert clean_text(value) == clean


def test_long_text_is_cut_with_a_mark_that_names_its_length() -> None:
    assert clean_text("x" * 11, limit=10) == "x" * 10 + "… [cut: 11 characters]"
    assert clean_text("x" * 10, limit=10) == "x" * 10


def test_a_cut_between_two_surrogates_stays_storable() -> None:
    assert clean_text("a\ud83d\ude00", limit=2).startswith("a\ufffd…")


def test_results_keep_what_json_has() -> None:
    value = {"a": [1, -2.5, True, None, "text"], "b": {}, "c": []}
    assert clean_json(value) == value


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (math.nan, None),
        (math.inf, None),
        (-math.inf, None),
        (Decimal("24.90"), "24.90"),
        (date(2026, 11, 30), "2026-11-30"),
        (datetime(2026, 11, 30, 12, tzinfo=UTC), "2026-11-30T12:00:00+00:00"),
        (b"caf\xc3\xa9\xff", "café\ufffd"),
        ((1, "\0"), [1, "\ufffd"]),
        ({7}, [7]),
        (_Colour.RED, "red"),
        (_Size.BIG, 3),
    ],
)
def test_what_json_does_not_have_becomes_something_it_has(raw: object, clean: object) -> None:
    cleaned = clean_json(raw)
    assert cleaned == clean
    assert type(cleaned) in {str, int, list, type(None)}
    assert json.loads(json.dumps(cleaned, allow_nan=False)) == clean


def test_integers_that_json_cannot_write_are_cut() -> None:
    assert clean_json(10**4000) == 10**4000
    assert clean_json(10**5000) == "[cut: integer of 16,610 bits]"


def test_keys_become_storable_text_and_none_is_lost() -> None:
    low, high = "a\udc00", "a\ud800"
    value = {"a\0": 1, low: 2, high: 3, None: 4, True: 5, 6: 7, (8, 9): 10, _Colour.RED: 11}
    assert clean_json(value) == {
        "a\ufffd": 1,
        "a\ufffd (2)": 2,
        "a\ufffd (3)": 3,
        "null": 4,
        "true": 5,
        "6": 7,
        "(8, 9)": 10,
        "red": 11,
    }


def test_a_structure_that_contains_itself_ends() -> None:
    loop: dict[str, object] = {"name": "loop"}
    loop["self"] = [loop]
    assert clean_json(loop) == {"name": "loop", "self": ["[cut: contains itself]"]}


def test_the_same_part_twice_is_no_loop() -> None:
    part = [1]
    assert clean_json([part, part]) == [[1], [1]]


def test_depth_is_limited() -> None:
    value: object = "deep"
    for _ in range(100_000):
        value = [value]
    cleaned = json.dumps(clean_json(value))
    assert cleaned == "[" * 50 + '"[cut: more than 50 levels]"' + "]" * 50


def test_parts_that_unfold_to_billions_are_cut() -> None:
    value: list[object] = ["x" * 1000]
    for _ in range(40):
        value = [value, value]
    cleaned = json.dumps(clean_json(value, limits=Limits(items=1000)))
    assert "[cut: more than 1,000 values]" in cleaned
    assert cleaned.count("x" * 1000) < 1000


def test_all_text_together_is_limited() -> None:
    cleaned = json.dumps(clean_json(["x" * 100] * 1000, limits=Limits(total_text=5000)))
    assert cleaned.count("x") == 5000
    assert "cut: 100 characters" in cleaned


def test_a_large_mapping_is_cut_visibly() -> None:
    cleaned = clean_json(dict.fromkeys(range(100)), limits=Limits(items=10))
    assert isinstance(cleaned, dict)
    assert len(cleaned) == 10
    assert "[cut: more than 10 values]" in cleaned


def test_an_object_without_text_is_named() -> None:
    class Silent:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert clean_json(Silent()) == "[Silent without text]"


def test_a_word_that_is_nearly_right_gets_a_suggestion() -> None:
    assert did_you_mean("hedless", ["headless", "preset"]) == "; did you mean 'headless'?"
    assert did_you_mean("zzz", ["headless", "preset"]) == ""
