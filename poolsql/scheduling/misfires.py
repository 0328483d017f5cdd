"""What becomes of instants that were missed; apart from the definition of jobs, which brings what loads pages."""

from __future__ import annotations

from enum import StrEnum


class Misfire(StrEnum):
    """What happens to instants that no daemon was there for, or whose job still had a run open."""

    LATEST = "latest"
    """The latest that was missed fires late, earlier ones are dropped; one that falls into an open run is skipped."""
    ALL = "all"
    """All that are not older than the grace fire, in order, each when the one before has ended."""
