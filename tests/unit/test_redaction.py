from __future__ import annotations

import json
from pathlib import Path

import pytest

from poolsql import redaction
from poolsql.redaction import HIDDEN, redact, remember_secret
from poolsql.settings import secret_text


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", ())


# Remembered


@pytest.mark.parametrize("secret", ["hunter2", "p@ss w/o#r%d ü", "a\"b\\c'd", "line one\nline two", "{}()[]*+"])
def test_a_remembered_secret_is_hidden_in_every_spelling(secret: str) -> None:
    remember_secret(secret)
    for text in (secret, repr(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        hidden = redact(f"before {text} after")
        assert HIDDEN in hidden
        assert hidden.startswith("before ")
        assert hidden.endswith(" after")
        assert not any(part in hidden for part in ("hunter", "ss w", "line", "b\\c", "()"))


def test_a_remembered_secret_is_hidden_inside_an_address() -> None:
    remember_secret("p@ss w/o#r%d")
    for address in ("http://h/?q=p%40ss%20w%2Fo%23r%25d", "http://h/?q=p%40ss+w%2Fo%23r%25d"):
        assert redact(address) == f"http://h/?q={HIDDEN}"


def test_a_secret_inside_another_does_not_leave_the_rest_of_it() -> None:
    remember_secret("hunter")
    remember_secret("hunter2hunter2")
    assert redact("x hunter2hunter2 y hunter z") == f"x {HIDDEN} y {HIDDEN} z"


def test_a_secret_too_short_to_be_one_does_not_blank_out_text() -> None:
    for short in ("", "a", "abc"):
        remember_secret(short)
    assert redact("abc a alphabet") == "abc a alphabet"


def test_a_secret_that_is_resolved_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JB", "swordfish")
    (tmp_path / "isp").write_text("hunter2\n", encoding="utf-8")
    assert secret_text("env:JB") == "swordfish"
    assert secret_text(f"file:{tmp_path / 'isp'}") == "hunter2"
    assert redact("swordfish and hunter2") == f"{HIDDEN} and {HIDDEN}"


# Recognised


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://me:hunter2@host/x", "postgresql://[hidden]@host/x"),
        ("postgresql://:hunter2@host/x", "postgresql://[hidden]@host/x"),
        ("proxy http://me:hun@ter2@host:1 is down", "proxy http://[hidden]@host:1 is down"),
        ("socks5://hunter2@host:1", "socks5://[hidden]@host:1"),
        ("https://hunter2@host/x", "https://[hidden]@host/x"),
        ("Authorization: Bearer hunter2", "Authorization: [hidden]"),
        ("Authorization: Token hunter2", "Authorization: [hidden]"),
        ("proxy-authorization: Basic aHVudGVyMg==\r\nHost: x", "proxy-authorization: [hidden]\r\nHost: x"),
        (
            "{'Authorization': 'Digest user=\"hunter2\"', 'Accept': '*/*'}",
            "{'Authorization': [hidden], 'Accept': '*/*'}",
        ),
        ('{"authorization": "Bearer hunter2", "x": 1}', '{"authorization": [hidden], "x": 1}'),
        ("sent Bearer abcdef.123456-hunter2 to it", "sent Bearer [hidden] to it"),
        ("Cookie: sid=hunter2; theme=dark", "Cookie: [hidden]"),
        ("Set-Cookie: sid=hunter2; Path=/\nnext", "Set-Cookie: [hidden]\nnext"),
        ("{'cookie': 'sid=hunter2', 'x': 'y'}", "{'cookie': [hidden], 'x': 'y'}"),
        ("cookies=[{'name': 'sid', 'value': 'hunter2'}]", "cookies=[hidden]"),
        ("host=x password=hunter2 user=me", "host=x password=[hidden] user=me"),
        ("password='hunter 2' user=me", "password=[hidden] user=me"),
        ('"password": "hun\\"ter2", "user": "me"', '"password": [hidden], "user": "me"'),
        ('{\\"password\\": \\"hunter2\\"}', '{\\"password\\": [hidden]}'),
        ("PGPASSWORD=hunter2 psql", "PGPASSWORD=[hidden] psql"),
        ("JB_TOKEN=hunter2", "JB_TOKEN=[hidden]"),
        ("client_secret: hunter2", "client_secret: [hidden]"),
        ("X-Api-Key: hunter2", "X-Api-Key: [hidden]"),
        ("https://h/?access_token=hunter2&page=2", "https://h/?access_token=[hidden]&page=2"),
        ("Settings(api_key='hunter2', port=1)", "Settings(api_key=[hidden], port=1)"),
        ("credentials => hunter2", "credentials => [hidden]"),
    ],
)
def test_what_looks_like_a_secret_is_hidden_and_nothing_else(text: str, hidden: str) -> None:
    assert redact(text) == hidden
    assert redact(hidden) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "database postgresql://me@127.0.0.1:5432/x refused the connection",
        "http://127.0.0.1:8080/page",
        "http://127.0.0.1:8080/@someone/page?mail=a@b.example",
        "check user, password, database name and the address's parameters",
        'password authentication failed for user "boss"',
        "proxy 'isp': give them as username= and as secret=, the latter as env:NAME or file:/path",
        "a basic understanding of the bearer of this letter",
        "lease 7 on profile p0 is lost: it expired",
        "the tokens are counted; cookies are flushed every 30 s",
        "",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_a_long_text_takes_no_long_time() -> None:
    for piece in ("a:", "://", "=", "password", '"\\', "Bearer a", "token.", "x" * 50):
        redact(piece * 5_000)
