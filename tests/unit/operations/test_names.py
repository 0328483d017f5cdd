"""What does not exist is answered with what was meant."""

from __future__ import annotations

import pytest

from poolsql.operations.names import MOST_NAMED, as_id, unknown_name


def test_one_that_is_spelt_alike_is_named() -> None:
    error = unknown_name("pool", "shpo", ["shop", "news"])
    assert (str(error), error.exit_code) == ("there is no pool 'shpo'; did you mean 'shop'?", 2)


def test_without_one_those_that_there_are() -> None:
    assert str(unknown_name("pool", "xyz", ["shop", "news"])) == "there is no pool 'xyz'; known are news, shop"
    assert str(unknown_name("pool", "xyz", [])) == "there is no pool 'xyz'; none is defined yet"


def test_a_long_list_is_cut_and_says_so() -> None:
    known = [f"{number:03}" for number in range(MOST_NAMED + 5)]
    assert str(unknown_name("host", "abc", known)).endswith(f", {MOST_NAMED - 1:03} and 5 more")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("007", 7),
        (str(2**63 - 1), 2**63 - 1),
        (str(2**63), None),
        ("0", None),
        ("-1", None),
        ("²", None),
        ("٣", None),
        ("", None),
        ("p-1", None),
    ],
)
def test_what_can_be_an_id(text: str, number: int | None) -> None:
    assert as_id(text) == number
