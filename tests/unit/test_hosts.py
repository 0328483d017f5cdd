from __future__ import annotations

import pytest

from poolsql.hosts import is_loopback


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("shop.localhost:8080", True),
        ("127.0.0.1:40123", True),
        ("127.9.9.9", True),
        ("[::1]", True),
        ("[::1]:80", True),
        ("[::ffff:127.0.0.1]", True),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("[2001:db8::1]", False),
    ],
)
def test_loopback_is_told_without_a_look_up(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected
