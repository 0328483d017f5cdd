"""What a fleet.toml changes in the database, for people to read before and after it is done."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any

from poolsql.configuration.entries import Entry, FleetFile
from poolsql.durations import format_duration

ADOPTED = "stands in the file now"
"""What is said of something that was there before, and that the file now speaks for."""

_LONGEST_VALUE = 60
_MOST_ALIKE = 20
"""Profiles of one pool and launcher that are listed one by one."""


class Action(StrEnum):
    """What happens to one thing."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"
    GONE = "gone"
    """It is declared and not in the file any more, and is kept: nobody said that it should be removed."""

    @property
    def sign(self) -> str:
        """The first character of its line."""
        return {Action.ADD: "+", Action.CHANGE: "~", Action.REMOVE: "-", Action.GONE: "-"}[self]


_WORDS = {
    Action.ADD: ("to add", "added"),
    Action.CHANGE: ("to change", "changed"),
    Action.REMOVE: ("to remove", "removed"),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One key that changes."""

    key: str
    before: Any
    after: Any

    def __str__(self) -> str:
        before, after = _told(self.before), _told(self.after)
        if max(len(before), len(after)) > _LONGEST_VALUE:
            return f"{self.key} changed"
        return f"{self.key} {before} → {after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to one pool, launcher, proxy, profile, host or job."""

    action: Action
    kind: str
    name: str
    differences: Sequence[Difference] = ()
    note: str = ""
    group: str = ""
    """What many profiles have in common, so that they can be told in one line."""
    entry: Entry | None = field(default=None, repr=False)
    """What the file says of it; None: it is not in the file."""
    stored_id: int | None = None
    """The id of its row, where there is one."""

    def __str__(self) -> str:
        told = ", ".join(str(difference) for difference in self.differences)
        note = f" ({self.note})" if self.note else ""
        return f"{self.action.sign} {self.kind} {self.name}{f': {told}' if told else ''}{note}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "action": self.action.value,
            "kind": self.kind,
            "name": self.name,
            "changes": {
                one.key: {"before": _plain(one.before), "after": _plain(one.after)} for one in self.differences
            },
            "note": self.note or None,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that a file changes."""

    file: FleetFile
    prune: bool
    """Whether what is declared and not in the file is removed."""
    changes: Sequence[Change]
    notes: Sequence[str] = ()
    """What a reader might have expected to change and does not."""

    @property
    def changes_something(self) -> bool:
        """Whether applying it would write anything."""
        return any(change.action is not Action.GONE for change in self.changes)

    @property
    def counts(self) -> Mapping[Action, int]:
        """How many things each action is for."""
        return Counter(change.action for change in self.changes)

    def lines(self) -> list[str]:
        """One line a change; many profiles that are alike share one."""
        alike = Counter(_alike(change) for change in self.changes)
        lines: list[str] = []
        told: set[tuple[str, ...]] = set()
        for change in self.changes:
            group = _alike(change)
            if not change.group or alike[group] <= _MOST_ALIKE:
                lines.append(str(change))
            elif group not in told:
                told.add(group)
                note = f" ({change.note})" if change.note else ""
                lines.append(f"{change.action.sign} {alike[group]:,} {change.kind}s of {change.group}{note}")
        return lines

    def summary(self, *, done: bool = False) -> str:
        """Its counts in one line.

        Args:
            done: It was applied.
        """
        counts = self.counts
        gone = f"{counts[Action.GONE]:,} not in the file"
        if not self.changes_something:
            return f"nothing to change; {gone}" if counts[Action.GONE] else "nothing to change"
        told = [f"{counts[action]:,} {after if done else before}" for action, (before, after) in _WORDS.items()]
        told = [text for text in told if not text.startswith("0 ")]
        return ", ".join([*told, gone] if counts[Action.GONE] else told)


def _alike(change: Change) -> tuple[str, ...]:
    return (change.action.value, change.kind, change.group, change.note)


def _plain(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _told(value: Any) -> str:
    match value:
        case None:
            return "none"
        case timedelta():
            return format_duration(value)
        case str():
            return value if value.strip() else f'"{value}"'
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)
