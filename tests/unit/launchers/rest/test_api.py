from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from poolsql.deadlines import Deadline
from poolsql.errors import LaunchFault
from poolsql.launchers.rest import api
from poolsql.launchers.rest.api import Api, ApiError
from poolsql.launchers.rest.reading import read_options
from poolsql.launchers.rest.refusals import Refusal

SECRET = "api-canary-93be17"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", SECRET)


@contextmanager
def answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers one connection with these bytes; yields its address and what it received."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)

        def serve() -> None:
            connection, _ = server.accept()
            # What is left unread would reset the connection, and an answer that is too long is not read to its end.
            with connection, suppress(OSError):
                request = connection.recv(65536)
                while not request.endswith(b"}") and request.startswith(b"POST"):
                    request += connection.recv(65536)
                received.append(request)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", received
        thread.join()


def http(status: int, body: str = "{}", *, headers: str = "", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {status} X\r\nContent-Length: {size}\r\n{headers}\r\n{body}".encode()


def start(base_url: str, *, seconds: float = 10, wants_json: bool = True, **more: Any) -> Any:
    options = read_options({"preset": "justbrowser", "token": "env:API_TOKEN", "base_url": base_url, **more})
    values = {**options.variables, "id": "p1"}
    return Api(options).call(options.start, "p1", values, Deadline(seconds), wants_json=wants_json)


def failed(answer: bytes, **more: Any) -> ApiError:
    with answering(answer) as (base_url, _), pytest.raises(ApiError) as told:
        start(base_url, **more)
    assert SECRET not in str(told.value)
    assert told.value.__cause__ is None
    return told.value


def test_a_good_answer_is_read() -> None:
    with answering(http(200, '{"data": {"x": 1}}')) as (base_url, received):
        assert start(base_url) == {"data": {"x": 1}}
    head, _, body = received[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /profiles/p1/start HTTP/1.1")
    assert f"Authorization: Bearer {SECRET}".encode() in head
    assert b"Content-Type: application/json" in head
    assert body == b'{"headless": false}'


def test_an_answer_that_is_not_looked_at_may_be_anything() -> None:
    with answering(http(204, "")) as (base_url, _):
        assert start(base_url, wants_json=False) is None


@pytest.mark.parametrize(
    ("status", "fault", "retry", "may_have_acted"),
    [
        (302, LaunchFault.LAUNCHER, False, False),
        (400, LaunchFault.LAUNCHER, False, False),
        (401, LaunchFault.LAUNCHER, False, False),
        (403, LaunchFault.LAUNCHER, False, False),
        (404, LaunchFault.PROFILE, False, False),
        (409, LaunchFault.PROFILE, False, False),
        (423, LaunchFault.PROFILE, False, False),
        (429, LaunchFault.LAUNCHER, True, False),
        (500, LaunchFault.LAUNCHER, True, True),
        (503, LaunchFault.LAUNCHER, True, True),
    ],
)
def test_whose_fault_a_status_is(status: int, fault: LaunchFault, retry: bool, may_have_acted: bool) -> None:
    error = failed(http(status, f'{{"error": "no {SECRET}"}}', headers="Location: /other\r\n"))
    assert (error.fault, error.retry, error.may_have_acted) == (fault, retry, may_have_acted)
    assert error.status == status
    assert "profile p1: POST http://127.0.0.1:" in str(error)
    assert "[hidden]" in str(error)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (http(200, "<html>"), "what is no JSON; it says: <html>"),
        (http(200, "[" * 100_000), "what is no JSON"),
        (http(200, '{"data": {"cd', length=60), "no complete answer"),
        (http(200, '{"data": {"cd'), "what is no JSON"),
        (b"", "no complete answer"),
        (b"garbage\r\n\r\n", "no complete answer"),
    ],
)
def test_an_answer_that_cannot_be_read_may_hide_a_browser_and_is_asked_for_again(answer: bytes, expected: str) -> None:
    error = failed(answer)
    assert expected in str(error)
    assert (error.fault, error.retry, error.may_have_acted) == (LaunchFault.LAUNCHER, True, True)


def test_an_answer_without_an_end_is_cut() -> None:
    error = failed(http(200, "x" * 3_000_000))
    assert "what is no JSON" in str(error)
    assert len(str(error)) < 500


def test_a_success_rule_looks_into_the_answer() -> None:
    rule = {"path": "/{id}", "success": {"equals": {"code": 0}}}
    error = failed(http(200, '{"code": -1, "msg": "limit"}'), start=rule)
    assert "answered 200, but code is '-1' instead of '0'" in str(error)
    assert "limit" in str(error)
    assert (error.fault, error.retry, error.may_have_acted) == (LaunchFault.LAUNCHER, False, True)
    with answering(http(200, '{"code": 0}')) as (base_url, _):
        assert start(base_url, start=rule) == {"code": 0}


def test_a_retry_after_is_read() -> None:
    assert failed(http(429, headers="Retry-After: 17\r\n")).retry_after == 17
    assert failed(http(503, headers="Retry-After: 5\r\n")).retry_after == 5
    assert failed(http(429)).retry_after is None


@pytest.mark.parametrize(
    ("status", "body", "not_running"),
    [
        (404, "", True),
        (410, "", True),
        (400, '{"error": "profile_not_running"}', True),
        (409, "The browser is not running.", True),
        (409, "already stopped", True),
        (409, "already running", False),
        (400, "cannot be started", False),
        (409, "annotated running", False),
        (401, "not running", False),
        (500, "not running", False),
    ],
)
def test_what_says_that_nothing_runs(status: int, body: str, not_running: bool) -> None:
    assert failed(http(status, body)).not_running is not_running


@pytest.mark.parametrize(
    ("status", "body", "refusal", "expected"),
    [
        (200, '{"code": -1, "msg": "Too many request per second"}', Refusal.LIMIT, (LaunchFault.LAUNCHER, True, False)),
        (500, '{"errorCode": "profile_locked"}', Refusal.LOCKED, (LaunchFault.LAUNCHER, True, False)),
        (400, '{"errorCode": "proxy_connection_issue"}', Refusal.PROXY, (LaunchFault.PROXY, False, True)),
        (400, '{"code": "PROFILE_ALREADY_RUNNING"}', Refusal.ALREADY_RUNNING, (LaunchFault.PROFILE, False, False)),
        (200, '{"code": 1, "msg": "already open"}', Refusal.ALREADY_RUNNING, (LaunchFault.PROFILE, False, False)),
        (409, '{"msg": "by another user"}', Refusal.IN_USE, (LaunchFault.PROFILE, False, False)),
        (401, '{"errorCode": "profile_locked"}', Refusal.LOCKED, (LaunchFault.LAUNCHER, True, False)),
        (400, '{"msg": "no such folder"}', None, (LaunchFault.LAUNCHER, False, False)),
    ],
)
def test_declared_texts_tell_refusals_apart_before_status_and_common_words(
    status: int, body: str, refusal: Refusal | None, expected: tuple[LaunchFault, bool, bool]
) -> None:
    rule = {"path": "/{id}", "success": {"equals": {"code": 0}}}
    errors = {"limit": "too many", "locked": ["profile_locked", "sync"], "proxy": "proxy_.*"}
    error = failed(http(status, body), start=rule, errors=errors)
    assert error.refusal is refusal
    assert (error.fault, error.retry, error.may_have_acted) == expected
    assert body[1:20] in str(error)


def test_what_was_never_sent_did_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(ApiError, match="check the base URL") as told:
        start(f"http://127.0.0.1:{port}")
    assert (told.value.retry, told.value.may_have_acted) == (True, False)
    with pytest.raises(ApiError, match="no connection") as told:
        start("http://no-such-host.invalid")
    assert (told.value.retry, told.value.may_have_acted) == (True, False)


def test_a_server_that_is_silent_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ApiError, match=r"no complete answer within 0\.2 s") as told:
            start(base_url, request_timeout=0.2)
        assert (told.value.retry, told.value.may_have_acted) == (True, True)
        with pytest.raises(ApiError, match="no complete answer"):
            start(base_url, seconds=0.2)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"], ids=["silent", "half"])
def test_the_time_of_a_step_is_told_like_that_of_the_request(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def unlimited(work: Callable[[], Any], deadline: Deadline, *, name: str) -> Any:
        return work()

    # On a busy machine, what the request's parts have of time ends before somebody notices that its own has.
    monkeypatch.setattr(api, "finish_within", unlimited)
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def begin_an_answer() -> None:
            kept.append(server.accept()[0])
            kept[0].sendall(answer)

        thread = threading.Thread(target=begin_an_answer)
        thread.start()
        with pytest.raises(ApiError, match=r"no complete answer within 0\.3 s") as told:
            start(f"http://127.0.0.1:{server.getsockname()[1]}", request_timeout=0.3)
        assert (told.value.retry, told.value.may_have_acted, told.value.in_flight) == (True, True, True)
        thread.join()
        kept[0].close()


def test_a_plain_server_behind_https_is_told() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as (base_url, _):
        with pytest.raises(ApiError, match="no secure connection") as told:
            start(base_url.replace("http:", "https:"))
        assert (told.value.retry, told.value.may_have_acted) == (False, False)


@pytest.mark.parametrize("value", ["two\nlines-canary-1", "umläut-canary-1", "trailing-canary-1\r", None])
def test_a_secret_that_cannot_be_sent_is_named_by_its_reference_only_i11(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv("API_TOKEN")
    else:
        monkeypatch.setenv("API_TOKEN", value)
    with pytest.raises(ApiError, match="env:API_TOKEN") as told:
        start("http://127.0.0.1:1")
    assert "canary" not in str(told.value)
    assert (told.value.fault, told.value.may_have_acted) == (LaunchFault.LAUNCHER, False)
