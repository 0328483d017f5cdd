"""Getting a lease: one statement, and what is told when it finds nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any
from uuid import UUID, uuid4

import psycopg

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.database.prepared import Row
from poolsql.database.statements import Statement
from poolsql.leasing.floors import floors_of
from poolsql.leasing.line import LINE, PRIORITY_STEP
from poolsql.leasing.rare_tags import rare_tag
from poolsql.leasing.worker import Worker

CHECKOUT = Statement.load("poolsql.leasing", "asked", "from_pool", "picked", "granted")
CHECKOUT_NAMED = Statement.load("poolsql.leasing", "asked", "from_profile", "picked", "granted")
CHECKOUT_BY_TAG = Statement.load("poolsql.leasing", "asked", "from_tag", "picked", "granted")
CLAIM = Statement.load("poolsql.leasing", "claim")
MISS = Statement.load("poolsql.leasing", "judged", "miss")

MARGIN = 0.1
"""Share of the TTL by which a holder stops trusting its lease before the database would end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a checkout asks for. The id makes a repeated checkout return the same lease."""

    pool_id: int
    task: str | None = None
    host: str | None = None
    tags: tuple[str, ...] = ()
    """The profile must carry all of these."""
    without_tags: tuple[str, ...] = ()
    """The profile must carry none of these."""
    profile_id: int | None = None
    priority: int = 0
    """Each step makes it arrive `PRIORITY_STEP` earlier than it did."""
    id: UUID = field(default_factory=uuid4)

    @property
    def criteria(self) -> int:
        """A hash of what is asked for; requests that ask for the same wait in one line."""
        tags, without_tags = sorted(set(self.tags)), sorted(set(self.without_tags))
        asked = (self.pool_id, self.host, tags, without_tags, self.profile_id)
        return int.from_bytes(blake2b(repr(asked).encode(), digest_size=8).digest(), signed=True)

    def parameters(self, worker: Worker, *, in_line: bool = False) -> dict[str, Any]:
        """As the statements want it; `in_line`: for those who wait already, and whom nobody comes before."""
        return {
            "pool_id": self.pool_id,
            "task": self.task,
            "host": self.host,
            "tags": list(self.tags),
            "without_tags": list(self.without_tags),
            "profile_id": self.profile_id,
            "criteria": self.criteria,
            "advance": self.priority * PRIORITY_STEP,
            "request_id": self.id,
            "worker_id": worker.id,
            "machine": worker.machine,
            "in_line": in_line,
            "floor": None,
            **LINE,
        }


@dataclass(frozen=True, slots=True)
class Profile:
    """The leased profile, as it was at checkout."""

    id: int
    key: str
    """The launcher's own name of the profile."""
    launcher: str
    tags: tuple[str, ...]
    seed: str | None
    options: Mapping[str, Any]
    proxy_id: int | None


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease as the database granted it."""

    lease_id: int
    token: UUID
    profile: Profile
    ttl: timedelta
    renew: timedelta
    acquired_at: datetime
    expires_at: datetime
    deadline_at: datetime
    trusted_until: float
    """On `elapsed_clock`: until then the holder may believe in its lease without asking again."""
    trusted_at_most_until: float
    """On `elapsed_clock`: the lease's longest time, renewed or not."""


@dataclass(frozen=True, slots=True)
class Miss:
    """Why a checkout got nothing."""

    counts: Mapping[str, int]
    next_free_at: datetime | None


def checkout(database: Database, worker: Worker, request: Request, *, has_none: bool = False) -> Grant | None:
    """Lease the longest available profile that matches, or return None; whoever waits for the same comes first.

    An answer that was lost does not lose the lease: the repeated request finds the lease that the first one made.

    Args:
        has_none: The request is known to have no lease yet, so that there is none to look for.

    Raises:
        DatabaseUnavailableError: The database could not be reached.
    """
    statement, parameters = _fitting(database, worker, request)
    tries = 0

    def once() -> Sequence[Row]:
        nonlocal tries
        tries += 1
        try:
            rows = _look(database, statement, parameters)
        except psycopg.errors.UniqueViolation as error:
            # The request has its lease already, or got it from a first try that was still running.
            if not _is_repeated(error):
                raise
            return database.run_once(CLAIM, parameters)
        # Nothing is free, perhaps because a first try, whose answer was lost, has leased it.
        return rows if rows or (has_none and tries == 1) else database.run_once(CLAIM, parameters)

    return _granted(database, once)


def checkout_many(database: Database, worker: Worker, request: Request, number: int) -> list[Grant]:
    """Lease up to `number` profiles that match, longest available first, in one round trip.

    Raises:
        DatabaseUnavailableError: The database could not be reached.
    """
    statement, parameters = _fitting(database, worker, request)
    many = [{**parameters, "request_id": uuid4()} for _ in range(number)]
    started, tries = elapsed_clock(), 0

    def found() -> list[Row]:
        return [row for one in many for row in database.run_once(CLAIM, one)]

    def once() -> list[Row]:
        nonlocal started, tries
        started, tries = elapsed_clock(), tries + 1
        # A first try whose answer was lost did all of its work or none, and may have taken all that there was.
        if tries > 1 and (rows := found()):
            return rows
        try:
            return database.run_many_once(statement, many)
        except psycopg.errors.UniqueViolation as error:
            if not _is_repeated(error):
                raise
            return found()  # the first try was still running

    return [_grant(row, started) for row in database.repeat(once)]


def claim(database: Database, worker: Worker, request: Request) -> Grant | None:
    """Take the lease that was handed to a request while it waited; None: it has none, or answered too late.

    Raises:
        DatabaseUnavailableError: The database could not be reached.
    """
    parameters = {"request_id": request.id, "worker_id": worker.id}
    return _granted(database, lambda: database.run_once(CLAIM, parameters))


def _fitting(database: Database, worker: Worker, request: Request) -> tuple[Statement, dict[str, Any]]:
    """The statement that need not look through a whole pool for what is asked, and its parameters."""
    parameters = request.parameters(worker)
    if request.profile_id is not None:
        return CHECKOUT_NAMED, parameters
    if request.tags and (tag := rare_tag(database, request.tags)) is not None:
        return CHECKOUT_BY_TAG, {**parameters, "rare_tag": tag}
    return CHECKOUT, parameters


def _granted(database: Database, ask: Callable[[], Sequence[Row]]) -> Grant | None:
    started = elapsed_clock()

    def once() -> Sequence[Row]:
        nonlocal started
        started = elapsed_clock()
        return ask()

    rows = database.repeat(once)
    return _grant(rows[0], started) if rows else None


def _look(database: Database, statement: Statement, parameters: Mapping[str, Any]) -> Sequence[Row]:
    """Look where the last checkout of this kind found something, and only if that is nothing at everything."""
    if statement is not CHECKOUT:
        return database.run_once(statement, parameters)
    floors, criteria = floors_of(database), parameters["criteria"]
    floor = floors.get(criteria)
    rows: Sequence[Row] = ()
    if floor is not None:
        rows = database.run_once(statement, {**parameters, "floor": floor})
        if not rows:
            floors.drop(criteria)
    if not rows:
        rows = database.run_once(statement, parameters)
    if rows:
        floors.raise_to(criteria, rows[0].offered_at)
    return rows


def _is_repeated(error: psycopg.errors.UniqueViolation) -> bool:
    return error.diag.constraint_name == "leases_request_id_key"


def record_miss(database: Database, worker: Worker, request: Request, *, waited: float, last_try: bool = True) -> Miss:
    """Count why the request got nothing after `waited` seconds, and write the miss down.

    Args:
        last_try: False: it is not written down when a profile is available now.
    """
    row = database.run(MISS, {**request.parameters(worker), "waited": waited, "last_try": last_try})[0]
    return Miss(counts=row.counts, next_free_at=row.next_free_at)


def _grant(row: Row, started: float) -> Grant:
    return Grant(
        lease_id=row.lease_id,
        token=row.token,
        profile=Profile(
            id=row.profile_id,
            key=row.profile_key,
            launcher=row.launcher,
            tags=tuple(row.tags),
            seed=row.seed,
            options=row.options,
            proxy_id=row.proxy_id,
        ),
        ttl=row.ttl,
        renew=row.renew,
        acquired_at=row.acquired_at,
        expires_at=row.expires_at,
        deadline_at=row.deadline_at,
        trusted_until=started + row.ttl.total_seconds() * (1 - MARGIN),
        trusted_at_most_until=started + row.longest.total_seconds(),
    )
