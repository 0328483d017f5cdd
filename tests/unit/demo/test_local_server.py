from __future__ import annotations

import http.client
import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest
import requests

from poolsql.demo.local_server import LocalServer, Request, RequestLog, Response


class _Pages:
    """Answers that a test sets by path; anything else is a plain page."""

    def __init__(self) -> None:
        self.answers: dict[str, Response] = {}
        self.asked: list[Request] = []

    def respond(self, request: Request) -> Response:
        self.asked.append(request)
        if request.path == "/broken":
            raise RuntimeError("a page with a mistake")
        return self.answers.get(request.path, Response(b"hello"))


@pytest.fixture
def pages() -> _Pages:
    return _Pages()


@pytest.fixture
def log() -> RequestLog:
    return RequestLog()


@pytest.fixture
def server(pages: _Pages, log: RequestLog) -> Iterator[LocalServer]:
    with LocalServer(pages.respond, log) as running:
        yield running


def _server_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "process_request_thread" in thread.name]


def test_one_connection_serves_many_requests(server: LocalServer) -> None:
    connection = http.client.HTTPConnection(server.host, timeout=5)
    sources = set()
    for _ in range(3):
        connection.request("GET", "/")
        response = connection.getresponse()
        assert (response.version, response.read()) == (11, b"hello")
        sources.add(connection.sock.getsockname())
    connection.close()
    assert len(sources) == 1


def test_body_and_head_requests_leave_the_connection_in_step(server: LocalServer, pages: _Pages) -> None:
    connection = http.client.HTTPConnection(server.host, timeout=5)
    connection.request("POST", "/form?a=1&a=2&b=", body=b"x=GET /", headers={"Cookie": "one=1; two=2=2; odd"})
    assert connection.getresponse().read() == b"hello"
    connection.request("HEAD", "/")
    head = connection.getresponse()
    assert (head.getheader("Content-Length"), head.read()) == ("5", b"")
    connection.request("GET", "/last")
    assert connection.getresponse().read() == b"hello"
    connection.close()
    form = pages.asked[0]
    assert (form.method, form.path, form.body) == ("POST", "/form", b"x=GET /")
    assert form.query == {"a": "2", "b": ""}
    assert form.cookies == {"one": "1", "two": "2=2", "odd": ""}


def test_requests_are_recorded_before_they_are_answered(server: LocalServer, pages: _Pages, log: RequestLog) -> None:
    pages.answers["/late"] = Response(b"late", status=418, delay=30)
    before = time.monotonic()
    with pytest.raises(requests.ReadTimeout):
        requests.get(f"{server.url}late?a=1", timeout=0.3, headers={"User-Agent": "tester/1"})
    (record,) = log.snapshot()
    assert (record.host, record.path, record.status) == (server.host, "/late?a=1", 418)
    assert record.user_agent == "tester/1"
    assert before <= record.at <= time.monotonic()


def test_a_mistake_in_a_page_is_a_500_and_logged(server: LocalServer, caplog: pytest.LogCaptureFixture) -> None:
    assert requests.get(f"{server.url}broken", timeout=5).status_code == 500
    assert "/broken" in caplog.text
    assert requests.get(server.url, timeout=5).text == "hello"


def test_a_client_that_leaves_in_the_middle_is_no_traceback(
    server: LocalServer, pages: _Pages, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO)
    pages.answers["/big"] = Response(bytes(30_000_000))
    for _ in range(5):
        client = socket.create_connection(("127.0.0.1", int(server.host.split(":")[1])), timeout=5)
        client.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        client.recv(1000)
        # Closing with a linger of zero sends a reset instead of a polite end.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    assert requests.get(server.url, timeout=5).text == "hello"
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")


def test_no_answer_at_all(server: LocalServer, pages: _Pages, log: RequestLog) -> None:
    pages.answers["/nothing"] = Response(hang_up=True)
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{server.url}nothing", timeout=5)
    assert log.snapshot()[0].status == 0


def test_pieces_are_streamed_and_the_length_given_is_kept(server: LocalServer, pages: _Pages) -> None:
    pages.answers["/known"] = Response((b"ab", b"cd"), headers=(("Content-Length", "4"),))
    pages.answers["/open"] = Response(piece for piece in (b"ab", b"cd"))
    assert requests.get(f"{server.url}known", timeout=5).content == b"abcd"
    assert requests.get(f"{server.url}open", timeout=5).content == b"abcd"


def test_the_end_waits_for_nobody_and_leaves_no_thread(pages: _Pages, log: RequestLog) -> None:
    pages.answers["/late"] = Response(b"late", delay=60)
    with LocalServer(pages.respond, log) as server:
        idle = http.client.HTTPConnection(server.host, timeout=5)
        idle.request("GET", "/")
        idle.getresponse().read()
        waiting = http.client.HTTPConnection(server.host, timeout=5)
        waiting.request("GET", "/late")
        while len(log.snapshot()) < 2:
            time.sleep(0.005)
        assert len(_server_threads()) == 2
        began = time.monotonic()
    assert time.monotonic() - began < 3
    assert _server_threads() == []
    idle.close()
    waiting.close()
