"""A small web server on 127.0.0.1, on which the demo's shop and the tests' hostile pages stand.

It is the standard library's server with what browsers and tests need on top: HTTP/1.1 connections that stay open, a
record of every request, answers that come late, in pieces or not at all, and an end that leaves no thread, connection
or traceback behind.
"""

from __future__ import annotations

import contextlib
import email.utils
import http
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

_LOG = logging.getLogger(__name__)

_BODY_LIMIT = 1_000_000
_CLOSE_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a page is asked with."""

    method: str
    path: str
    """Without the query."""
    query: Mapping[str, str]
    """The last value of each parameter."""
    cookies: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """What a page answers."""

    body: bytes | Iterable[bytes] = b""
    """In pieces it needs a Content-Length in `headers`, or the connection ends with it."""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "text/html; charset=utf-8"
    delay: float = 0.0
    """Seconds before the answer begins."""
    hang_up: bool = False
    """Close the connection without any answer."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that reached a server, noted before it is answered."""

    host: str
    """What the client addressed: name and port."""
    path: str
    """With the query."""
    at: float
    """Arrival in seconds of `time.monotonic`, for measuring gaps."""
    received: datetime
    """Arrival by the wall clock, in UTC."""
    status: int
    """What is answered; 0 where the connection is closed without an answer."""
    user_agent: str


@dataclass(slots=True)
class RequestLog:
    """Records of all servers of a site in order of arrival; safe to read and write from any thread."""

    _records: list[RequestRecord] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, record: RequestRecord) -> None:
        """Append a record."""
        with self._lock:
            self._records.append(record)

    def snapshot(self) -> tuple[RequestRecord, ...]:
        """All records up to now."""
        with self._lock:
            return tuple(self._records)


class LocalServer:
    """Serves what `respond` answers on a free port of 127.0.0.1, from `__enter__` to `__exit__`.

    `respond` is called from several threads at once. An error in it is logged and answered with 500.
    """

    def __init__(self, respond: Callable[[Request], Response], log: RequestLog) -> None:
        self._http = _HttpServer(respond, log)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, name="local-server", daemon=True
        )

    @property
    def host(self) -> str:
        """Name and port, as in `RequestRecord.host`."""
        return f"127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        """Address of the root page."""
        return f"http://{self.host}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._http.close_connections()
        self._thread.join(_CLOSE_TIMEOUT)


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, respond: Callable[[Request], Response], log: RequestLog) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.respond = respond
        self.log = log
        self.closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()

    def process_request(self, request: Any, client_address: Any) -> None:
        # Noted by the thread that accepts: once `shutdown` has returned, no connection is missing here.
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._changed:
                self._open.discard(request)
                self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _LOG.debug("connection of %s ended with an error", client_address, exc_info=True)

    def close_connections(self) -> None:
        """End connections that clients keep open, and wait for the threads that serve them."""
        self.closing.set()
        with self._changed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._changed.wait_for(lambda: not self._open, _CLOSE_TIMEOUT)


class _Handler(BaseHTTPRequestHandler):
    server: _HttpServer

    protocol_version = "HTTP/1.1"
    server_version = "poolsql-demo"
    sys_version = ""
    timeout = 60.0
    # Head and body are two writes; Nagle's algorithm would hold the second one back for 40 ms.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        arrived, received = time.monotonic(), datetime.now(UTC)
        response = self._respond()
        self.server.log.add(
            RequestRecord(
                host=self.headers.get("Host", ""),
                path=self.path,
                at=arrived,
                received=received,
                status=0 if response.hang_up else response.status,
                user_agent=self.headers.get("User-Agent", ""),
            )
        )
        interrupted = self.server.closing.wait(response.delay) if response.delay else False
        if interrupted or response.hang_up:
            self.close_connection = True
        else:
            self._send(response)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server looks for
    do_POST = do_GET  # noqa: N815 - the name that http.server looks for

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the signature of http.server
        """Nothing: what was asked is in the request log, and the terminal belongs to the demo."""

    def _respond(self) -> Response:
        try:
            return self.server.respond(self._request())
        except Exception:  # noqa: BLE001  # whatever a page's code raises, the client gets an answer
            _LOG.exception("the local server cannot answer %s", self.path)
            return Response(b"Internal error", status=500, content_type="text/plain; charset=utf-8")

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        length = self.headers.get("Content-Length", "0")
        size = int(length) if length.isdecimal() else 0
        if size > _BODY_LIMIT:
            self.close_connection = True
            size = 0
        cookies = (pair.partition("=") for pair in self.headers.get("Cookie", "").split("; "))
        return Request(
            method=self.command,
            path=parts.path,
            query={name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()},
            cookies={name: value for name, _, value in cookies},
            body=self.rfile.read(size),
        )

    def _send(self, response: Response) -> None:
        names = {name.lower() for name, _ in response.headers}
        self.send_response_only(response.status, _reason(response.status))
        if "date" not in names:
            self.send_header("Date", email.utils.formatdate(usegmt=True))
        if "content-type" not in names:
            self.send_header("Content-Type", response.content_type)
        # Nothing may come from a browser's cache: the record of requests has to be complete.
        if "cache-control" not in names:
            self.send_header("Cache-Control", "no-store")
        if "content-length" not in names:
            if isinstance(response.body, bytes):
                self.send_header("Content-Length", str(len(response.body)))
            else:
                self.send_header("Connection", "close")
                self.close_connection = True
        for name, value in response.headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self._send_body(response.body)

    def _send_body(self, body: bytes | Iterable[bytes]) -> None:
        for piece in (body,) if isinstance(body, bytes) else body:
            if self.server.closing.is_set():
                self.close_connection = True
                return
            self.wfile.write(piece)


def _reason(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
