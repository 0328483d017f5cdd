"""The states of profiles and leases, and who ends a lease: the words that stand in the tables."""

from __future__ import annotations

from enum import StrEnum


class ProfileState(StrEnum):
    """Whether a profile is in use at all; available, leased, cooling and the like are computed."""

    NEW = "new"
    """Waits to be activated, such as for a warm-up elsewhere."""
    ACTIVE = "active"
    PAUSED = "paused"
    """By an operator, or because it does not start while its siblings do."""
    RETIRED = "retired"


class LeaseState(StrEnum):
    """What became of a lease. A row of `leases` is held or reclaiming; the others are what `reports.look` tells."""

    HELD = "held"
    RECLAIMING = "reclaiming"
    """Nobody's: its browser has to be proven stopped before the profile is offered again."""
    ENDED = "ended"
    """A row of `attempts`."""
    FOREIGN = "foreign"
    """There is such a lease, with another token."""


class EndedBy(StrEnum):
    """Who ended a lease."""

    HOLDER = "holder"
    REAPER = "reaper"
