"""Helpers for tests of launchers: a small site, Playwright's hands, other processes, waiting for conditions."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from playwright.sync_api import Page, Playwright

import poolsql

ROOT = Path(poolsql.__file__).parents[1]
OFFLINE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


class Site:
    """A site on 127.0.0.1 that shows a page and nothing else."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>Site</title><h1>Hello</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Tests read assertions, not access logs."""


@contextlib.contextmanager
def page_of(playwright: Playwright, cdp_url: str | None) -> Iterator[Page]:
    """A new page in the profile itself; leaving only disconnects, the browser goes on."""
    assert cdp_url is not None
    browser = playwright.chromium.connect_over_cdp(cdp_url, timeout=10_000)
    try:
        yield browser.contexts[0].new_page()
    finally:
        browser.close()


def remember(playwright: Playwright, cdp_url: str | None, site: Site, text: str) -> None:
    """Leave `text` in a persistent cookie and in the local storage of the profile."""
    with page_of(playwright, cdp_url) as page:
        page.goto(site.url)
        page.evaluate(
            "text => { document.cookie = `identity=${text}; max-age=86400`; localStorage.identity = text }", text
        )


def recall(playwright: Playwright, cdp_url: str | None, site: Site) -> tuple[str, str | None]:
    """What the profile has in its cookies and its local storage."""
    with page_of(playwright, cdp_url) as page:
        page.goto(site.url)
        cookies, stored = page.evaluate("[document.cookie, localStorage.identity ?? null]")
        return cookies, stored


def seen_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait for a condition, look often."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def run_elsewhere(code: str, *arguments: str) -> str:
    """Run Python code in a process of its own and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def to_text(value: dict[str, Any]) -> str:
    return json.dumps(value)


def children_that_are_zombies() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() == psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
