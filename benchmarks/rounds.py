"""Contenders take turns, so that what else the machine does hits all of them; medians are compared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Figures:
    """What the rounds of one contender gave."""

    values: tuple[float, ...]

    @property
    def middle(self) -> float:
        """The median."""
        return median(self.values)

    @property
    def spread(self) -> str:
        """From the smallest to the largest."""
        return f"{min(self.values):,.1f} to {max(self.values):,.1f}"


def take_turns(contenders: Mapping[str, Callable[[], float]], *, rounds: int = ROUNDS) -> dict[str, Figures]:
    """Run each contender once a round, after one round that does not count."""
    values: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            print(f"\rround {number} of {rounds}: {name:<20}", end="", file=sys.stderr, flush=True)  # noqa: T201
            value = run()
            if number:
                values[name].append(value)
    print("\r" + " " * 50 + "\r", end="", file=sys.stderr)  # noqa: T201
    return {name: Figures(tuple(found)) for name, found in values.items()}
