"""The pace of a host: every page load has its slot, shared by all workers on all machines (I9)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.scraping.targets import is_loopback

CLAIM_SLOT = Statement.load("poolsql.scraping", "claim_slot")
HOST_STATE = Statement.load("poolsql.scraping", "host_state")

DEFAULT_DELAY = timedelta(seconds=1)
"""Between two loads of a host that nobody has said anything about."""


@dataclass(frozen=True, slots=True)
class Slot:
    """When a page may be loaded."""

    wait: float
    """Seconds until then."""
    stopped: bool
    """The host is stopped until an operator lifts it; nothing was granted."""
    paused_for: float
    """Seconds that the host is still paused; nothing was granted when this is not 0."""

    @property
    def granted(self) -> bool:
        """Whether the slot is ours."""
        return not self.stopped and self.paused_for <= 0


def default_delay(host: str) -> timedelta:
    """The delay of a host that has none of its own: none on this machine, one second elsewhere."""
    return timedelta(0) if is_loopback(host) else DEFAULT_DELAY


def claim_slot(database: Database, host: str, *, delay: timedelta) -> Slot:
    """Ask for the next slot of a host.

    Args:
        delay: Least time between two loads; the delay of the host's own row wins over it.
    """
    row = database.run(CLAIM_SLOT, {"host": host, "delay": delay.total_seconds()})[0]
    return Slot(wait=row.wait, stopped=row.stopped, paused_for=row.paused_for or 0.0)


def still_granted(database: Database, host: str) -> Slot:
    """Look once more, after the wait for a slot: somebody may have been told to stay away meanwhile."""
    rows = database.run(HOST_STATE, {"host": host})
    if not rows:
        return Slot(wait=0.0, stopped=False, paused_for=0.0)
    return Slot(wait=0.0, stopped=rows[0].stopped, paused_for=rows[0].paused_for or 0.0)
