"""What a job does: the part of its definition that each of its runs keeps a copy of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from poolsql.durations import parse_duration
from poolsql.errors import BadInputError
from poolsql.leasing.outcomes import Outcome
from poolsql.scheduling.targets import TargetSource
from poolsql.scraping.classification import OUTCOMES_OF_PAGES
from poolsql.scraping.extraction import Field, parse_fields
from poolsql.scraping.handlers import extracting_handler, load_handler
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.selectors import checked_selector
from poolsql.scraping.steps import PageSteps
from poolsql.scraping.visiting import Handler
from poolsql.text import did_you_mean

Value = TypeVar("Value")

MOST_BROWSERS = 1000
"""Browsers at once that one job can ask for."""

LONGEST_TASK = 24 * 3600.0
"""Seconds, a day: longer time-outs are a slip of the pen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDefinition:
    """What to visit, how, and what to take from the pages. Made by `parse`, from a job's table in fleet.toml."""

    targets: TargetSource
    concurrency: int = 1
    """Browsers at once, over all daemons."""
    task_timeout: float = 60.0
    """Seconds for loading a page and handling it."""
    profile_wait: float = 5.0
    """Seconds that a task which has its turn waits for a profile before it lets others go first."""
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    page_rules: Mapping[str, Outcome] = field(default_factory=dict)
    steps: PageSteps = field(default_factory=PageSteps)
    extract: Mapping[str, Field] = field(default_factory=dict)
    handler: str | None = None
    """Where the handler is, as ``package.module:function``; None: `extract` says it all."""
    launch: Mapping[str, Any] = field(default_factory=dict)
    """Launcher options for this job's browsers; they win over the profile's own."""

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, base: Path | None = None) -> JobDefinition:
        """Read the values of a job's table.

        Args:
            values: As fleet.toml or the database's copy has them, without pool, schedule, zone, misfire,
                misfire_grace and overlap.
            base: The folder that relative file names of targets start from; default: the current one.

        Raises:
            BadInputError: Something cannot be right; the message names all of it.
        """
        parsers: dict[str, Callable[[Any], Any]] = {
            "targets": lambda value: TargetSource.parse(value, base=base),
            "concurrency": _whole_number,
            "task_timeout": lambda value: _seconds(value, "task_timeout"),
            "profile_wait": lambda value: parse_duration(value, name="profile_wait").total_seconds(),
            "retries": RetryPolicy.parse,
            "page_rules": _page_rules,
            "extract": parse_fields,
            "handler": _text,
            "launch": _table,
        }
        parsed: dict[str, Any] = {}
        steps = {name: values[name] for name in PageSteps.NAMES if name in values}
        known = [*parsers, *PageSteps.NAMES]
        problems = [f"{name}: unknown{did_you_mean(str(name), known)}" for name in values if name not in known]
        for name, parser in parsers.items():
            if name in values:
                try:
                    parsed[name] = parser(values[name])
                except BadInputError as error:
                    problems.append(str(error) if str(error).startswith(name) else f"{name}: {error}")
        try:
            parsed["steps"] = PageSteps.parse(steps)
        except BadInputError as error:
            problems.append(str(error))
        if "targets" not in values:
            problems.append('targets: missing; write targets = { list = ["https://…"] }, { file = … } or { query = … }')
        if ("extract" in values) == ("handler" in values):
            problems.append("write either extract (fields and their selectors) or handler (package.module:function)")
        if problems:
            raise BadInputError("; ".join(problems))
        return cls(**parsed)

    def load_handler(self) -> Handler:
        """The function that takes what it wants from a page.

        Raises:
            BadInputError: It cannot be imported, or is none.
        """
        if self.handler is not None:
            return load_handler(self.handler, steps=self.steps)
        return extracting_handler(self.extract, self.steps)


def _whole_number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_BROWSERS:
        raise BadInputError(f"write a whole number from 1 to {MOST_BROWSERS}")
    return value


def _seconds(value: Any, name: str) -> float:
    seconds = parse_duration(value, name=name).total_seconds()
    if not 0 < seconds <= LONGEST_TASK:
        raise BadInputError(f"{name}: write a time above 0 and up to a day, such as '60s'")
    return seconds


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadInputError("write text, in quotes")
    return value


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadInputError("write a table, such as { headless = false }")
    return dict(value)


def _page_rules(value: Any) -> Mapping[str, Outcome]:
    rules = _table(value)
    problems: list[str] = []
    for selector, outcome in rules.items():
        try:
            checked_selector(selector, f"page_rules {selector!r}")
        except BadInputError as error:
            problems.append(str(error))
        if not isinstance(outcome, str) or outcome not in OUTCOMES_OF_PAGES:
            known = ", ".join(sorted(OUTCOMES_OF_PAGES))
            problems.append(f"page_rules {selector!r}: {outcome!r} is nothing that a page can say; known are {known}")
    if problems:
        raise BadInputError("; ".join(problems))
    return {selector: Outcome(outcome) for selector, outcome in rules.items()}
