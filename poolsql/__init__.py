"""A pool of long-lived browser profiles on Postgres: exclusive leases, cooldowns, failure history.

Importing this package imports nothing else; each name brings its own modules when it is first used. A program that
only looks for a browser, or only catches our errors, then needs neither SQLAlchemy nor Playwright.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poolsql.errors import (
        BadInputError,
        BrowserMissingError,
        ConflictError,
        DatabaseError,
        DatabaseUnavailableError,
        LauncherError,
        LaunchFailedError,
        LaunchFault,
        LeaseError,
        LeaseLostError,
        NoProfileAvailableError,
        PoolsqlError,
        ProfileRetiredError,
        SchemaMismatchError,
        SessionSettingsError,
        StopNotProvenError,
        UnknownLeaseError,
        UnknownNameError,
    )
    from poolsql.fleet.fleet import Fleet, connect
    from poolsql.fleet.pool import Pool
    from poolsql.fleet.session import AsyncSession, Session
    from poolsql.leasing.checkout import Profile
    from poolsql.leasing.lease import Lease
    from poolsql.leasing.outcomes import Outcome
    from poolsql.leasing.policy import PoolPolicy
    from poolsql.leasing.reports import Attempt, Visit
    from poolsql.leasing.status import PoolStatus

__all__ = [
    "AsyncSession",
    "Attempt",
    "BadInputError",
    "BrowserMissingError",
    "ConflictError",
    "DatabaseError",
    "DatabaseUnavailableError",
    "Fleet",
    "LaunchFailedError",
    "LaunchFault",
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
    "ProfileRetiredError",
    "SchemaMismatchError",
    "Session",
    "SessionSettingsError",
    "StopNotProvenError",
    "UnknownLeaseError",
    "UnknownNameError",
    "Visit",
    "connect",
]

_ERRORS = "poolsql.errors"
_HOMES = {
    "AsyncSession": "poolsql.fleet.session",
    "Attempt": "poolsql.leasing.reports",
    "Fleet": "poolsql.fleet.fleet",
    "Lease": "poolsql.leasing.lease",
    "Outcome": "poolsql.leasing.outcomes",
    "Pool": "poolsql.fleet.pool",
    "PoolPolicy": "poolsql.leasing.policy",
    "PoolStatus": "poolsql.leasing.status",
    "Profile": "poolsql.leasing.checkout",
    "Session": "poolsql.fleet.session",
    "Visit": "poolsql.leasing.reports",
    "connect": "poolsql.fleet.fleet",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value = getattr(import_module(_HOMES.get(name, _ERRORS)), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
