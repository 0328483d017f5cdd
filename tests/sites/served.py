"""What all sites of the tests have: a server on 127.0.0.1 with its record, and an end for whatever waits in it."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from poolsql.demo.local_server import LocalServer, Request, RequestLog, Response


class ServedSite:
    """A site that is served while it is entered."""

    def __init__(self) -> None:
        self._log = RequestLog()
        self._server = LocalServer(self._respond, self._log)
        self._over = threading.Event()
        """Set when answers have to wait no longer, at the latest when the site ends."""

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._over.set()
        self._server.__exit__(kind, error, traceback)

    @property
    def host(self) -> str:
        """Name and port."""
        return self._server.host

    def _respond(self, request: Request) -> Response:
        raise NotImplementedError
