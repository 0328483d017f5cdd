"""A pool of long-lived browser profiles on Postgres: exclusive leases, cooldowns, failure history."""

from __future__ import annotations

from poolsql.errors import (
    BadInputError,
    BrowserMissingError,
    ConflictError,
    DatabaseError,
    DatabaseUnavailableError,
    LauncherError,
    LaunchFailedError,
    LeaseError,
    LeaseLostError,
    NoProfileAvailableError,
    PoolsqlError,
    SchemaMismatchError,
    StopNotProvenError,
    UnknownLeaseError,
    UnknownNameError,
)
from poolsql.fleet.fleet import Fleet, connect
from poolsql.fleet.pool import Pool
from poolsql.fleet.session import AsyncSession, Session
from poolsql.leasing.checkout import Profile
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Blame, Outcome
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.reports import Attempt, Visit
from poolsql.leasing.status import PoolStatus

__all__ = [
    "AsyncSession",
    "Attempt",
    "BadInputError",
    "Blame",
    "BrowserMissingError",
    "ConflictError",
    "DatabaseError",
    "DatabaseUnavailableError",
    "Fleet",
    "LaunchFailedError",
    "LauncherError",
    "Lease",
    "LeaseError",
    "LeaseLostError",
    "NoProfileAvailableError",
    "Outcome",
    "Pool",
    "PoolPolicy",
    "PoolStatus",
    "PoolsqlError",
    "Profile",
    "SchemaMismatchError",
    "Session",
    "StopNotProvenError",
    "UnknownLeaseError",
    "UnknownNameError",
    "Visit",
    "connect",
]
