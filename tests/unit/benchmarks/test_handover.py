from __future__ import annotations

import pytest

from benchmarks.handover import Wait, judge


def test_the_time_of_a_hand_over_is_from_the_release_to_the_return_of_who_waited_for_that_profile() -> None:
    # Began to wait, was served, profile, gave back. The first three come before anything is counted.
    waits: list[Wait] = [
        (0.0, 0.0, 1, 10.0),
        (0.0, 0.0, 2, 20.0),
        (9.0, 10.004, 1, 30.0),
        (15.0, 20.004, 2, 40.0),
        (21.0, 30.004, 1, 50.0),
    ]
    assert judge(waits)["handover_p50_ms"] == pytest.approx(4.0)


def test_who_found_a_free_profile_was_not_handed_one() -> None:
    waits: list[Wait] = [
        (0.0, 0.0, 1, 10.0),
        (0.5, 0.5, 2, 10.0),
        (9.0, 10.004, 1, 20.0),
        (9.0, 10.004, 2, 20.0),
        # Came five seconds after the profile did.
        (25.0, 25.001, 1, 40.0),
    ]
    assert judge(waits)["handover_p99_ms"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("served", "overtaken"),
    [
        pytest.param((30.0, 31.0, 32.0, 33.0), 0.0, id="in the order of arrival"),
        pytest.param((31.0, 30.0, 32.0, 33.0), 25.0, id="one is served before one who came first"),
        pytest.param((33.0, 30.0, 31.0, 32.0), 25.0, id="one who is overtaken three times counts once"),
        pytest.param((33.0, 32.0, 31.0, 30.0), 75.0, id="all but the last to come"),
    ],
)
def test_who_began_first_and_is_served_later_was_overtaken(served: tuple[float, ...], overtaken: float) -> None:
    # All want the same profile; what is not counted gives it back before.
    first: list[Wait] = [(0.0, 0.0, 1, 19.9)]
    began = (20.0, 20.1, 20.2, 20.3)
    counted = [(since, got, 1, got + 0.5) for since, got in zip(began, served, strict=True)]
    assert judge([*first, *counted])["overtaken_percent"] == overtaken


def test_the_longest_wait_is_compared_with_the_mean() -> None:
    waits: list[Wait] = [(0.0, 0.0, 1, 11.0), (10.0, 11.0, 1, 12.0), (10.0, 12.0, 1, 13.0), (10.0, 13.0, 1, 14.0)]
    assert judge(waits)["longest_to_mean"] == pytest.approx(3 / 2)
