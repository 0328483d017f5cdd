"""What becomes of a task after a visit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

from poolsql.durations import parse_duration
from poolsql.errors import BadInputError
from poolsql.leasing.outcomes import RULES, Outcome, Retry
from poolsql.scraping.states import TaskState
from poolsql.text import did_you_mean

MOST_TRIES = 10
"""A task whose worker is lost time and again ends as failed after this many tries: it may be what kills them."""

_LONGEST_DELAY = 365 * 24 * 3600
"""Seconds, a year: what is longer is a slip of the pen."""


@dataclass(frozen=True, slots=True)
class Next:
    """What becomes of a task."""

    state: TaskState
    delay: float = 0.0
    """Seconds before it may be tried again; a pause of its host counts besides."""
    same_profile: bool = False
    """Only the profile of this try may try it again, also when an operator says so after it has failed (I12)."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a task is tried again, and how soon.

    Raises:
        BadInputError: A number is negative, a delay is no number of seconds up to a year, or an outcome is named that
            is unknown or never retried (I12).
    """

    retries: int = 2
    """Further tries after the first."""
    delay: float = 5.0
    """Seconds before the second try; doubles with each further one. Outcomes that pause the host wait for its end."""
    longest_delay: float = 600.0
    per_outcome: Mapping[Outcome, int] = field(default_factory=dict)
    """Further tries for certain outcomes."""

    def __post_init__(self) -> None:
        if any(number < 0 for number in (self.retries, *self.per_outcome.values())):
            raise BadInputError("retries: numbers must be from 0")
        if not all(0 <= delay <= _LONGEST_DELAY for delay in (self.delay, self.longest_delay)):
            raise BadInputError(f"retries: delays must be from 0 to {_LONGEST_DELAY} seconds")
        unknown = sorted(outcome for outcome in self.per_outcome if outcome not in RULES)
        if unknown:
            raise BadInputError(f"retries: there is no outcome {', '.join(unknown)}; known are {', '.join(Outcome)}")
        never = sorted(outcome for outcome in self.per_outcome if RULES[outcome].retry is Retry.NO)
        if never:
            raise BadInputError(f"retries: {', '.join(never)} is never retried")

    @classmethod
    def parse(cls, value: Any) -> RetryPolicy:
        """Read a number of retries, or a table with default, delay, longest_delay and numbers by outcome.

        Raises:
            BadInputError: It is neither, or the policy cannot be right.
        """
        if not isinstance(value, Mapping):
            return cls(retries=_number(value, "retries"))
        fields: dict[str, Any] = {}
        per_outcome: dict[Any, int] = {}
        for name, given in value.items():
            if name == "default":
                fields["retries"] = _number(given, name)
            elif name in {"delay", "longest_delay"}:
                fields[name] = parse_duration(given, name=f"retries.{name}").total_seconds()
            elif name == "profile":
                raise BadInputError(
                    "retries.profile: a task that was blocked waits for the same profile; no other is tried"
                )
            elif name in set(Outcome):
                per_outcome[Outcome(name)] = _number(given, name)
            else:
                known = ["default", "delay", "longest_delay", *Outcome]
                raise BadInputError(
                    f"retries.{name}: unknown{did_you_mean(str(name), known)}; known are {', '.join(known)}"
                )
        return cls(**fields, per_outcome=per_outcome)

    def after(self, outcome: Outcome, *, tries: int) -> Next:
        """What becomes of a task whose try number `tries` (from 1) ended like this."""
        if outcome is Outcome.SUCCESS:
            return Next(TaskState.DONE)
        retry = RULES[outcome].retry
        most = MOST_TRIES - 1 if retry is Retry.YES else self.per_outcome.get(outcome, self.retries)
        if tries > most:
            return Next(TaskState.FAILED, same_profile=retry is Retry.SAME_PROFILE)
        match retry:
            case Retry.NO:
                return Next(TaskState.FAILED)
            case Retry.PER_JOB:
                # 2 to the 60th is beyond any longest delay, and a much higher power is no float.
                return Next(TaskState.PENDING, min(self.longest_delay, self.delay * 2 ** min(60, tries - 1)))
            case Retry.AFTER_PAUSE | Retry.YES:
                return Next(TaskState.PENDING)
            case Retry.SAME_PROFILE:
                return Next(TaskState.PENDING, same_profile=True)
            case unknown:
                assert_never(unknown)


def _number(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadInputError(f"retries: {name} must be a whole number")
    return value
