from __future__ import annotations

import pytest

from benchmarks.crash import judge


def test_percentiles_are_those_of_all_kills_in_milliseconds() -> None:
    told = {name: found.middle for name, found in judge([number / 100 for number in range(201)]).items()}
    assert told == {
        "back_p50": pytest.approx(1000),
        "back_p99": pytest.approx(1980),
        "back_longest": pytest.approx(2000),
    }
