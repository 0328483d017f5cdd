"""The pace of a host: every page load has its slot, shared by all workers on all machines (I9)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.hosts import is_loopback

CLAIM_SLOT = Statement.load("poolsql.scraping", "claim_slot")
CHARGE_LOADS = Statement.load("poolsql.scraping", "charge_loads")
HOST_STATE = Statement.load("poolsql.scraping", "host_state")

DEFAULT_DELAY = timedelta(seconds=1)
"""Between two loads of a host that nobody has said anything about."""

LONGEST_WAIT = timedelta(seconds=15)
"""For a slot that is further away nobody waits with a profile in hand."""


@dataclass(frozen=True, slots=True)
class Slot:
    """When a page may be loaded."""

    granted: bool
    """Whether the slot is ours; nothing was taken otherwise."""
    wait: float = 0.0
    """Seconds until the slot; when it was not granted, until the host's next one."""
    stopped: bool = False
    """The host is stopped until an operator lifts it."""
    paused_for: float = 0.0
    """Seconds that the host is still paused."""

    @property
    def reason(self) -> str:
        """Why it was not granted, in words."""
        if self.stopped:
            return "the host is stopped"
        if self.paused_for > 0:
            return "the host is paused"
        return "the host's next slot is too far away"


def default_delay(host: str) -> timedelta:
    """The delay of a host that has none of its own: none on this machine, one second elsewhere."""
    return timedelta(0) if is_loopback(host) else DEFAULT_DELAY


def claim_slot(
    database: Database,
    host: str,
    *,
    delay: timedelta,
    at_least: timedelta | None = None,
    longest_wait: timedelta = LONGEST_WAIT,
) -> Slot:
    """Ask for the next slot of a host.

    Args:
        delay: Least time between two loads; the delay of the host's own row wins over it.
        at_least: What the site itself asks for (``Crawl-delay``); a shorter delay of the row does not win over this.
        longest_wait: A slot that is further away is left to others.
    """
    parameters = {
        "host": host,
        "delay": delay.total_seconds(),
        "at_least": (at_least or timedelta(0)).total_seconds(),
        "longest_wait": longest_wait.total_seconds(),
    }
    rows = database.run(CLAIM_SLOT, parameters)
    if rows:
        return Slot(granted=True, wait=rows[0].wait)
    (row,) = database.run(HOST_STATE, {"host": host})
    return Slot(granted=False, wait=row.wait or 0.0, stopped=row.stopped, paused_for=row.paused_for or 0.0)


def still_granted(database: Database, host: str) -> Slot:
    """Look once more, after the wait for a slot: somebody may have been told to stay away meanwhile."""
    rows = database.run(HOST_STATE, {"host": host})
    if not rows:
        return Slot(granted=True)
    stopped, paused_for = rows[0].stopped, rows[0].paused_for or 0.0
    return Slot(granted=not stopped and paused_for <= 0, stopped=stopped, paused_for=paused_for)


def charge_loads(database: Database, host: str, loads: int) -> None:
    """Let a host's next slot wait for loads that nobody asked a slot for, since a click or a redirect caused them."""
    parameters = {"host": host, "loads": loads, "delay": default_delay(host).total_seconds()}
    database.run(CHARGE_LOADS, parameters)
