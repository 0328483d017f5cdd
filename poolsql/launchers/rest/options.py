"""The options of a `rest` launcher: which API, which requests, what their answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from poolsql.errors import BadInputError
from poolsql.launchers.rest.answers import JsonPath, StatusRule, SuccessRule
from poolsql.launchers.rest.refusals import ErrorRules
from poolsql.launchers.rest.templates import JsonTemplate, Template, Value
from poolsql.settings import is_secret_reference
from poolsql.text import did_you_mean

ID = "id"
"""The place for the profile's key, in each path or body."""
TOKEN = "token"  # noqa: S105 - the name of a place
"""The place for the launcher's token, in headers only: addresses and bodies are written to logs by many servers."""
HEADLESS = "headless"
"""The variable that every launcher knows by this name."""


@dataclass(frozen=True, slots=True)
class Action:
    """One request of the API."""

    name: str
    method: str
    path: Template
    """Follows the base URL; begins with a slash, and may have a query."""
    body: JsonTemplate | None
    success: SuccessRule

    @property
    def names(self) -> frozenset[str]:
        """The names of all its places."""
        return self.path.names | (self.body.names if self.body is not None else frozenset())


@dataclass(frozen=True, slots=True)
class Header:
    """A header of each request: a text that may have the place ``{token}``, or a secret as a whole."""

    name: str
    template: Template | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class RestOptions:
    """What a `rest` launcher was told, checked."""

    base_url: str
    """Without a slash at its end."""
    headers: tuple[Header, ...]
    token: str | None
    """Reference of the token (``env:NAME`` or ``file:/path``)."""
    start: Action
    stop: Action
    status: Action | None
    status_rule: StatusRule | None
    cdp_url: JsonPath
    """Where the browser's address is in the answer of a start."""
    errors: ErrorRules
    """What its refusals mean."""
    request_timeout: float
    """Seconds for one request, its answer included."""
    start_timeout: float
    """Seconds for a start with all its tries."""
    variables: Mapping[str, Value]
    """What fills the places, ``headless`` among them; a profile or one start may have other values."""

    def values(self, options: Mapping[str, Any]) -> dict[str, Value]:
        """The variables with those of a profile or one start, which win.

        Raises:
            BadInputError: The message names everything that is wrong.
        """
        problems = []
        in_paths = {name for action in (self.start, self.stop, self.status) if action for name in action.path.names}
        for name, value in options.items():
            if name not in self.variables:
                known = ", ".join(self.variables) or "none"
                problems.append(f"{name}: unknown{did_you_mean(name, self.variables)} (known: {known})")
            elif (problem := value_problem(name, value, in_path=name in in_paths)) is not None:
                problems.append(f"{name}: {problem}")
        if problems:
            raise BadInputError("options of a profile or a start of a rest launcher: " + "; ".join(problems))
        return {**self.variables, **options}


def value_problem(name: str, value: object, *, in_path: bool) -> str | None:
    """What keeps a value from filling the places of this name; None when nothing does."""
    if name == HEADLESS:
        return None if isinstance(value, bool) else "must be true or false"
    if not isinstance(value, str | int | float | bool):
        return "must be a text, a number, true or false"
    if isinstance(value, float) and not isfinite(value):
        return "must be a finite number"
    if isinstance(value, str) and is_secret_reference(value):
        return "is sent as it is; a secret goes into a header, by token or by a reference as the header's whole value"
    return path_problem(value) if in_path else None


def path_problem(value: object) -> str | None:
    """What keeps a value from being a part of a path: it would name another resource."""
    # Dots are never percent-encoded, and every client resolves these.
    return "cannot be a part of an address" if str(value) in {"", ".", ".."} else None
