"""Whose fault an exception of the browser driver is, read from its type and text.

Playwright has one class for nearly everything, so the text decides. The texts were seen with Playwright 1.65 and
Chromium. A page can put any text into an error by throwing it, so texts of calls that run the page's scripts never
blame the proxy or the site.
"""

from __future__ import annotations

import asyncio
import re

from poolsql.leasing.outcomes import Outcome, Verdict
from poolsql.text import clean_text

# "Page.goto: net::ERR_… at https://…", followed by lines with Playwright's log of the call.
_CALL = re.compile(r"(?:(?P<call>[A-Za-z]+\.[A-Za-z_]+): )?(?P<message>.*)", re.DOTALL)
_CALL_RUNS_PAGE_SCRIPTS = re.compile(r"\.(?:evaluate|eval_on|wait_for_function)")
_NET_ERROR = re.compile(r"net::(?P<code>ERR_[A-Z0-9_]+)")

_CRASH = re.compile(
    r"Page crashed"
    r"|Target crashed"
    r"|Target closed"
    r"|Navigation failed because page crashed"
    r"|Target page, context or browser has been closed"
    r"|(?:Browser|Page|Context) (?:has been )?closed"
    r"|Connection closed"
)

# ERR_UNEXPECTED_PROXY_AUTH is missing on purpose: it means a 407 from a site that no proxy stands in front of.
_PROXY_CODE = re.compile(
    r"ERR_(?:PROXY_|TUNNEL_CONNECTION_FAILED|NO_SUPPORTED_PROXIES|SOCKS_|HTTPS_PROXY_|MANDATORY_PROXY_|PAC_)"
)
# Causes on this machine (ERR_INTERNET_DISCONNECTED, ERR_NETWORK_CHANGED, ERR_INSUFFICIENT_RESOURCES) or in the task
# (ERR_ABORTED, ERR_INVALID_URL, ERR_UNSAFE_PORT) are missing on purpose.
_SITE_CODE = re.compile(
    r"ERR_(?:NAME_|DNS_|CONNECTION_|TIMED_OUT|ADDRESS_UNREACHABLE|EMPTY_RESPONSE|TOO_MANY_REDIRECTS"
    r"|SSL_|CERT_|BAD_SSL_|HTTP2_|QUIC_|INVALID_RESPONSE|INVALID_HTTP_RESPONSE|INVALID_REDIRECT|RESPONSE_HEADERS_"
    r"|CONTENT_LENGTH_MISMATCH|CONTENT_DECODING_FAILED|INCOMPLETE_CHUNKED_ENCODING|INVALID_CHUNKED_ENCODING"
    r"|UNEXPECTED_PROXY_AUTH)"
)


def classify_error(error: BaseException) -> Verdict:
    """Judge an exception that ended a task.

    Chromium raises ``ERR_HTTP_RESPONSE_CODE_FAILURE`` for an error status without a body and
    ``ERR_INVALID_AUTH_CREDENTIALS`` for a 401: there the caller should judge the answer that it recorded, with
    `classify_page`; here only the latter can be told.
    """
    detail = _detail(error)
    if isinstance(error, asyncio.CancelledError):
        return Verdict(Outcome.CANCELLED, detail)
    # Playwright's own TimeoutError is no subclass of Python's.
    if isinstance(error, TimeoutError) or type(error).__name__ == "TimeoutError":
        return Verdict(Outcome.TASK_TIMEOUT, detail)
    if not type(error).__module__.startswith("playwright."):
        return Verdict(Outcome.TASK_FAILED, detail)
    return Verdict(_outcome_of_playwright_error(error), detail)


def _outcome_of_playwright_error(error: BaseException) -> Outcome:
    parts = _CALL.fullmatch(str(error))
    call, message = (parts["call"] or "", parts["message"]) if parts else ("", str(error))
    if type(error).__name__ == "TargetClosedError" or _CRASH.match(message):
        return Outcome.BROWSER_CRASHED
    net_error = _NET_ERROR.match(message)
    if net_error is None or _CALL_RUNS_PAGE_SCRIPTS.search(call):
        return Outcome.TASK_FAILED
    code = net_error["code"]
    if _PROXY_CODE.match(code):
        return Outcome.PROXY_FAILED
    if _SITE_CODE.match(code):
        return Outcome.SITE_ERROR
    if code == "ERR_INVALID_AUTH_CREDENTIALS":
        return Outcome.SESSION_LOST
    return Outcome.TASK_FAILED


def _detail(error: BaseException) -> str:
    """The first line of an error's text, without Playwright's call log; its type's name where it has no text."""
    name = type(error).__name__
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001 - a stranger's __str__ may raise anything
        lines = []
    if not lines:
        return name
    text = clean_text(lines[0], limit=500)
    return text if type(error).__module__.startswith("playwright.") else f"{name}: {text}"
