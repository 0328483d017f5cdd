from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from websockets.sync.server import serve

from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError
from poolsql.launchers.addresses import (
    accepts_connections,
    checked_cdp_url,
    is_gone,
    is_on_this_machine,
    shown,
)


@pytest.mark.parametrize(
    "url",
    [
        "ws://127.0.0.1:9222/devtools/browser/0c8e",
        "wss://vendor.example/session/1?key=x",
        "http://localhost:9222",
        "https://[::1]:9222/",
    ],
)
def test_addresses_of_browsers(url: str) -> None:
    assert checked_cdp_url(url) == url


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "",
        "127.0.0.1:9222",
        "ftp://x",
        "ws://",
        "ws:///x",
        "ws://x:0",
        "ws://x:99999",
        "ws://a b",
        f"ws://{'x' * 2000}",
    ],
)
def test_what_is_no_address_of_a_browser(value: object) -> None:
    with pytest.raises(BadInputError, match="is no address"):
        checked_cdp_url(value)


def test_messages_show_no_keys() -> None:
    assert shown("wss://me:secret@vendor.example:1/session?token=secret") == "wss://vendor.example:1"


@pytest.mark.parametrize(
    ("url", "here"),
    [("ws://127.0.0.1:1/x", True), ("http://u@localhost:1", True), ("ws://vendor.example", False)],
)
def test_the_loopback_is_this_machine(url: str, here: bool) -> None:
    assert is_on_this_machine(url) is here


@contextmanager
def answering(status: int) -> Iterator[int]:
    """An HTTP server that answers everything with one status; yields its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.send_header("Connection", "close")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "gone"),
    [(404, True), (410, True), (200, False), (401, False), (500, False), (503, False)],
)
def test_a_browser_is_gone_when_what_answers_does_not_know_it(status: int, gone: bool) -> None:
    with answering(status) as port:
        assert is_gone(f"ws://127.0.0.1:{port}/devtools/browser/x", Deadline(5)) is gone
        assert not is_gone(f"http://127.0.0.1:{port}", Deadline(5)), "whatever answers counts as the browser"
        assert accepts_connections(f"ws://127.0.0.1:{port}/", Deadline(5))


def test_a_browser_that_answers_is_not_gone() -> None:
    with serve(lambda connection: None, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.socket.getsockname()[1]
        assert not is_gone(f"ws://127.0.0.1:{port}/devtools/browser/x", Deadline(5))
        server.shutdown()
        thread.join()


def test_a_refused_connection_is_proof() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for scheme in ("ws", "http"):
        assert is_gone(f"{scheme}://127.0.0.1:{port}/x", Deadline(5))
        assert not accepts_connections(f"{scheme}://127.0.0.1:{port}/x", Deadline(5))


def test_silence_is_no_proof() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        assert not is_gone(f"ws://127.0.0.1:{deaf.getsockname()[1]}/", Deadline(0.3))


@pytest.mark.parametrize("error", [TimeoutError(), OSError(113, "No route to host"), socket.gaierror("no such name")])
def test_a_network_that_does_not_reach_there_is_no_proof(monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    def fail(*_: Any, **__: Any) -> socket.socket:
        raise error

    monkeypatch.setattr(socket, "create_connection", fail)
    assert not is_gone("ws://vendor.example:1/x", Deadline(1))
    assert not accepts_connections("ws://vendor.example:1/x", Deadline(1))
