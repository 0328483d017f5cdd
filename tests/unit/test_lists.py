"""Files with one entry a line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from poolsql import lists
from poolsql.errors import BadInputError
from poolsql.lists import MOST_SHOWN, parse_list, read_list, some_of


def number(text: str, line: int) -> tuple[int, int]:
    """An entry that knows its line."""
    if not text.isdecimal():
        raise BadInputError(f"{text} is no number")
    return int(text), line


def test_comments_blank_lines_marks_and_any_line_ends() -> None:
    data = "\ufeff1\r\n\r\n# a comment\r\n  2 \t# another\r\n3".encode()
    assert parse_list(data, number, name="list", wanted="number") == [(1, 1), (2, 4), (3, 5)]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "list: names no number; write some"),
        (b"# none\n\n", "list: names no number; write some"),
        ("ä".encode("utf-16"), "list: not a text in UTF-8 (byte 0); save it as such"),
        (b"1\na\n\n3#\n", "list: 2 lines are wrong: line 2: a is no number; line 4: 3# is no number"),
        (b"a", "list: 1 line is wrong: line 1: a is no number"),
    ],
)
def test_what_is_wrong_is_told_at_once(data: bytes, problem: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_list(data, number, name="list", wanted="number; write some")
    assert str(caught.value) == problem


def test_a_file_in_the_wrong_form_is_not_told_whole() -> None:
    texts = [str(number) for number in range(MOST_SHOWN + 1_234)]
    assert some_of(texts).endswith(f", {MOST_SHOWN - 1}, and 1,234 more")
    assert some_of(texts[:MOST_SHOWN]).endswith(f", {MOST_SHOWN - 1}")


def read(path: Path) -> list[str]:
    return read_list(path, lambda text, _: text, wanted="line; write one")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on Windows")
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInputError, match="is no file"):
        read(tmp_path / "pipe")


def test_a_name_that_no_file_can_have_is_told() -> None:
    with pytest.raises(BadInputError, match="no file can have this name"):
        read(Path("a\0b"))


def test_a_file_without_end_is_not_read_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "LONGEST_LIST", 10)
    (tmp_path / "list").write_text("a\n" * 6)
    with pytest.raises(BadInputError, match="longer than 10 bytes"):
        read(tmp_path / "list")
