from __future__ import annotations

import codecs
import time
from datetime import timedelta

import pytest

from poolsql.scraping.robots import MAX_ROBOTS_BYTES, RobotsAccess, RobotsRules, decode_robots

ROOT = "https://shop.example"


def _rules(text: str, agent: str = "poolsql") -> RobotsRules:
    return RobotsRules.of_answer(200, text, agent=agent)


@pytest.mark.parametrize(
    ("status", "access", "allowed"),
    [
        (200, RobotsAccess.RULES, False),
        (206, RobotsAccess.RULES, False),
        (302, RobotsAccess.ALLOW_ALL, True),
        (401, RobotsAccess.ALLOW_ALL, True),
        (404, RobotsAccess.ALLOW_ALL, True),
        (429, RobotsAccess.DISALLOW_ALL, False),
        (500, RobotsAccess.DISALLOW_ALL, False),
        (503, RobotsAccess.DISALLOW_ALL, False),
        (None, RobotsAccess.DISALLOW_ALL, False),
    ],
)
def test_status_decides_first(status: int | None, access: RobotsAccess, allowed: bool) -> None:
    rules = RobotsRules.of_answer(status, "User-agent: *\nDisallow: /private", agent="poolsql")
    assert rules.access is access
    assert rules.allows(f"{ROOT}/private/1") is allowed
    assert rules.allows(f"{ROOT}/public") is (access is not RobotsAccess.DISALLOW_ALL)


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Disallow: /a", "/a", False),
        ("Disallow: /a", "/abc", False),
        ("Disallow: /a", "/A", True),
        ("Disallow:", "/a", True),
        ("Disallow: /\nAllow: /open/", "/open/x", True),
        ("Allow: /open/\nDisallow: /", "/shut", False),
        ("Disallow: /p\nAllow: /p", "/p", True),
        ("Disallow: /*.pdf$", "/x/y.pdf", False),
        ("Disallow: /*.pdf$", "/x/y.pdf?v=1", True),
        ("Disallow: /*?sort=", "/list?sort=up", False),
        ("Disallow: /ü", "/%C3%BC", False),
        ("Disallow: /%C3%BC", "/ü", False),
        ("Disallow: /robots.txt", "/robots.txt", True),
        ("Disallow: /", "", False),
        ("Disallow: / # all of it", "/x", False),
        ("dissallow: /a", "/a", False),
    ],
)
def test_longest_match_wins_and_allow_wins_a_tie(rules: str, path: str, allowed: bool) -> None:
    assert _rules(f"User-agent: *\n{rules}\n").allows(ROOT + path) is allowed


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_our_own_group_wins_over_the_one_for_all(end: str) -> None:
    text = end.join(["User-agent: *", "Disallow: /", "", "User-Agent: PoolSQL", "Disallow: /mine"])
    rules = _rules(text)
    assert rules.allows(f"{ROOT}/theirs")
    assert not rules.allows(f"{ROOT}/mine")
    assert not _rules(text, agent="other").allows(f"{ROOT}/theirs")


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("poolsql", True),
        ("POOLSQL/1.0", True),
        ("poolsql (+https://x.example)", True),
        ("poolsql*", True),
        ("pool", False),
        ("poolsql-images", False),
        ("mypoolsql", False),
        ("bot poolsql", False),
    ],
)
def test_groups_are_for_whole_product_tokens(name: str, ours: bool) -> None:
    assert _rules(f"User-agent: {name}\nDisallow: /\n").allows(f"{ROOT}/x") is not ours


def test_groups_for_the_same_robot_are_joined() -> None:
    rules = _rules("User-agent: poolsql\nDisallow: /a\n\nUser-agent: x\nUser-agent: poolsql\nDisallow: /b\n")
    assert [rules.allows(ROOT + path) for path in ("/a", "/b", "/c")] == [False, False, True]


@pytest.mark.parametrize(
    ("line", "delay"),
    [
        ("Crawl-delay: 10", timedelta(seconds=10)),
        ("crawl-delay:0.5", timedelta(seconds=0.5)),
        ("Crawl-delay: 1e300", timedelta(days=365)),
        ("Crawl-delay: nan", None),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: soon", None),
        ("", None),
    ],
)
def test_crawl_delay(line: str, delay: timedelta | None) -> None:
    assert _rules(f"User-agent: *\nDisallow: /x\n{line}\n").delay == delay


def test_crawl_delay_of_other_robots_is_not_ours() -> None:
    assert _rules("User-agent: other\nCrawl-delay: 10\n").delay is None


@pytest.mark.parametrize("end", ["\n", "\x0c", "\u2028"])
def test_a_file_made_to_exhaust_us_is_read_in_moments(end: str) -> None:
    names = end.join(f"User-agent: a{number}" for number in range(15_000))
    rules = "\n".join(f"Disallow: /{number}" for number in range(15_000))
    began = time.process_time()
    assert _rules(f"{names}{end}\n{rules}").allows(f"{ROOT}/1")
    assert time.process_time() - began < 3


@pytest.mark.parametrize(
    "body",
    [
        codecs.BOM_UTF8 + "User-agent: *\nDisallow: /ü".encode(),
        codecs.BOM_UTF16_LE + "User-agent: *\nDisallow: /ü".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "User-agent: *\nDisallow: /ü".encode("utf-16-be"),
        "User-agent: *\nDisallow: /ü".encode(),
        "User-agent: *\nDisallow: /ü".encode("latin-1"),
    ],
)
def test_encodings(body: bytes) -> None:
    rules = _rules(decode_robots(body))
    assert not rules.allows(f"{ROOT}/%C3%BC")
    assert rules.allows(f"{ROOT}/u")


def test_a_body_that_is_no_text_allows_everything_and_is_storable() -> None:
    text = decode_robots(bytes(range(256)) * 10)
    assert "\0" not in text
    assert _rules(text).allows(f"{ROOT}/x")


def test_a_long_file_is_cut_between_lines() -> None:
    head = b"User-agent: *\nDisallow: /\n"
    filler = b"#" * (MAX_ROBOTS_BYTES - len(head) - len(b"\nAllow: /")) + b"\n"
    text = decode_robots(head + filler + b"Allow: /shop\nAllow: /late\n")
    assert text.endswith("#\n")
    assert not _rules(text).allows(f"{ROOT}/x")


def test_a_cut_inside_a_character_does_not_change_the_encoding() -> None:
    head = "User-agent: *\nDisallow: /ü\n#".encode()
    body = head + b"x" * (MAX_ROBOTS_BYTES - len(head) - 1) + "ü".encode()
    assert len(body) == MAX_ROBOTS_BYTES + 1
    assert "/ü" in decode_robots(body)
