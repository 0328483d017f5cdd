"""Why an API refused what it was asked for: by the texts that a launcher declares, else by status and common words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from poolsql.errors import LaunchFault


class Refusal(StrEnum):
    """What a refusal says. The values are the names under which ``errors`` of a launcher declares texts."""

    ALREADY_RUNNING = "already_running"
    """The profile's browser runs already, and not for this lease."""
    NOT_RUNNING = "not_running"
    """There is nothing to stop."""
    LOCKED = "locked"
    """The product is busy with the profile, as while it syncs: it may work a moment later."""
    IN_USE = "in_use"
    """Somebody else has the profile."""
    LIMIT = "limit"
    """Too many requests or browsers: it may work later."""
    NOT_FOUND = "not_found"
    """There is no such profile."""
    AUTH = "auth"
    """The token is refused."""
    PROXY = "proxy"
    """The profile's proxy does not work."""
    FAULT = "fault"
    """The product has a fault of its own: it may work a moment later."""

    @property
    def fault(self) -> LaunchFault:
        """Whose fault it is that no browser starts."""
        match self:
            case Refusal.ALREADY_RUNNING | Refusal.IN_USE | Refusal.NOT_FOUND:
                return LaunchFault.PROFILE
            case Refusal.PROXY:
                return LaunchFault.PROXY
            case Refusal.NOT_RUNNING | Refusal.LOCKED | Refusal.LIMIT | Refusal.AUTH | Refusal.FAULT:
                return LaunchFault.LAUNCHER

    @property
    def retry(self) -> bool:
        """Whether the same request may work a moment later."""
        return self in {Refusal.LOCKED, Refusal.LIMIT, Refusal.FAULT}

    def explained(self, base_url: str) -> str:
        """What it says, and what to do about it, as part of a message."""
        match self:
            case Refusal.ALREADY_RUNNING:
                text = "the profile's browser runs already; close it in the product"
            case Refusal.NOT_RUNNING:
                text = "the profile's browser does not run"
            case Refusal.LOCKED:
                text = "the product is busy with the profile"
            case Refusal.IN_USE:
                text = "the profile is in use elsewhere; close its browser there"
            case Refusal.LIMIT:
                text = "too many requests"
            case Refusal.NOT_FOUND:
                text = f"there is no profile of this id; if that is so for every profile, check the base URL {base_url}"
            case Refusal.AUTH:
                text = "token refused; check the launcher's token"
            case Refusal.PROXY:
                text = "the profile's proxy does not work; check it in the product"
            case Refusal.FAULT:
                text = "the product has a fault of its own"
        return text


_BY_STATUS: Mapping[int, Refusal] = {
    401: Refusal.AUTH,
    403: Refusal.AUTH,
    404: Refusal.NOT_FOUND,
    410: Refusal.NOT_FOUND,
    408: Refusal.LIMIT,
    429: Refusal.LIMIT,
}
_IN_USE = frozenset({409, 423})
_ALREADY_RUNNING = r"already[ _-]?(?:running|active|started|open)"
_NOT_RUNNING = r"(?:not|isn't)[ _-]?(?:running|active|started|open)|already[ _-]?(?:stopped|closed)"
_BY_WORDS = tuple(
    (refusal, re.compile(rf"(?i)(?<![a-z])(?:{words})(?![a-z])"))
    for refusal, words in ((Refusal.NOT_RUNNING, _NOT_RUNNING), (Refusal.ALREADY_RUNNING, _ALREADY_RUNNING))
)


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """How a launcher tells refusals apart."""

    declared: Mapping[Refusal, re.Pattern[str]] = field(default_factory=dict)
    """Searched in the text of the answer; they win over everything else."""

    def refusal(self, status: int, text: str) -> Refusal | None:
        """What an answer that is no success says; None when nothing is known about it."""
        for refusal, pattern in self.declared.items():
            if pattern.search(text):
                return refusal
        if (known := _BY_STATUS.get(status)) is not None:
            return known
        if status >= 500:
            return Refusal.FAULT
        for refusal, words in _BY_WORDS:
            if words.search(text):
                return refusal
        return Refusal.IN_USE if status in _IN_USE else None
