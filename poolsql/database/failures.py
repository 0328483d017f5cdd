"""Database failures by SQLSTATE: what is tried again at once, what waits for a new connection, what surfaces."""

from __future__ import annotations

from enum import StrEnum, auto

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random, wait_random_exponential

from poolsql.errors import DatabaseError, DatabaseUnavailableError, PoolsqlError

CONTENTION_TRIES = 20


class Failure(StrEnum):
    """What kind of failure an exception of the database is."""

    CONTENTION = auto()
    """Somebody else was there at the same time; a fresh try usually passes."""
    CONNECTION = auto()
    """The connection or the server went away; a new connection may work."""
    REFUSED = auto()
    """The server is there and will not let us in: wrong password, role or database."""
    OTHER = auto()
    """Our own mistake or the data's; trying again changes nothing."""


_CONTENTION = {"40001", "40P01", "55P03"}
# Read-only: after a failover the old address may point at a standby, so the next connection may be a better one.
_CONNECTION_CODES = {"25006"}
_CONNECTION_CLASSES = ("08", "57P", "53")
_REFUSED_CLASSES = ("28", "3D")


def driver_error(error: BaseException) -> psycopg.Error | None:
    """The driver's own error inside what SQLAlchemy or the driver raised."""
    if isinstance(error, DBAPIError):
        error = error.orig if error.orig is not None else error
    return error if isinstance(error, psycopg.Error) else None


def classify(error: BaseException) -> Failure:
    """Say what kind of failure an exception is."""
    if isinstance(error, PoolTimeoutError):
        return Failure.CONTENTION
    cause = driver_error(error)
    if cause is None:
        return Failure.OTHER
    state = cause.sqlstate
    return _by_text(cause) if state is None else _by_state(state)


def _by_state(state: str) -> Failure:
    if state in _CONTENTION:
        return Failure.CONTENTION
    if state in _CONNECTION_CODES or state.startswith(_CONNECTION_CLASSES):
        return Failure.CONNECTION
    return Failure.REFUSED if state.startswith(_REFUSED_CLASSES) else Failure.OTHER


def _by_text(cause: psycopg.Error) -> Failure:
    # No SQLSTATE: the connection failed, before or after it was made. libpq tells of a refused password without
    # one, so its text is all there is.
    if not isinstance(cause, psycopg.OperationalError):
        return Failure.OTHER
    return Failure.REFUSED if _refused_by_text(str(cause)) else Failure.CONNECTION


def _refused_by_text(message: str) -> bool:
    # Every address that was tried has a line; only when none of them may come back is trying again pointless.
    lines = [line for line in message.splitlines() if "FATAL:" in line or "failed:" in line]
    pointless = ("authentication failed", "does not exist", "no password supplied", "no pg_hba.conf entry")
    return bool(lines) and all(any(words in line for words in pointless) for line in lines)


def translate(error: BaseException, address: str) -> PoolsqlError:
    """Turn a database failure into an error of ours that names the database and the remedy."""
    cause = driver_error(error)
    first_line = next(iter(str(cause if cause is not None else error).strip().splitlines()), type(error).__name__)
    match classify(error):
        case Failure.REFUSED:
            return DatabaseUnavailableError(
                f"database {address} refused the connection: {first_line}; check user, password and database name"
            )
        case Failure.CONNECTION:
            return DatabaseUnavailableError(
                f"database {address} cannot be reached: {first_line}; check the address and that the server runs"
            )
        case Failure.CONTENTION:
            return DatabaseError(f"database {address} is too busy: {first_line}; try again later")
        case Failure.OTHER:
            return DatabaseError(f"database {address}: {first_line}")


def retrying(*, patience: float) -> Retrying:
    """Tries for one piece of work that may be repeated: contention fast, lost connections with a growing pause.

    The work has to be safe to repeat after a commit whose answer was lost: guarded by a token or a request id.

    Args:
        patience: Seconds after which a lost connection is given up; contention is given up after
            `CONTENTION_TRIES` tries.
    """
    fast = wait_random(0.005, 0.05)
    slow = wait_random_exponential(multiplier=0.1, max=2.0)

    def pause(state: RetryCallState) -> float:
        return slow(state) if _kind(state) is Failure.CONNECTION else fast(state)

    def give_up(state: RetryCallState) -> bool:
        if _kind(state) is Failure.CONNECTION:
            return (state.seconds_since_start or 0.0) >= patience
        return state.attempt_number >= CONTENTION_TRIES

    return Retrying(
        retry=retry_if_exception(lambda error: classify(error) in {Failure.CONTENTION, Failure.CONNECTION}),
        wait=pause,
        stop=give_up,
        reraise=True,
    )


def _kind(state: RetryCallState) -> Failure:
    error = state.outcome.exception() if state.outcome is not None else None
    return classify(error) if error is not None else Failure.OTHER
