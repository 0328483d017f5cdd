"""Why one profile is not offered, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.durations import format_duration
from poolsql.leasing.status import NO_REQUEST
from poolsql.operations.names import find_profile
from poolsql.targets import host_name
from poolsql.text import clean_text

WHY = Statement.load("poolsql.leasing", "judged", end=("poolsql.operations", "why"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """Whether a profile is offered, and if not, why and until when."""

    id: int
    profile: str
    """As ``launcher/key``."""
    reason: str
    """``available``, or one of the reasons of `PoolStatus.counts`, ``host_stopped``, ``host_paused`` or
    ``other_machine``."""
    since: datetime | None
    """When that began, where it is known."""
    until: datetime | None
    """When that ends by itself; None: it does not, or nobody knows."""
    text: str
    """The same for people, in one line."""


def why(database: Database, name: str, *, host: str | None = None, machine: str | None = None) -> Why:
    """Say why a profile is not offered, or that it is.

    Args:
        name: Its id, its key, or ``launcher/key``.
        host: To a checkout that names this host.
        machine: To a worker of this machine; None: wherever it can be driven.

    Raises:
        UnknownNameError: There is no such profile.
        BadInputError: The name fits several, or the host cannot be one.
    """
    host = host_name(host) if host is not None else None
    machine = clean_text(machine) if machine is not None else None
    with database.connect() as connection:
        found = find_profile(connection, name)
    asked = {"pool_id": found.pool_id, "profile_id": found.id, "host": host, "machine": machine}
    (row,) = database.run(WHY, {**NO_REQUEST, **asked})
    facts: dict[str, Any] = {**row._asdict(), "host": host, "machine": machine}
    said = _SAID[facts["reason"]](facts)
    return Why(
        id=found.id,
        profile=str(found),
        reason=facts["reason"],
        since=said.since,
        until=said.until,
        text=_with_more(said.text, facts),
    )


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    since: datetime | None = None
    until: datetime | None = None


Facts = Mapping[str, Any]


def _state(facts: Facts) -> _Said:
    since = facts["state_changed_at"]
    by = f" by {facts['state_changed_by']}" if facts["state_changed_by"] else ""
    waits = ", waits to be activated" if facts["reason"] == "new" else ""
    return _Said(f"{facts['reason']} {_ago(since, facts)}{by}{waits}{_because(facts['state_reason'])}", since=since)


def _other_machine(facts: Facts) -> _Said:
    return _Said(f"machine {facts['machine']} cannot drive it{_only_on(facts)}")


def _pool_paused(facts: Facts) -> _Said:
    since = facts["pool_paused_at"]
    told = f"its pool {facts['pool']} was paused {_ago(since, facts)}{_because(facts['pool_pause_reason'])}"
    return _Said(told, since=since)


def _host_stopped(facts: Facts) -> _Said:
    since = facts["host_stopped_at"]
    told = f"host {facts['host']} was stopped {_ago(since, facts)}{_because(facts['host_stop_reason'])}"
    return _Said(told, since=since)


def _host_paused(facts: Facts) -> _Said:
    until = facts["host_paused_until"]
    told = f"host {facts['host']} is paused for {_left(until, facts)} more{_because(facts['host_pause_reason'])}"
    return _Said(told, until=until)


def _reclaiming(facts: Facts) -> _Said:
    since = facts["reclaim_since"]
    on = f" on {facts['browser_machine']}" if facts["browser_machine"] else ""
    told = f"reclaiming since {_left(since, facts)}: its browser{on} is not proven stopped"
    told += f" after {facts['reclaim_tries']} tries" if facts["reclaim_tries"] > 1 else ""
    return _Said(f"{told}{_because(facts['reclaim_note'] or facts['reclaim_detail'])}", since=since)


def _leased(facts: Facts) -> _Said:
    since = facts["acquired_at"]
    holder = f"process {facts['pid']} on {facts['worker_machine']}" if facts["pid"] else f"worker {facts['worker_id']}"
    task = f" for {facts['task']}" if facts["task"] else ""
    told = f"leased by {holder}{task} since {_left(since, facts)} (lease {facts['lease_id']})"
    return _Said(told, since=since)


def _breaker(facts: Facts) -> _Said:
    until = facts["breaker_open_until"]
    told = f"launcher {facts['launcher']} starts nothing{_back(until, facts)}{_because(facts['breaker_reason'])}"
    return _Said(told, until=until)


def _held(facts: Facts) -> _Said:
    return _waits("held back", facts)


def _resting(facts: Facts) -> _Said:
    return _waits("resting", facts)


def _cooling(facts: Facts) -> _Said:
    if facts["waits_until"] is not None:
        return _waits("cooling", facts)
    until = facts["cooling_until"]
    return _Said(f"cooling on {facts['host']}{_after(facts['cooling_after'])}{_back(until, facts)}", until=until)


def _available(facts: Facts) -> _Said:
    return _Said(f"available{_only_on(facts) if facts['machine'] is None else ''}")


_SAID: Mapping[str, Callable[[Facts], _Said]] = {
    "new": _state,
    "paused": _state,
    "retired": _state,
    "other_machine": _other_machine,
    "host_stopped": _host_stopped,
    "host_paused": _host_paused,
    "reclaiming": _reclaiming,
    "leased": _leased,
    "breaker": _breaker,
    "held": _held,
    "resting": _resting,
    "cooling": _cooling,
    "pool_paused": _pool_paused,
    "available": _available,
}


def _waits(how: str, facts: Facts) -> _Said:
    until = facts["waits_until"]
    return _Said(f"{how}{_after(facts['last_outcome'])}{_back(until, facts)}", until=until)


def _with_more(text: str, facts: Facts) -> str:
    if facts["needs_person"]:
        text += "; its login is gone and needs a person"
    if facts["pool_paused_at"] is not None and facts["reason"] != "pool_paused":
        text += f"; its pool {facts['pool']} is paused too"
    return text


def _only_on(facts: Facts) -> str:
    machines = [facts["only_machine"]] if facts["only_machine"] else facts["only_machines"] or []
    return f", on {' or '.join(machines)} only" if machines else ""


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _after(outcome: str | None) -> str:
    return f" after {outcome}" if outcome else ""


def _back(until: datetime, facts: Facts) -> str:
    return f", back in {_left(until, facts)}"


def _ago(since: datetime, facts: Facts) -> str:
    return f"{_left(since, facts)} ago"


def _left(moment: datetime, facts: Facts) -> str:
    return format_duration(abs(moment - facts["now"]))
