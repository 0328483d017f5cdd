"""What a benchmark found, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.rounds import Figures


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio of two contenders that is to be reached."""

    of: str
    to: str
    at_least: float


@dataclass(frozen=True, slots=True)
class AtMost:
    """A figure that is not to be exceeded."""

    of: str
    most: float


@dataclass(frozen=True, slots=True)
class Case:
    """One benchmark under one set of circumstances."""

    name: str
    given: Mapping[str, float]
    unit: str
    """What each figure is, such as ``per_s``; nothing where the figures' own names tell."""
    figures: Mapping[str, Figures]
    goals: tuple[Goal, ...] = ()
    limits: tuple[AtMost, ...] = ()

    def as_json(self) -> dict[str, object]:
        """One object for machines."""
        end = f"_{self.unit}" if self.unit else ""
        measured = {f"{name}{end}": round(found.middle, 3) for name, found in self.figures.items()}
        ratios = {f"{goal.of}/{goal.to}": round(self.ratio(goal), 3) for goal in self.goals}
        return {"benchmark": self.name, **self.given, **measured, **({"ratios": ratios} if ratios else {})}

    def ratio(self, goal: Goal) -> float:
        """What was reached."""
        return self.figures[goal.of].middle / self.figures[goal.to].middle

    def lines(self) -> list[str]:
        """For people."""
        given = ", ".join(f"{value:g} {name}" for name, value in self.given.items())
        unit = self.unit.replace("per_s", "a second")
        told = [f"{self.name}: {given}"]
        told += [
            f"  {name:<18} {found.middle:>10,.1f} {unit}  ({found.spread})" for name, found in self.figures.items()
        ]
        for goal in self.goals:
            reached = self.ratio(goal)
            met = _mark(reached >= goal.at_least)
            told.append(f"  {goal.of} ÷ {goal.to}: {reached:.2f}  (goal: at least {goal.at_least}: {met})")
        for limit in self.limits:
            reached = self.figures[limit.of].middle
            told.append(f"  {limit.of}: {reached:.1f}  (goal: at most {limit.most:g}: {_mark(reached <= limit.most)})")
        return told


def _mark(met: bool) -> str:
    return "met" if met else "MISSED"
