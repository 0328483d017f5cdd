"""The demo's shop: a site on this machine with the troubles that real sites have.

Three servers, because a captcha and a 429 each pause their whole host: the shop itself, one that refuses its first
requests, one that shows nothing but a captcha.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack
from datetime import timedelta
from types import TracebackType
from typing import Self

from poolsql.demo.local_server import LocalServer, Request, RequestLog, RequestRecord, Response
from poolsql.demo.pages import captcha_page, listing_page, message_page, product, product_page, visitor_page

PER_PAGE = 12
FORBIDDEN_PATH = "/private/stocktaking"
SLOW_PATH = "/slow"
COOKIE_PATH = "/welcome"
VISITOR_COOKIE = "visitor"

_ROBOTS = "User-agent: *\nDisallow: /private/\n"
_COOKIE_SECONDS = 30 * 24 * 3600
_LONGEST_SLOW_SECONDS = 60.0


class ShopSite:
    """The shop while it is entered; addresses are known from the start.

    Args:
        products: How many things it sells, 12 on a page.
        retry_after: What the limited page asks for; whole seconds, since the header has no smaller unit.
        refusals: How many requests the limited page refuses before it begins to count the time.
        slow: How long the slow page takes.
    """

    def __init__(
        self,
        *,
        products: int = 36,
        retry_after: timedelta = timedelta(seconds=3),
        refusals: int = 1,
        slow: timedelta = timedelta(seconds=2),
    ) -> None:
        self._count = products
        self._pages = max(1, math.ceil(products / PER_PAGE))
        self._slow = slow.total_seconds()
        self._log = RequestLog()
        self._limited = _LimitedPage(math.ceil(retry_after.total_seconds()), refusals)
        self._shop_server = LocalServer(self._shop, self._log)
        self._limited_server = LocalServer(self._limited.respond, self._log)
        self._captcha_server = LocalServer(_captcha, self._log)
        self._visitors = 0
        self._visitors_lock = threading.Lock()
        self._entered = ExitStack()

    def __enter__(self) -> Self:
        for server in (self._shop_server, self._limited_server, self._captcha_server):
            self._entered.enter_context(server)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._entered.close()

    @property
    def url(self) -> str:
        """The first page of the catalogue, ``http://127.0.0.1:<port>/``."""
        return self._shop_server.url

    @property
    def limited_url(self) -> str:
        """The page that answers 429 first, on a port of its own."""
        return f"{self._limited_server.url}offers"

    @property
    def captcha_url(self) -> str:
        """A page behind the captcha, on a port of its own."""
        return f"{self._captcha_server.url}members"

    @property
    def forbidden_url(self) -> str:
        """A page that robots.txt forbids; whoever asks gets it, so that the request is on record."""
        return self._at(FORBIDDEN_PATH)

    @property
    def slow_url(self) -> str:
        """The slow page; ``?seconds=`` overrides how slow."""
        return self._at(SLOW_PATH)

    @property
    def cookie_url(self) -> str:
        """The page that gives a lasting cookie and shows the one that it got."""
        return self._at(COOKIE_PATH)

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """All requests up to now, of all three servers, in order of arrival."""
        return self._log.snapshot()

    @property
    def early_requests(self) -> int:
        """Requests to the limited page before the time that it had asked for was over."""
        return self._limited.early

    def urls(self) -> list[str]:
        """The pages that the demo takes, each once.

        The limited page and the captcha come early, so that their pauses are over before the rest is.
        """
        first = [self.url, self.limited_url, self.captcha_url, self.forbidden_url, self.cookie_url, self.slow_url]
        listing = [f"{self.url}?page={page}" for page in range(2, self._pages + 1)]
        return first + listing + [self._at(f"/product/{number}") for number in range(1, self._count + 1)]

    def _at(self, path: str) -> str:
        return f"{self.url.rstrip('/')}{path}"

    def _shop(self, request: Request) -> Response:  # noqa: PLR0911  # one return a page
        match request.path.split("/")[1:]:
            case [""]:
                return self._listing(request.query.get("page", "1"))
            case ["product", number] if _is_number(number, at_most=self._count):
                return _page(product_page(product(int(number))))
            case ["robots.txt"]:
                return _robots(_ROBOTS)
            case ["private", *_]:
                return _page(message_page("Stocktaking", "Only for people who work here; robots.txt says so."))
            case ["slow"]:
                return self._slow_page(request.query.get("seconds"))
            case ["welcome"]:
                return self._welcome(request.cookies.get(VISITOR_COOKIE))
            case _:
                return _missing()

    def _listing(self, page: str) -> Response:
        if not _is_number(page, at_most=self._pages):
            return _missing()
        first = (int(page) - 1) * PER_PAGE + 1
        shown = [product(number) for number in range(first, min(first + PER_PAGE, self._count + 1))]
        return _page(listing_page(shown, page=int(page), pages=self._pages))

    def _slow_page(self, asked: str | None) -> Response:
        try:
            seconds = float(asked) if asked is not None else self._slow
        except ValueError:
            return _missing()
        # Written so that NaN is refused as well.
        if not 0 <= seconds <= _LONGEST_SLOW_SECONDS:
            return _missing()
        return Response(message_page("Slow but there", f"This page took {seconds:g} s.").encode(), delay=seconds)

    def _welcome(self, received: str | None) -> Response:
        page = visitor_page(received).encode()
        if received:
            return Response(page)
        with self._visitors_lock:
            self._visitors += 1
            given = f"visitor-{self._visitors}"
        return Response(
            page,
            headers=(("Set-Cookie", f"{VISITOR_COOKIE}={given}; Max-Age={_COOKIE_SECONDS}; Path=/; SameSite=Lax"),),
        )


class _LimitedPage:
    """Answers 429 to its first requests and, after the last of them, until Retry-After has passed."""

    def __init__(self, seconds: int, refusals: int) -> None:
        self._seconds = seconds
        self._refusals_left = refusals
        self._open_at = 0.0
        self._refused = False
        self._lock = threading.Lock()
        self.early = 0

    def respond(self, request: Request) -> Response:
        if request.path == "/robots.txt":
            return _robots("User-agent: *\nDisallow:\n")
        if request.path != "/offers":
            return _missing()
        with self._lock:
            wait = self._wait()
        if wait is None:
            return _page(message_page("Offers of the week", "Two coasters for the price of one."))
        return Response(
            message_page("Too many requests", f"Please come back in {wait} s.").encode(),
            status=429,
            headers=(("Retry-After", str(wait)),),
        )

    def _wait(self) -> int | None:
        """Whole seconds to stay away from now on; None when the page is open."""
        now = time.monotonic()
        left = self._open_at - now
        if self._refused and left > 0:
            self.early += 1
        if self._refusals_left > 0:
            self._refusals_left -= 1
            self._refused = True
            self._open_at = now + self._seconds
            return self._seconds
        return math.ceil(left) if self._refused and left > 0 else None


def _captcha(request: Request) -> Response:
    if request.path == "/robots.txt":
        return _robots("User-agent: *\nDisallow:\n")
    return _page(captcha_page())


def _page(html: str) -> Response:
    return Response(html.encode())


def _robots(text: str) -> Response:
    return Response(text.encode(), content_type="text/plain; charset=utf-8")


def _missing() -> Response:
    return Response(message_page("Page not found", "There is no such page in this shop.").encode(), status=404)


def _is_number(text: str, *, at_most: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= at_most
