"""What an API's answer says: values at paths, and whether the action succeeded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from poolsql.errors import BadInputError
from poolsql.launchers.rest.templates import as_text
from poolsql.text import Json

_PATH = re.compile(r"[^.\s]+(?:\.[^.\s]+)*")


class Missing:
    """Stands for a value that is not there, since null is one that is."""


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Where a value is in an answer: keys, and numbers for places in lists, joined by dots (``data.cdp_url``)."""

    text: str

    @classmethod
    def parse(cls, text: object) -> JsonPath:
        """Read a path.

        Raises:
            BadInputError: It is no such text.
        """
        if not isinstance(text, str) or not _PATH.fullmatch(text):
            raise BadInputError(f"{text!r} is no path to a value; write keys with dots between, such as data.cdp_url")
        return cls(text)

    def find(self, data: Json) -> Json | Missing:
        """The value there, `MISSING` when there is none."""
        value = data
        for key in self.text.split("."):
            match value:
                case dict() if key in value:
                    value = value[key]
                case list() if key.isdecimal() and int(key) < len(value):
                    value = value[int(key)]
                case _:
                    return MISSING
        return value


@dataclass(frozen=True, slots=True)
class SuccessRule:
    """When an answer means that the action was done."""

    first_status: int = 200
    last_status: int = 299
    equals: tuple[tuple[JsonPath, Json], ...] = ()
    """Values that the answer's JSON must have, too: some APIs answer errors with status 200."""

    def status_is_good(self, status: int) -> bool:
        """Whether the HTTP status is in the range."""
        return self.first_status <= status <= self.last_status

    def problem(self, data: Json) -> str | None:
        """What in the answer's JSON speaks against success; None when nothing does."""
        for path, wanted in self.equals:
            found = path.find(data)
            if isinstance(found, Missing):
                return f"it has no {path.text}"
            # In JSON, 1 and true are different.
            if found != wanted or isinstance(found, bool) is not isinstance(wanted, bool):
                return f"{path.text} is {as_text(found)[:100]!r} instead of {as_text(wanted)!r}"
        return None


class BrowserState(StrEnum):
    """What an API can say about a profile's browser. Everything but `STOPPED` means that it may run."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StatusRule:
    """How an answer tells the state of a profile's browser."""

    value: JsonPath
    states: Mapping[str, BrowserState]
    """By the text of the value at that path."""

    def state(self, data: Json) -> BrowserState:
        """The state; `UNKNOWN` for a value that nobody has declared."""
        found = self.value.find(data)
        if isinstance(found, Missing):
            return BrowserState.UNKNOWN
        return self.states.get(as_text(found), BrowserState.UNKNOWN)
