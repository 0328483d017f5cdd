"""Reading values out of a table of a fleet.toml; what is wrong is noted with its place, and reading goes on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Any

from poolsql.configuration.locations import Path
from poolsql.configuration.problems import Problems
from poolsql.durations import parse_duration
from poolsql.errors import BadInputError
from poolsql.leasing.checks import checked_name, checked_names
from poolsql.settings import secret_text
from poolsql.text import did_you_mean


class Table:
    """One table.

    Args:
        values: What tomllib read.
        path: Where it stands.
        problems: Where what is wrong is noted.
    """

    def __init__(self, values: Mapping[str, Any], path: Path, problems: Problems) -> None:
        self.values = values
        self.path = path
        self._problems = problems
        self._found_before = len(problems.found)

    @property
    def good(self) -> bool:
        """Whether nothing wrong was noted since this table was begun."""
        return len(self._problems.found) == self._found_before

    def problem(self, name: str | None, message: str) -> None:
        """Note a problem of a key, or of the table itself."""
        self._problems.add(self.path if name is None else (*self.path, name), message)

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Note each key that is none of these."""
        for name in self.values:
            if name not in known:
                self.problem(name, f"unknown key{did_you_mean(name, known)} (known: {', '.join(known)})")

    def others(self, known: Collection[str]) -> dict[str, Any]:
        """What is left without these keys."""
        return {name: value for name, value in self.values.items() if name not in known}

    def required(self, name: str, example: str) -> str:
        """A text that has to be there; the example says how it is written."""
        if name not in self.values:
            self.problem(None, f"{name} is missing; write {name} = {example}")
        return self.text(name) or ""

    def text(self, name: str) -> str | None:
        """A text that Postgres can keep."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            shown = f', such as {name} = "{value}"' if isinstance(value, int | float) else ""
            self.problem(name, f"write text, in quotes{shown}")
            return None
        try:
            return checked_name(value, name)
        except BadInputError as error:
            self.problem(name, str(error))
            return None

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            shown = value if isinstance(value, str) else "…"
            self.problem(name, f'write a list of texts, such as {name} = ["{shown}"]')
            return None
        good: list[str] = []
        for number, item in enumerate(value):
            try:
                if not isinstance(item, str):
                    raise BadInputError(f'write text, in quotes, such as "{item}"')  # noqa: TRY301 - one place that notes
                good += checked_names([item], name.removesuffix("s"))
            except BadInputError as error:
                self._problems.add((*self.path, name, number), str(error))
        return tuple(good)

    def flag(self, name: str, *, default: bool) -> bool:
        """True or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            self.problem(name, "write true or false, without quotes")
            return default
        return value

    def duration(self, name: str) -> timedelta | None:
        """A duration."""
        if name not in self.values:
            return None
        try:
            return parse_duration(self.values[name])
        except BadInputError as error:
            self.problem(name, str(error).removeprefix("duration: "))
            return None

    def choice(self, name: str, known: Collection[str], *, default: str) -> str:
        """One of some words."""
        value = self.text(name)
        if value is None or value in known:
            return value or default
        self.problem(name, f"{value!r} is not known{did_you_mean(value, known)} (known: {', '.join(known)})")
        return default


def sections(document: Mapping[str, Any], kind: str, problems: Problems) -> Iterator[Table]:
    """The tables ``[<kind>.<name>]``, each with a name that can be kept."""
    found = document.get(kind, {})
    if not isinstance(found, Mapping):
        problems.add((kind,), f"write tables with a name each, such as [{kind}.name]")
        return
    for name, values in found.items():
        path = (kind, name)
        if not isinstance(values, Mapping):
            problems.add(path, f"stands outside of a table; write it below a line such as [{kind}.name]")
            continue
        try:
            checked_name(name, "name")
        except BadInputError as error:
            problems.add(path, str(error))
            continue
        yield Table(values, path, problems)


def check_secret(reference: str, path: Path, problems: Problems) -> None:
    """Note a secret that cannot be resolved here: whoever starts browsers needs it."""
    try:
        secret_text(reference)
    except BadInputError as error:
        told = str(error).removeprefix(f"secret {reference}: ")
        problems.add(path, f"{told}; it is looked up here because the daemon will need it")
