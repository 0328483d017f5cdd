"""What the benchmarks can be asked for."""

from __future__ import annotations

import sys

import pytest

from benchmarks.__main__ import main


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("--rounds 0", "0 is no whole number from 1 on"),
        ("--rounds many", "many is no whole number from 1 on"),
        ("--cycles -1", "-1 is no whole number from 1 on"),
        ("--seconds 0", "0 is no whole number from 1 on"),
        ("crahs", "there is no benchmark crahs; known are checkout"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    asked: str, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *asked.split()])
    with pytest.raises(SystemExit, match=r"^2$"):
        main()
    assert told in capsys.readouterr().err
