"""What the demo calls hosts and pages, and the lines that it gives to a shell or to psql."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, cast

import pytest

from poolsql.demo.interrupts import Interrupts
from poolsql.demo.names import Names
from poolsql.demo.report import EXPLAIN, with_values
from poolsql.demo.stage import Stage
from poolsql.fleet.fleet import Fleet

NAMES = Names({"127.0.0.1:8000": "shop"})


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("http://127.0.0.1:8000/", "shop/"),
        ("http://127.0.0.1:8000/product/3?page=127.0.0.1:8000", "shop/product/3?page=127.0.0.1:8000"),
        ("http://127.0.0.1:80001/", "http://127.0.0.1:80001/"),
        ("https://example.org/a", "https://example.org/a"),
    ],
)
def test_pages_of_known_hosts_have_short_names(url: str, name: str) -> None:
    assert NAMES.page(url) == name


def test_other_hosts_are_called_what_they_are() -> None:
    assert (NAMES.host("127.0.0.1:8000"), NAMES.host("example.org")) == ("shop", "example.org")


def test_the_shown_sql_can_be_pasted() -> None:
    assert "visits.pool_id = 7\n" in with_values(EXPLAIN, pool=7)
    assert ":" not in with_values(EXPLAIN, pool=7)


def stage(url: str, directory: Path = Path("/tmp"), **values: Any) -> Stage:
    return Stage(cast("Fleet", None), url, "psql", directory, temporary=True, interrupts=Interrupts(), **values)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@db.test:5432/fleet", "postgresql://me@db.test:5432/fleet"),
        ("postgres://me:se%40cret@db.test/fleet?sslmode=require", "postgresql://me@db.test/fleet?sslmode=require"),
        ("postgresql+psycopg://db.test/fleet?password=secret&user=me", "postgresql://db.test/fleet?user=me"),
        ("postgresql://poolsql@/poolsql?host=%2Ftmp%2Fa%20b&port=1", "postgresql://poolsql@/poolsql?host=%2Ftmp%2Fa%20b&port=1"),
    ],
)  # fmt: skip
def test_the_psql_line_holds_no_password_and_is_what_psql_reads(url: str, shown: str) -> None:
    assert shlex.split(stage(url).psql_command()) == ["psql", shown]


def test_the_last_words_of_workers(tmp_path: Path) -> None:
    (tmp_path / "worker-1.log").write_text("")
    (tmp_path / "worker-2.log").write_bytes(b"first\nl\xffast\n\n")
    ended = stage("postgresql://db.test/fleet", tmp_path)
    assert ended.last_words() == "they have logged nothing"
    ended.workers += [cast("Any", None)] * 2
    assert ended.last_words() == "l\ufffdast"
