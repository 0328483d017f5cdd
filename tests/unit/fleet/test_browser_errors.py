from __future__ import annotations

import asyncio

import pytest
from playwright._impl._errors import TargetClosedError
from playwright.async_api import Error as AsyncError
from playwright.async_api import TimeoutError as AsyncTimeoutError
from playwright.sync_api import Error as SyncError

from poolsql.fleet.browser_errors import classify_error
from poolsql.leasing.outcomes import Outcome

LOG = ' at http://x.example/\nCall log:\n  - navigating to "http://x.example/", waiting until "load"\n'


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("ERR_NAME_NOT_RESOLVED", Outcome.SITE_ERROR),
        ("ERR_CONNECTION_REFUSED", Outcome.SITE_ERROR),
        ("ERR_CONNECTION_RESET", Outcome.SITE_ERROR),
        ("ERR_CONNECTION_TIMED_OUT", Outcome.SITE_ERROR),
        ("ERR_TIMED_OUT", Outcome.SITE_ERROR),
        ("ERR_EMPTY_RESPONSE", Outcome.SITE_ERROR),
        ("ERR_SSL_PROTOCOL_ERROR", Outcome.SITE_ERROR),
        ("ERR_CERT_DATE_INVALID", Outcome.SITE_ERROR),
        ("ERR_TOO_MANY_REDIRECTS", Outcome.SITE_ERROR),
        ("ERR_UNEXPECTED_PROXY_AUTH", Outcome.SITE_ERROR),
        ("ERR_PROXY_CONNECTION_FAILED", Outcome.PROXY_FAILED),
        ("ERR_PROXY_CERTIFICATE_INVALID", Outcome.PROXY_FAILED),
        ("ERR_TUNNEL_CONNECTION_FAILED", Outcome.PROXY_FAILED),
        ("ERR_NO_SUPPORTED_PROXIES", Outcome.PROXY_FAILED),
        ("ERR_SOCKS_CONNECTION_FAILED", Outcome.PROXY_FAILED),
        ("ERR_SOCKS_CONNECTION_HOST_UNREACHABLE", Outcome.PROXY_FAILED),
        ("ERR_INVALID_AUTH_CREDENTIALS", Outcome.SESSION_LOST),
        ("ERR_ABORTED", Outcome.TASK_FAILED),
        ("ERR_UNSAFE_PORT", Outcome.TASK_FAILED),
        ("ERR_INTERNET_DISCONNECTED", Outcome.TASK_FAILED),
        ("ERR_HTTP_RESPONSE_CODE_FAILURE", Outcome.TASK_FAILED),
    ],
)
def test_network_errors_of_a_load(code: str, outcome: Outcome) -> None:
    verdict = classify_error(AsyncError(f"Page.goto: net::{code}{LOG}"))
    assert verdict.outcome is outcome
    assert verdict.detail == f"Page.goto: net::{code} at http://x.example/"
    assert classify_error(SyncError(f"net::{code}")).outcome is outcome


@pytest.mark.parametrize(
    "text",
    [
        "Page.goto: Page crashed",
        "Page.evaluate: Target crashed ",
        "Page.goto: Navigation failed because page crashed!",
        "Page.title: Target page, context or browser has been closed",
        "BrowserType.connect_over_cdp: Browser has been closed",
        "Connection closed while reading from the driver",
    ],
)
def test_crashes(text: str) -> None:
    assert classify_error(AsyncError(text)).outcome is Outcome.BROWSER_CRASHED


def test_a_closed_target_is_told_by_its_type() -> None:
    assert classify_error(TargetClosedError("Page.goto: some new wording")).outcome is Outcome.BROWSER_CRASHED


@pytest.mark.parametrize("call", ["evaluate", "evaluate_handle", "eval_on_selector", "wait_for_function"])
def test_a_page_cannot_blame_the_proxy_by_what_it_throws(call: str) -> None:
    error = AsyncError(f"Page.{call}: net::ERR_PROXY_CONNECTION_FAILED")
    assert classify_error(error).outcome is Outcome.TASK_FAILED


@pytest.mark.parametrize(
    "text",
    [
        "Page.evaluate: Error: Target crashed\n    at eval (eval at evaluate (:234:30), <anonymous>:1:7)",
        "Page.goto: Download is starting",
        "Page.click: Error: strict mode violation",
        "Page.goto: Protocol error (Page.navigate): Cannot navigate to invalid URL: net::ERR_CONNECTION_REFUSED",
        "",
    ],
)
def test_other_errors_of_the_driver_are_the_tasks(text: str) -> None:
    assert classify_error(AsyncError(text)).outcome is Outcome.TASK_FAILED


@pytest.mark.parametrize("error", [AsyncTimeoutError("Page.goto: Timeout 500ms exceeded."), TimeoutError()])
def test_time_outs(error: Exception) -> None:
    verdict = classify_error(error)
    assert verdict.outcome is Outcome.TASK_TIMEOUT
    assert verdict.detail in {"Page.goto: Timeout 500ms exceeded.", "TimeoutError"}


def test_cancelled() -> None:
    assert classify_error(asyncio.CancelledError()).outcome is Outcome.CANCELLED


@pytest.mark.parametrize(
    "error", [ValueError("Connection closed"), KeyError("net::ERR_CONNECTION_REFUSED"), ConnectionRefusedError()]
)
def test_errors_of_the_tasks_own_code_are_the_tasks(error: Exception) -> None:
    verdict = classify_error(error)
    assert verdict.outcome is Outcome.TASK_FAILED
    assert verdict.detail.startswith(type(error).__name__)


def test_detail_is_one_storable_line() -> None:
    detail = classify_error(ValueError("a\0\ud800" + "x" * 10_000 + "\nsecond")).detail
    detail.encode()
    assert "\n" not in detail
    assert "\0" not in detail
    assert len(detail) < 600
