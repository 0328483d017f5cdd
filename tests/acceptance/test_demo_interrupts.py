"""Ctrl-C at any moment of the demo: nothing is left, whatever it was about to do."""

from __future__ import annotations

import random
import time

import pytest

from tests.acceptance.demo_program import DemoProgram
from tests.fixtures.programs import program_directory

SEED = 10

# A line to wait for, and up to how many seconds after it.
MOMENTS = [
    ("Setting up", 1.0),
    ("Setting up", 4.0),
    ("Look in from another terminal", 0.5),
    ("0/26 pages", 0.5),
    ("0/26 pages", 3.0),
    ("0/26 pages", 8.0),
    ("0/26 pages", 14.0),
    ("dies in the middle of", 0.2),
    ("dies in the middle of", 3.0),
    ("dies in the middle of", 10.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(MOMENTS)))
def test_ctrl_c_leaves_nothing(number: int) -> None:
    line, at_most = MOMENTS[number]
    after = random.Random(SEED + number).uniform(0, at_most)
    print(f"{after:.2f} s after {line!r}")  # noqa: T201
    with program_directory() as directory:
        demo = DemoProgram(directory=directory)
        demo.line_with(line, seconds=120)
        time.sleep(after)  # any moment, not only one that prints a line
        demo.press_ctrl_c()
        code = demo.wait(seconds=60)
        assert "Traceback" not in demo.output
        assert code == 130 or "What became of lease" in demo.output, demo.output
