"""What a holder tells about its lease: renewals, visits, browser starts, and its end. All guarded by id and token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Statement
from poolsql.errors import ConflictError, DatabaseError, LaunchFault, LeaseLostError, UnknownLeaseError
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome, StartVerdict
from poolsql.leasing.parts import END, VISIT
from poolsql.leasing.states import EndedBy, LeaseState
from poolsql.leasing.worker import Worker
from poolsql.redaction import redact
from poolsql.text import clean_json, clean_text

RENEW = Statement.load("poolsql.leasing", "renew")
RECORD_VISIT = Statement.load("poolsql.leasing", "record_visit", *VISIT, "recorded")
RELEASE = Statement.load("poolsql.leasing", "release", *END)
PLAIN_SUCCESS = Statement.load("poolsql.leasing", "plain_success")
BEGIN_RECLAIM = Statement.load("poolsql.leasing", "begin_reclaim")
LOOK = Statement.load("poolsql.leasing", "look")
REFUSE = Statement.load("poolsql.leasing", "refuse")
BROWSER_STARTING = Statement.load("poolsql.leasing", "browser_starting")
BROWSER_STARTED = Statement.load("poolsql.leasing", "browser_started")
START_FAILED = Statement.load("poolsql.leasing", "start_failed")


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The two things that name a lease. The token is random: nobody but the holder can name it."""

    lease_id: int
    token: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One try of one task inside a lease."""

    outcome: Outcome
    seconds: float = 0.0
    host: str | None = None
    """The target site; default: the host that the checkout named."""
    task: str | None = None
    task_id: int | None = None
    url: str | None = None
    status: int | None = None
    detail: str | None = None
    bytes: int | None = None
    retry_after: float | None = None
    """Seconds that the site told to wait; obeyed in full."""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """As the statements want it; what a page said is made storable."""
        return {
            "outcome": self.outcome.value,
            "seconds": self.seconds,
            "host": _kept(self.host),
            "task": _kept(self.task),
            "task_id": self.task_id,
            "url": _kept(self.url),
            "status": self.status,
            "detail": cleaned(self.detail),
            "bytes": self.bytes,
            "retry_after": self.retry_after,
            "evidence": Jsonb(clean_json(self.evidence)) if self.evidence else None,
        }


@dataclass(frozen=True, slots=True)
class Attempt:
    """How a lease ended."""

    lease_id: int
    outcome: Outcome
    counted: bool
    """Whether it counted as a failure of the profile."""
    available_at: datetime
    """When the profile is offered again, unless it is paused or retired."""
    retired_because: str | None


def renew(database: Database, worker: Worker, names: Sequence[LeaseName], *, patience: float) -> dict[int, Row]:
    """Renew leases in one statement; those missing in the answer (by id) are not live any more."""
    parameters = {
        "lease_ids": [name.lease_id for name in names],
        "tokens": [name.token for name in names],
        "worker_id": worker.id,
    }
    return {row.lease_id: row for row in database.run(RENEW, parameters, patience=patience)}


def record_visit(
    database: Database,
    worker: Worker,
    name: LeaseName,
    visit: Visit,
    *,
    number: int,
    patience: float,
    statement: Statement = RECORD_VISIT,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write one visit and its effects on the host.

    Args:
        number: How many visits of this lease were written before; makes a repeated report harmless.
        patience: Seconds for which a lost database is tried again.
        statement: One that begins like `RECORD_VISIT` and writes more under the same guard, such as a result.
        more: The further parameters of `statement`.

    Raises:
        LeaseLostError: The lease is not live; the visit was recorded as refused.
    """
    parameters = {
        **visit.parameters(),
        "lease_id": name.lease_id,
        "token": name.token,
        "number": number,
        **(more or {}),
    }
    if database.run(statement, parameters, patience=patience):
        return
    seen = look(database, name)
    if seen is not None and _visits_of_holder(seen) == number + 1:
        return  # the first answer was lost, the visit was not
    refuse(database, worker, name, seen, kind="visit", outcome=visit.outcome, detail=visit.detail)


def release(
    database: Database,
    worker: Worker,
    name: LeaseName,
    *,
    outcome: Outcome | None,
    detail: str | None = None,
    host: str | None = None,
    retry_after: float | None = None,
    stop_rung: str | None = None,
    hold: bool = True,
    pause_because: str | None = None,
    patience: float,
) -> Attempt:
    """End a lease; repeated after a lost answer it returns what the first call did.

    Args:
        outcome: Written as a visit of its own. None: the attempt is the worst of the recorded visits, or a success.
        detail: What happened, in words.
        host: The target site, when it is not the one that the checkout named.
        retry_after: Seconds that the site told to wait.
        stop_rung: How the browser was *proven* stopped; needed when a start was recorded.
        hold: False keeps a hold outcome from holding this profile (its launcher's breaker is open instead).
        pause_because: Pause the profile with this reason.
        patience: Seconds for which a lost database is tried again.

    Raises:
        LeaseLostError: The lease is not live; the report was recorded as refused.
        UnknownLeaseError: There never was such a lease.
    """
    parameters = release_parameters(
        name,
        outcome=outcome,
        detail=detail,
        host=host,
        retry_after=retry_after,
        stop_rung=stop_rung,
        hold=hold,
        pause_because=pause_because,
    )
    may_be_plain = outcome in {None, Outcome.SUCCESS} and retry_after is None and pause_because is None
    tries = 0

    def once() -> Sequence[Row]:
        nonlocal tries
        tries += 1
        ended = database.run_once(PLAIN_SUCCESS, parameters) if may_be_plain else ()
        return ended or database.run_once(RELEASE, parameters)

    rows = database.repeat(once, patience=patience)
    if not rows:
        seen = look(database, name)
        if tries > 1 and seen is not None and seen.state == LeaseState.ENDED and seen.ended_by == EndedBy.HOLDER:
            return attempt_from(seen)
        refuse(database, worker, name, seen, kind="release", outcome=outcome, detail=detail)
    return attempt_from(rows[0])


def release_parameters(
    name: LeaseName,
    *,
    outcome: Outcome | None,
    detail: str | None = None,
    host: str | None = None,
    retry_after: float | None = None,
    stop_rung: str | None = None,
    hold: bool = True,
    pause_because: str | None = None,
) -> dict[str, Any]:
    """As release.sql wants it; see `release`."""
    return {
        "lease_id": name.lease_id,
        "token": name.token,
        "outcome": outcome.value if outcome is not None else None,
        "detail": cleaned(detail),
        "host": _kept(host),
        "retry_after": retry_after,
        "stop_rung": stop_rung,
        "hold": hold,
        "pause_because": cleaned(pause_because),
        **LINE,
    }


def begin_reclaim(database: Database, name: LeaseName, *, detail: str, patience: float) -> None:
    """Leave the lease to the reaper, which ends it when its browser is proven stopped."""
    parameters = {"lease_id": name.lease_id, "token": name.token, "detail": cleaned(detail)}
    database.run(BEGIN_RECLAIM, parameters, patience=patience)


def browser_starting(
    database: Database,
    worker: Worker,
    name: LeaseName,
    *,
    browser: Mapping[str, Any],
    machine: str | None,
    directory: str | None,
) -> None:
    """Write down how to stop a browser, before it is started.

    Args:
        browser: Whatever the launcher needs to stop it, as JSON.
        machine: The only machine that can stop it; None when any can.
        directory: The profile's directory on that machine; unique there.

    Raises:
        ConflictError: Another profile has this directory on this machine; nothing was written: do not start anything.
        LeaseLostError: The lease is not live: do not start anything.
    """
    parameters = {
        "lease_id": name.lease_id,
        "token": name.token,
        "browser": Jsonb(browser),
        "machine": machine,
        "directory": directory,
    }
    try:
        written = database.run(BROWSER_STARTING, parameters)
    except DatabaseError as error:
        if not isinstance(error.__cause__, UniqueViolation):
            raise
        raise ConflictError(
            f"profile directory {directory}: another profile has it on machine {machine}, and two browsers would "
            "destroy it; give each profile a directory of its own"
        ) from error
    if not written:
        refuse(database, worker, name, look(database, name), kind="browser_starting")


def browser_started(database: Database, worker: Worker, name: LeaseName, *, browser: Mapping[str, Any]) -> None:
    """Keep the address of a browser that runs.

    Raises:
        LeaseLostError: The lease is not live: stop the browser.
    """
    parameters = {"lease_id": name.lease_id, "token": name.token, "browser": Jsonb(browser)}
    if not database.run(BROWSER_STARTED, parameters):
        refuse(database, worker, name, look(database, name), kind="browser_started")


def start_failed(database: Database, name: LeaseName, *, fault: LaunchFault, reason: str) -> StartVerdict:
    """Judge a failed start, and open the launcher's breaker if nothing of it starts."""
    parameters = {"lease_id": name.lease_id, "token": name.token, "fault": fault.value, "reason": cleaned(reason)}
    rows = database.run(START_FAILED, parameters)
    return StartVerdict(rows[0].verdict) if rows else StartVerdict.HOLD


def look(database: Database, name: LeaseName) -> Row | None:
    """What became of a lease: a row with a `LeaseState` as ``state``, or None for an unknown id."""
    rows = database.run(LOOK, {"lease_id": name.lease_id, "token": name.token})
    return rows[0] if rows else None


def refuse(
    database: Database,
    worker: Worker,
    name: LeaseName,
    seen: Row | None,
    *,
    kind: str,
    outcome: Outcome | None = None,
    detail: str | None = None,
) -> NoReturn:
    """Record a report as refused, and raise what became of its lease.

    Raises:
        LeaseLostError: The lease has ended or is being reclaimed.
        UnknownLeaseError: There is no lease with this id and token.
    """
    if seen is None or seen.state == LeaseState.FOREIGN:
        raise UnknownLeaseError(f"{kind}: there is no lease {name.lease_id} with this token; nothing was changed")
    parameters = {
        "lease_id": name.lease_id,
        "kind": kind,
        "worker_id": worker.id,
        "outcome": outcome.value if outcome is not None else None,
        "detail": cleaned(detail),
    }
    database.run(REFUSE, parameters)
    if seen.state == LeaseState.ENDED:
        fate = f"it was ended by the {seen.ended_by} as {seen.outcome}"
    elif seen.state == LeaseState.RECLAIMING:
        fate = f"it is being reclaimed ({seen.outcome or 'given up by its holder'})"
    elif seen.browser_state == "started":
        fate = "its browser was not proven stopped"
    else:
        fate = "its longest time is over"
    raise LeaseLostError(f"{kind} of lease {name.lease_id} was refused: {fate}; the report was kept as refused")


def cleaned(text: str | None) -> str | None:
    """A detail as history may keep it: storable whatever a page said, and without secrets (I11)."""
    return redact(clean_text(text)) if text is not None else None


def _kept(text: str | None) -> str | None:
    """A name as Postgres can keep it: a page may say anything, and none of it may keep a report out."""
    return clean_text(text) if text is not None else None


def _visits_of_holder(seen: Row) -> int | None:
    """How many visits the holder has written, as far as `look` tells; the end of a lease writes one more."""
    if seen.state in {LeaseState.HELD, LeaseState.RECLAIMING}:
        return int(seen.visits)
    return int(seen.visits) - 1 if seen.state == LeaseState.ENDED and seen.ended_by == EndedBy.REAPER else None


def attempt_from(row: Row) -> Attempt:
    """An attempt from the row that ended.sql returns."""
    return Attempt(
        lease_id=row.lease_id,
        outcome=Outcome(row.outcome),
        counted=row.counted,
        available_at=row.available_at,
        retired_because=row.retired_because,
    )
