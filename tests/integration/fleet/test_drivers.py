"""Whose driver a sync session is driven by: the caller's, its thread's, or none at all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import sync_playwright

from poolsql import BadInputError, Fleet, Pool
from tests.fixtures.browsers import Site, drivers, make_pool


def test_sessions_in_each_other_use_two_profiles_and_one_driver(fleet: Fleet, site: Site) -> None:
    pool = make_pool(fleet, profiles=2)
    before = drivers()
    with pool.browser() as one, pool.browser() as two:
        assert one.profile.id != two.profile.id
        one.page.goto(site.setting("one"))
        two.page.goto(site.url)
        assert two.page.inner_text("p") == ""
        assert len(drivers() - before) == 1
    assert drivers() == before
    assert pool.status().available == 2


def test_a_sync_driver_of_the_callers_own_is_used_and_left_running(shop: Pool, site: Site) -> None:
    with sync_playwright() as playwright:
        before = drivers()
        with pytest.raises(BadInputError, match="give it as playwright="), shop.browser():
            pass
        with shop.browser(playwright=playwright) as borrowed:
            borrowed.page.goto(site.url)
            assert drivers() == before
        assert drivers() == before


def test_two_threads_have_a_driver_each(fleet: Fleet, site: Site) -> None:
    pool = make_pool(fleet, profiles=2)

    def visit(_: int) -> str:
        with pool.browser(wait=20) as borrowed:
            borrowed.page.goto(site.url)
            return borrowed.page.inner_text("h1")

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(visit, range(2))) == ["Hello", "Hello"]
    assert drivers() == set()
    assert pool.status().available == 2
