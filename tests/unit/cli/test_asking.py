"""Who asks, and whether they mean it."""

from __future__ import annotations

import getpass
import io
import os
import sys

import pytest
import typer

from poolsql.cli import asking
from poolsql.errors import BadInputError


def nobody() -> str:
    raise OSError("no username set in the environment")


def test_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    machine = asking.me().removeprefix("ann@")
    assert machine
    assert asking.me("eva") == "eva"
    assert asking.me("  ") == f"ann@{machine}"
    monkeypatch.setattr(getpass, "getuser", nobody)
    assert asking.me() == f"user {os.getuid()}@{machine}"


def test_where_nobody_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    asking.confirm("Do it?", yes=False)
    asking.confirm("Do it?", yes=True, needed=True)
    with pytest.raises(BadInputError, match=r"^Do it\? Nobody can be asked here: add --yes; nothing was changed$"):
        asking.confirm("Do it?", yes=False, needed=True)


@pytest.mark.parametrize("answer", [True, False])
def test_on_a_terminal_the_answer_counts(monkeypatch: pytest.MonkeyPatch, answer: bool) -> None:
    asked: list[str] = []

    def confirm(question: str, *, err: bool) -> bool:
        asked.append(question)
        return answer

    for name in ("stdin", "stderr"):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda: True)
        monkeypatch.setattr(sys, name, stream)
    monkeypatch.setattr(typer, "confirm", confirm)
    if answer:
        asking.confirm("Drop \x1b[2J it?", yes=False)
    else:
        with pytest.raises(BadInputError, match=r"^nothing was changed$"):
            asking.confirm("Drop \x1b[2J it?", yes=False)
    assert asked == ["Drop  [2J it?"]
