"""Every error that poolsql raises on purpose: one tree, each message with the thing, the place and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import ClassVar


class PoolsqlError(Exception):
    """Root of the tree. ``exit_code`` is what the command line exits with when nobody catches it."""

    exit_code: ClassVar[int] = 1


class BadInputError(PoolsqlError, ValueError):
    """Something that was asked for cannot be right; nothing was changed."""

    exit_code = 2


class UnknownNameError(BadInputError):
    """A pool, profile, launcher, proxy or run of that name does not exist."""


class ConflictError(BadInputError):
    """The request contradicts what the database holds, such as a proxy or directory given to two profiles."""


class DatabaseError(PoolsqlError):
    """The database refused or could not do something."""


class DatabaseUnavailableError(DatabaseError):
    """No connection could be made or kept: server down, wrong address, wrong password, embedded server broken."""

    exit_code = 3


class SchemaMismatchError(DatabaseUnavailableError):
    """The database's tables are older than this code, or newer than it can work with."""


class SessionSettingsError(DatabaseUnavailableError):
    """A connection pooler's sessions have settings with which answers would be wrong."""


class LeaseError(PoolsqlError):
    """Something about a lease."""


class LeaseLostError(LeaseError):
    """The lease is not live any more: it expired, was reaped or revoked; the profile may belong to somebody else."""


class UnknownLeaseError(LeaseError, BadInputError):
    """No live or past lease has this id and token."""


class NoProfileAvailableError(LeaseError):
    """A checkout got nothing.

    Attributes:
        next_free_at: When the next matching profile is expected back, by the database clock; None when unknown
            (all of them leased, or none matches).
        counts: How many profiles of the pool are unavailable for which reason.
    """

    def __init__(self, message: str, *, next_free_at: datetime | None, counts: Mapping[str, int]) -> None:
        super().__init__(message)
        self.next_free_at = next_free_at
        self.counts = dict(counts)


class ProfileRetiredError(LeaseError):
    """A checkout requires a profile that is retired; waiting would not help."""


class LaunchFault(StrEnum):
    """Why a browser did not start; decides between hold, pause and breaker (invariant I5)."""

    LAUNCHER = "launcher"
    """The launcher itself failed: a vendor's API is down, the executable crashed, a deadline passed."""
    PROFILE = "profile"
    """This profile cannot be started here: unknown id, directory in use by a foreign browser."""
    PROXY = "proxy"
    """The launcher says that the profile's proxy does not work."""


class LauncherError(PoolsqlError):
    """Something about starting or stopping a browser."""


class LaunchFailedError(LauncherError):
    """The browser of a profile did not start.

    Attributes:
        fault: Whose fault the launcher believes it to be.
        stop_rung: How it is proven that nothing of this start runs; None when the launcher did not prove it.
    """

    def __init__(
        self, message: str, *, fault: LaunchFault = LaunchFault.LAUNCHER, stop_rung: str | None = None
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.stop_rung = stop_rung


class BrowserMissingError(LaunchFailedError, BadInputError):
    """No Chromium, Chrome or Edge was found on this machine."""


class StopNotProvenError(LauncherError):
    """A browser was told to stop but may still run; its profile stays out of the offer until it is proven gone."""
