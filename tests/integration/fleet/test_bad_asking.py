"""What is asked for and cannot be had, or cannot be right: a clear error by each door, and nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import text

from poolsql import BadInputError, Fleet, NoProfileAvailableError, Pool
from poolsql.database.engine import Database
from poolsql.errors import ProfileRetiredError, UnknownNameError
from poolsql.leasing.stickiness import StickyKey, stick
from tests.fixtures.browsers import Ledger

Door = Callable[..., object]


def _checkout(pool: Pool, **asked: Any) -> object:
    return pool.checkout(**asked)


def _lease(pool: Pool, **asked: Any) -> object:
    with pool.lease(**asked):
        return pytest.fail("there is nothing to lease")


def _several(pool: Pool, **asked: Any) -> object:
    return pool.checkout_many(2, **asked)


def _browser(pool: Pool, **asked: Any) -> object:
    with pool.browser(**asked):
        return pytest.fail("there is nothing to lease")


def _browser_in_async_code(pool: Pool, **asked: Any) -> object:
    async def borrow() -> None:
        async with pool.browser(**asked):
            pytest.fail("there is nothing to lease")

    return asyncio.run(borrow())


DOORS: dict[str, Door] = {
    "checkout": _checkout,
    "lease": _lease,
    "checkout_many": _several,
    "browser": _browser,
    "async browser": _browser_in_async_code,
}
KEEPS_KEYS = [name for name in DOORS if name != "checkout_many"]

LEFT = """
SELECT (SELECT count(*) FROM poolsql.leases) AS leases, (SELECT count(*) FROM poolsql.waiters) AS tickets,
    (SELECT count(*) FROM poolsql.attempts) AS attempts, (SELECT count(*) FROM poolsql.sticky_keys) AS keys
"""


@contextmanager
def refused(database: Database, error: type[Exception], match: str) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Something that fails and leaves nothing behind."""
    with database.connect() as connection:
        before = connection.execute(text(LEFT)).one()
        with pytest.raises(error, match=match) as told:
            yield told
        assert connection.execute(text(LEFT)).one() == before


@pytest.mark.parametrize("door", DOORS)
def test_a_wait_below_nothing(shop: Pool, database: Database, door: str) -> None:
    for wait in (-1, "-1s", float("nan")):
        with refused(database, BadInputError, r"^wait: "):
            DOORS[door](shop, wait=wait)


def test_less_than_one(shop: Pool, database: Database) -> None:
    for number in (0, -1):
        with refused(database, BadInputError, rf"^number: {number} is no whole number from 1 to 1000"):
            shop.checkout_many(number, wait=0.1)


@pytest.mark.parametrize("door", KEEPS_KEYS)
def test_a_sticky_key_that_is_too_long(shop: Pool, database: Database, door: str) -> None:
    for kind in ("prefer", "require"):
        with refused(database, BadInputError, rf"^{kind} 'xxx.*: must be a text of 1 to 500 characters"):
            DOORS[door](shop, **{kind: "x" * 501}, wait=0.1)


@pytest.mark.parametrize("door", DOORS)
def test_a_tag_that_no_profile_has(shop: Pool, database: Database, door: str) -> None:
    # Nothing says that it is wrong: a profile that has it may be added while somebody waits.
    for wait in (0, 0.05):
        with refused(database, NoProfileAvailableError, r"no profile available.* \(1 no match\)$") as told:
            DOORS[door](shop, tags=["atlantis"], wait=wait)
        assert isinstance(told.value, NoProfileAvailableError)
        assert (told.value.counts, told.value.next_free_at) == ({"no_match": 1}, None)


@pytest.mark.parametrize("door", KEEPS_KEYS)
def test_a_profile_that_is_retired(shop: Pool, fleet: Fleet, ledger: Ledger, database: Database, door: str) -> None:
    (profile,) = ledger.profiles()
    stick(database, shop.id, StickyKey("sku-1", required=True), profile.id)
    fleet.change_profile(profile.id, "retire", who="ann", reason="worn out")
    for wait in (0, 30):
        said = rf"profile {profile.key} .* served the key 'sku-1'.*\(worn out\); restore it, or ask with another key"
        with refused(database, ProfileRetiredError, said):
            DOORS[door](shop, require="sku-1", wait=wait)
    with refused(database, NoProfileAvailableError, r"\(1 retired\)$"):
        DOORS[door](shop, profile_id=profile.id, wait=0.05)


def test_a_pool_that_there_is_not(shop: Pool, fleet: Fleet, database: Database) -> None:
    with refused(database, UnknownNameError, rf"there is no pool '{shop.name}x'; known are .*{shop.name}"):
        fleet.pool(f"{shop.name}x")
