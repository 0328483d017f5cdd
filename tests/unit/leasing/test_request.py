"""Which checkouts ask for the same, and so wait in one line."""

from __future__ import annotations

import pytest

from poolsql.leasing.checkout import Request

ASKED = Request(pool_id=1, host="shop.example", tags=("eu", "fast"), without_tags=("new", "odd"))


@pytest.mark.parametrize(
    "same",
    [
        Request(pool_id=1, host="shop.example", tags=("fast", "eu"), without_tags=("odd", "new")),
        Request(pool_id=1, host="shop.example", tags=("eu", "fast", "eu"), without_tags=("new", "odd", "odd")),
        Request(pool_id=1, host="shop.example", tags=("eu", "fast"), without_tags=("new", "odd"), task="a", priority=5),
    ],
    ids=["in another order", "some of it twice", "for another task, more urgently"],
)
def test_the_same_in_other_words(same: Request) -> None:
    assert same.criteria == ASKED.criteria


@pytest.mark.parametrize(
    "other",
    [
        Request(pool_id=2, host="shop.example", tags=("eu", "fast"), without_tags=("new", "odd")),
        Request(pool_id=1, tags=("eu", "fast"), without_tags=("new", "odd")),
        Request(pool_id=1, host="shop.example", tags=("eu",), without_tags=("new", "odd")),
        Request(pool_id=1, host="shop.example", tags=("new", "odd"), without_tags=("eu", "fast")),
        Request(pool_id=1, host="shop.example", tags=("eu", "fast"), without_tags=("new", "odd"), profile_id=1),
    ],
    ids=["pool", "host", "tags", "tags the other way round", "profile"],
)
def test_something_else(other: Request) -> None:
    assert other.criteria != ASKED.criteria
