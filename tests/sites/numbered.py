"""A site of small pages with numbers, some of which answer late or only when the test lets them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from poolsql.demo.local_server import Request, Response
from poolsql.demo.pages import message_page
from tests.sites.served import ServedSite

LONGEST_WAIT = 120.0
"""Seconds after which a held page is answered all the same: no test may hang on one for ever."""


class NumberedSite(ServedSite):
    """Pages while it is entered.

    ``/page/<n>`` has the title "Page n" and the heading "Number n"; with ``?seconds=…`` it answers so late.
    ``/held/<n>`` is the same page, but no request for it is answered before `let_go`.
    """

    def page(self, number: int, *, seconds: float = 0.0) -> str:
        """Address of a page that answers after `seconds`."""
        return f"http://{self.host}/page/{number}" + (f"?seconds={seconds:g}" if seconds else "")

    def held(self, number: int) -> str:
        """Address of a page that answers when the test lets it."""
        return f"http://{self.host}/held/{number}"

    def let_go(self) -> None:
        """Answer what is held, and all such pages from now on."""
        self._over.set()

    @property
    def asked(self) -> Counter[str]:
        """How often each path, with its query, was asked for."""
        return Counter(record.path for record in self._log.snapshot())

    @property
    def held_now(self) -> int:
        """Requests for held pages up to now."""
        return sum(record.path.startswith("/held/") for record in self._log.snapshot())

    def _respond(self, request: Request) -> Response:
        match request.path.split("/")[1:]:
            case ["page", number]:
                return Response(_html(number), delay=float(request.query.get("seconds", "0")))
            case ["held", number]:
                return Response(self._held(number), headers=(("Content-Length", str(len(_html(number)))),))
            case _:
                return Response(b"", status=404)

    def _held(self, number: str) -> Iterator[bytes]:
        self._over.wait(LONGEST_WAIT)
        yield _html(number)


def _html(number: str) -> bytes:
    return message_page(f"Number {number}", "A small page.", title=f"Page {number}").encode()
