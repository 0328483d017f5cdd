"""Pages of a small site in a real browser, without a fleet around them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from playwright.async_api import Browser, Page, Playwright, async_playwright

from poolsql.demo.local_server import LocalServer, Request, RequestLog, Response
from poolsql.launchers.local.executable import find_executable
from tests.fixtures.browsers import OFFLINE


class OpenPages:
    """A browser, and a site whose pages are what a test says."""

    def __init__(self, browser: Browser, runner: asyncio.Runner, site: LocalServer, pages: dict[str, Response]) -> None:
        self._browser = browser
        self._runner = runner
        self._site = site
        self.pages = pages
        """By path."""

    @property
    def url(self) -> str:
        """The address of the root page, which ends with a slash."""
        return self._site.url

    def show(self, html: str, work: Callable[[Page], Awaitable[Any]]) -> Any:
        """Load a page with this body and do something with it; returns what that returns."""
        self.pages["/"] = Response(f"<!doctype html><title>Page</title><body>{html}</body>".encode())

        async def load_and_work(page: Page) -> Any:
            await page.goto(self.url, wait_until="domcontentloaded")
            return await work(page)

        return self.with_page(load_and_work)

    def with_page(self, work: Callable[[Page], Awaitable[Any]]) -> Any:
        """Do something with a new page."""

        async def open_and_work() -> Any:
            page = await self._browser.new_page()
            try:
                async with asyncio.timeout(60):
                    return await work(page)
            finally:
                await page.close()

        return self._runner.run(open_and_work())


@contextmanager
def open_pages() -> Iterator[OpenPages]:
    pages: dict[str, Response] = {}

    def respond(request: Request) -> Response:
        return pages.get(request.path, Response(b"", status=404))

    async def start() -> tuple[Playwright, Browser]:
        playwright = await async_playwright().start()
        browser = await playwright.chromium.launch(
            executable_path=str(find_executable()), args=["--no-sandbox", f"--host-resolver-rules={OFFLINE}"]
        )
        return playwright, browser

    async def stop() -> None:
        await browser.close()
        await playwright.stop()

    with LocalServer(respond, RequestLog()) as site, asyncio.Runner() as runner:
        playwright, browser = runner.run(start())
        try:
            yield OpenPages(browser, runner, site, pages)
        finally:
            runner.run(stop())
