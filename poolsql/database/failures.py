"""Database failures by SQLSTATE: what is tried again at once, what waits for a new connection, what surfaces."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from enum import StrEnum, auto
from typing import cast

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from tenacity import RetryCallState, Retrying, retry_if_exception, wait_random, wait_random_exponential

from poolsql.errors import DatabaseError, DatabaseUnavailableError, PoolsqlError

log = logging.getLogger(__name__)

CONTENTION_TRIES = 20
"""How often work is tried that somebody else's work hinders, as long as there is patience."""
LEAST_CONTENTION_TRIES = 3
"""How often even without patience: most deadlocks are over at the second try."""

SILENCE = 1.0
"""Seconds for which trying again is nobody's business."""


class Failure(StrEnum):
    """What kind of failure an exception of the database is."""

    CONTENTION = auto()
    """Somebody else was there at the same time; a fresh try usually passes."""
    CONNECTION = auto()
    """The connection or the server went away; a new connection may work."""
    REFUSED = auto()
    """The server is there and will not let us in: wrong password, role or database."""
    BUSY = auto()
    """This process already uses all the connections that it may have, and none came back in time."""
    OTHER = auto()
    """Our own mistake or the data's; trying again changes nothing."""


_CONTENTION = {"40001", "40P01", "55P03"}
# Read-only: after a failover the old address may point at a standby, so the next connection may be a better one.
_CONNECTION_CODES = {"25006"}
_CONNECTION_CLASSES = ("08", "57P", "53")
_REFUSED_CLASSES = ("28", "3D")
# libpq tells why a connection was not made in words only. Whatever is not listed here may pass by itself.
_REFUSED_WORDS = re.compile(
    r"authentication failed|no password supplied|does not exist|no pg_hba\.conf entry|not permitted to log in"
    r"|permission denied|unrecognized configuration parameter|invalid value for parameter|invalid \w+ value"
    r"|not support SSL|certificate|unsupported startup parameter"
)


def driver_error(error: BaseException) -> psycopg.Error | None:
    """The driver's own error inside what SQLAlchemy or the driver raised."""
    if isinstance(error, DBAPIError):
        error = error.orig if error.orig is not None else error
    return error if isinstance(error, psycopg.Error) else None


def classify(error: BaseException) -> Failure:
    """Say what kind of failure an exception is."""
    if isinstance(error, PoolTimeoutError):
        return Failure.BUSY
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
    # No SQLSTATE: the connection failed, before or after it was made.
    if not isinstance(cause, psycopg.OperationalError):
        return Failure.OTHER
    # Of several addresses each has a line; only when none of them may come back is trying again pointless.
    attempts = _attempts(str(cause))
    return Failure.REFUSED if attempts and all(map(_REFUSED_WORDS.search, attempts)) else Failure.CONNECTION


def _attempts(message: str) -> list[str]:
    lines = message.strip().splitlines()
    return [line for line in lines if line.startswith("- host:")] or lines[:1]


def _reason(error: BaseException) -> str:
    """The first line of what happened, without what the error that it becomes says anyway."""
    lines = str(error).strip().splitlines()
    if not lines:
        return type(error).__name__
    return re.sub(r"^.* failed: FATAL: +|^connection (failed|is bad): ", "", lines[0])


def translate(error: BaseException, address: str) -> PoolsqlError:
    """Turn a database failure into an error of ours that names the database and the remedy."""
    cause = driver_error(error) or error
    reason = _reason(cause)
    match classify(error):
        case Failure.REFUSED:
            return DatabaseUnavailableError(
                f"database {address} refused the connection: {reason}; check user, password, database name and the "
                "address's parameters"
            )
        case Failure.CONNECTION:
            return DatabaseUnavailableError(f"database {address} {_unavailable(cause, reason)}")
        case Failure.CONTENTION:
            return DatabaseError(f"database {address} is too busy: {reason}; try again later")
        case Failure.BUSY:
            return DatabaseError(
                f"database {address}: this process waits in vain for one of its own connections ({reason}); use it "
                "from fewer threads"
            )
        case Failure.OTHER if isinstance(cause, psycopg.errors.InsufficientPrivilege):
            return DatabaseError(f"database {address}: {reason}; let the tables' owner run: poolsql db grant ROLE")
        case Failure.OTHER:
            return DatabaseError(f"database {address}: {reason}")


def _unavailable(cause: BaseException, reason: str) -> str:
    state = (cause.sqlstate if isinstance(cause, psycopg.Error) else None) or ""
    if state == "25006":
        return f"only reads: {reason}; give the address of the server that writes"
    if state.startswith("53") or re.search(r"too many (connections|clients)|connection slots", reason):
        return f"has nothing left to give: {reason}; make room on the server, or raise its limits"
    return f"cannot be reached: {reason}; check the address and that the server runs"


def retrying(
    address: str, *, patience: float, spent: float = 0.0, hurried: Callable[[], bool] = lambda: False
) -> Retrying:
    """Tries for one piece of work that may be repeated: contention fast, lost connections with a growing pause.

    The work has to be safe to repeat after a commit whose answer was lost: guarded by a token or a request id.

    Args:
        address: Of the database, for the log.
        patience: Seconds after which it is given up. Contention is also given up after `CONTENTION_TRIES`, but
            tried `LEAST_CONTENTION_TRIES` times in any case.
        spent: Seconds of this patience that are over already.
        hurried: Asked after each try: whether the patience has ended meanwhile.
    """
    fast = wait_random(0.005, 0.05)
    slow = wait_random_exponential(multiplier=0.1, max=2.0)

    def since_start(state: RetryCallState) -> float:
        return spent + (state.seconds_since_start or 0.0)

    def pause(state: RetryCallState) -> float:
        return slow(state) if classify(_error(state)) is Failure.CONNECTION else fast(state)

    def give_up(state: RetryCallState) -> bool:
        late = hurried() or since_start(state) >= patience
        if classify(_error(state)) is Failure.CONNECTION:
            return late
        tries = state.attempt_number
        return tries >= CONTENTION_TRIES or (late and tries >= LEAST_CONTENTION_TRIES)

    told = False

    def tell(state: RetryCallState) -> None:
        nonlocal told
        if told or since_start(state) < SILENCE:
            return
        told = True
        reason = _reason(driver_error(_error(state)) or _error(state))
        log.warning("database %s: %s; trying again for up to %g s", address, reason, patience)

    return Retrying(
        retry=retry_if_exception(lambda error: classify(error) in {Failure.CONTENTION, Failure.CONNECTION}),
        wait=pause,
        stop=give_up,
        before_sleep=tell,
        reraise=True,
    )


def _error(state: RetryCallState) -> BaseException:
    """What the try failed with: tenacity asks about failures only, which its types do not say."""
    return cast("BaseException", state.outcome and state.outcome.exception())
