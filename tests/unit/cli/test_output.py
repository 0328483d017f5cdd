"""How commands print."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from uuid import UUID

import pytest

from poolsql.cli import output
from poolsql.redaction import remember_secret


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Row:
    name: object
    value: object = None


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


COLUMNS = {"NAME": "name", "VALUE": "value"}


def test_json_has_moments_in_utc_and_durations_in_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    moment = datetime(2026, 3, 29, 3, 30, tzinfo=timezone(timedelta(hours=2)))
    output.print_json([Row(moment, timedelta(minutes=2)), Row(Colour.RED, {1: (UUID(int=1), None, True, 1.5)})])
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == [
        {"name": "2026-03-29T01:30:00Z", "value": 120.0},
        {"name": "red", "value": {"1": [str(UUID(int=1)), None, True, 1.5]}},
    ]


def test_a_table_that_is_piped_is_aligned_and_cuts_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    long = "x" * 300
    output.print_rows([Row("a", long), Row("bcd", None), Row("", [])], COLUMNS, as_json=False, none="nothing")
    assert capsys.readouterr().out.splitlines() == ["NAME  VALUE", f"a     {long}", "bcd   -", "-     -"]


def test_values_are_told_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    values = [
        timedelta(minutes=2),
        datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        True,
        Colour.RED,
        ["a", "b"],
        {"k": 1},
        0,
    ]
    output.print_rows([Row(value) for value in values], {"NAME": "name"}, as_json=False, none="")
    assert capsys.readouterr().out.splitlines()[1:] == [
        "2m",
        "2026-01-02 03:04:05Z",
        "yes",
        "red",
        "a, b",
        '{"k": 1}',
        "0",
    ]


def test_an_empty_list_says_so_and_is_a_list_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_rows([], COLUMNS, as_json=False, none="no rows")
    output.print_rows([], COLUMNS, as_json=True, none="no rows")
    assert capsys.readouterr().out == "no rows\n[]\n"


def test_nothing_reaches_the_output_that_is_secret_or_that_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str],
) -> None:
    remember_secret("hunter2-of-output")
    output.print_rows([Row("a\x1b[2J\nb", "is hunter2-of-output")], COLUMNS, as_json=False, none="")
    output.print_json(Row("a", {"deep": ["hunter2-of-output"]}))
    told = capsys.readouterr().out
    assert "hunter2-of-output" not in told
    assert "\x1b" not in told
    assert "a [2J b" in told


@pytest.mark.parametrize("without_colour", [True, False])
def test_a_terminal_gets_a_table_as_wide_as_it_is(monkeypatch: pytest.MonkeyPatch, without_colour: bool) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    if without_colour:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    output.print_rows([Row("[red]name[/]", "y" * 40)], COLUMNS, as_json=False, none="")
    told = terminal.getvalue()
    assert "[red]name[/]" in told, "what looks like markup is none"
    assert told.count("y") == 40
    plain = told.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.splitlines())) <= 30
    assert "\x1b[3" not in told or not without_colour


def test_a_terminal_is_not_shown_columns_in_which_nothing_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    output.print_rows([Row("a"), Row(None)], COLUMNS, as_json=False, none="")
    assert "NAME" in terminal.getvalue()
    assert "VALUE" not in terminal.getvalue()


def test_facts_leave_out_what_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_facts(Row("a"))
    assert capsys.readouterr().out == "name  a\n"


def test_json_on_an_output_that_knows_only_ascii_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", errors="replace"))
    output.print_json(Row("…"))
    assert json.loads(raw.getvalue()) == {"name": "…", "value": None}
