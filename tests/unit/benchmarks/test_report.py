from __future__ import annotations

import pytest

from benchmarks.report import AtMost, Case, Goal
from benchmarks.rounds import Figures, take_turns


def case(ours: tuple[float, ...], theirs: tuple[float, ...]) -> Case:
    return Case(
        name="checkout",
        given={"profiles": 20, "busy": 10, "clients": 8},
        unit="per_s",
        figures={"poolsql": Figures(ours), "pgbench": Figures(theirs)},
        goals=(Goal("poolsql", "pgbench", 0.6),),
    )


@pytest.mark.parametrize(
    ("ours", "told"), [((50.0, 60.0, 900.0), "0.60  (goal: at least 0.6: met)"), ((59.0,), "MISSED")]
)
def test_a_ratio_of_medians_is_told_beside_its_goal(ours: tuple[float, ...], told: str) -> None:
    assert told in case(ours, (100.0,)).lines()[-1]


@pytest.mark.parametrize(("most", "told"), [(20, "(goal: at most 20: met)"), (19, "MISSED)")])
def test_a_limit_is_met_by_what_is_at_most_that(most: int, told: str) -> None:
    limits = (AtMost("p99_ms", most),)
    limited = Case(name="handover", given={}, unit="", figures={"p99_ms": Figures((20.0,))}, limits=limits)
    assert limited.lines()[-1].endswith(told)


def test_machines_get_what_was_given_one_figure_for_each_contender_and_the_ratios() -> None:
    assert case((50.0,), (100.0,)).as_json() == {
        "benchmark": "checkout",
        "profiles": 20,
        "busy": 10,
        "clients": 8,
        "poolsql_per_s": 50.0,
        "pgbench_per_s": 100.0,
        "ratios": {"poolsql/pgbench": 0.5},
    }


def test_contenders_take_turns_and_the_first_round_does_not_count() -> None:
    runs: list[str] = []

    def contender(name: str) -> float:
        runs.append(name)
        return float(len(runs))

    figures = take_turns({"a": lambda: contender("a"), "b": lambda: contender("b")}, rounds=2)
    assert runs == ["a", "b"] * 3
    assert figures == {"a": Figures((3.0, 5.0)), "b": Figures((4.0, 6.0))}
