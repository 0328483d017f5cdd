"""Browsers that do not start: whose fault it is (I5), that nothing is left running, and that the error helps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api
from playwright.async_api import async_playwright

from poolsql import BrowserMissingError, Fleet, LaunchFailedError, NoProfileAvailableError, Pool
from poolsql.database.engine import Database
from poolsql.fleet import browsers, session
from poolsql.launchers.contract import BrowserHandle
from poolsql.launchers.local.executable import find_executable
from tests.fixtures.browsers import BrowserHome, Ledger, freeze, make_pool

NewFleet = Callable[..., Fleet]
AfterStart = Callable[[Callable[[BrowserHandle], None]], None]


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """A stand-in for Chromium that does what a shell script says."""

    def make(script: str) -> Path:
        path = tmp_path / "chromium"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return make


def fail_to_start(pool: Pool, **asked: Any) -> LaunchFailedError:
    """Enter a block whose browser does not start."""
    with pytest.raises(LaunchFailedError) as told, pool.browser(**asked):
        pytest.fail("the block was entered")
    return told.value


def test_an_executable_that_ends_at_once_holds_and_then_opens_the_breaker(
    new_fleet: NewFleet, program: Callable[[str], Path], database: Database
) -> None:
    pool = make_pool(new_fleet(chromium=program("echo no display here >&2; exit 1")))
    ledger = Ledger(database, pool)
    error = fail_to_start(pool)
    assert "exit code 1" in str(error)
    assert "no display here" in str(error)
    attempt, (profile,) = ledger.last(), ledger.profiles()
    assert (attempt.outcome, attempt.blames, attempt.counted) == ("launch_failed", "launcher", False)
    assert (profile.waits_for, profile.consecutive_failures, profile.state) == ("hold", 0, "active")
    with pytest.raises(NoProfileAvailableError, match="1 held"), pool.browser():
        pass
    for _ in range(2):
        ledger.free()
        fail_to_start(pool)
    assert pool.status().counts == {"breaker": 1}
    (profile,) = ledger.profiles()
    assert (profile.waits_for, profile.state) == (None, "active")
    assert ledger.leases() == []


def test_a_profile_that_alone_does_not_start_is_paused_with_the_reason(
    new_fleet: NewFleet, program: Callable[[str], Path], database: Database
) -> None:
    # Chromium ends with 21 when somebody else uses the profile's directory: here always the first one's.
    script = f'case "$*" in */p0\\ *) exit 21;; esac\nexec {find_executable()} "$@"'
    pool = make_pool(new_fleet(chromium=program(script)), profiles=2)
    ledger = Ledger(database, pool)
    one, two = (row.id for row in ledger.profiles())
    error = fail_to_start(pool, profile_id=one)
    assert "another browser uses it" in str(error)
    assert ledger.profiles()[0].waits_for == "hold"
    with pool.browser(profile_id=two):
        pass
    ledger.free()
    fail_to_start(pool, profile_id=one)
    paused = ledger.profiles()[0]
    assert (paused.state, paused.consecutive_failures) == ("paused", 0)
    assert "another browser uses it" in paused.state_reason
    assert ledger.outcomes() == ["launch_failed", "success", "launch_failed"]


def test_an_executable_that_hangs_is_ended_by_the_deadline(
    new_fleet: NewFleet,
    program: Callable[[str], Path],
    database: Database,
    browser_home: BrowserHome,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(browsers, "START_SECONDS", 0.6)
    pool = make_pool(new_fleet(chromium=program("sleep 600 & wait")))
    assert "not ready after" in str(fail_to_start(pool))
    assert browser_home.processes() == []
    ledger = Ledger(database, pool)
    assert (ledger.last().outcome, ledger.leases()) == ("launch_failed", [])


def test_a_missing_browser_is_told_with_the_remedy(new_fleet: NewFleet, database: Database) -> None:
    pool = make_pool(new_fleet(chromium="/nonexistent/chromium"))
    error = fail_to_start(pool)
    assert isinstance(error, BrowserMissingError)
    assert "/nonexistent/chromium" in str(error)
    assert "POOLSQL_CHROMIUM" in str(error)
    ledger = Ledger(database, pool)
    assert (ledger.last().outcome, ledger.last().browser_started, ledger.leases()) == ("launch_failed", False, [])


def test_a_failed_start_in_async_code_is_the_same(new_fleet: NewFleet, database: Database) -> None:
    pool = make_pool(new_fleet(chromium="/nonexistent/chromium"))

    async def enter() -> None:
        with pytest.raises(BrowserMissingError):
            async with pool.browser():
                pytest.fail("the block was entered")

    asyncio.run(enter())
    assert Ledger(database, pool).outcomes() == ["launch_failed"]


# A driver that does not start


class _NoDriver:
    """Playwright on a machine where its driver lacks a library."""

    def start(self) -> None:
        message = "Connection closed while reading from the driver"
        raise RuntimeError(message)

    def __exit__(self, *_: object) -> None: ...


def test_a_driver_that_does_not_start_is_nobodys_fault_and_told_with_the_remedy(
    shop: Pool, ledger: Ledger, browser_home: BrowserHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_api, "sync_playwright", _NoDriver)
    error = fail_to_start(shop)
    assert "reading from the driver" in str(error)
    assert "libatomic1" in str(error)
    (profile,) = ledger.profiles()
    assert (ledger.last().outcome, ledger.last().blames, profile.waits_for) == ("task_failed", "task", None)
    assert browser_home.processes() == []


# A browser that starts and then cannot be driven


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a frozen browser up soon."""
    monkeypatch.setattr(session, "CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(browsers, "STOP_SECONDS", 2.0)


def assert_crashed(ledger: Ledger, browser_home: BrowserHome) -> None:
    """The browser was stopped by force and blamed, the profile is held."""
    assert browser_home.processes() == []
    assert ledger.leases() == []
    attempt, (profile,) = ledger.last(), ledger.profiles()
    assert (attempt.outcome, attempt.blames, attempt.stop_rung) == ("browser_crashed", "browser", "sigkill")
    assert (profile.waits_for, profile.consecutive_failures) == ("hold", 0)


@pytest.mark.usefixtures("impatient")
def test_a_browser_that_freezes_at_its_start_is_stopped_and_has_crashed(
    shop: Pool, ledger: Ledger, browser_home: BrowserHome, after_start: AfterStart
) -> None:
    after_start(freeze)
    assert "p0: its browser started but cannot be driven" in str(fail_to_start(shop))
    assert_crashed(ledger, browser_home)


@pytest.mark.usefixtures("impatient")
def test_a_browser_that_freezes_at_its_start_is_stopped_by_async_code_too(
    shop: Pool, ledger: Ledger, browser_home: BrowserHome, after_start: AfterStart
) -> None:
    after_start(freeze)

    async def enter() -> None:
        async with async_playwright() as playwright:
            with pytest.raises(LaunchFailedError, match="cannot be driven"):
                async with shop.browser(playwright=playwright):
                    pytest.fail("the block was entered")

    asyncio.run(enter())
    assert_crashed(ledger, browser_home)
