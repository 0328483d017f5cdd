from __future__ import annotations

import re

import psycopg
import pytest
from psycopg import errors
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from poolsql.database import failures
from poolsql.database.failures import Failure, classify, retrying, translate
from poolsql.errors import DatabaseError, DatabaseUnavailableError

ADDRESS = "postgresql://u@h/d"

SOCKET = 'connection failed: connection to server on socket "/run/.s.PGSQL.5432" failed: '
TCP = 'connection failed: connection to server at "127.0.0.1", port 5432 failed: '


def several(*messages: str) -> str:
    """What psycopg says when it tried several addresses; the first line is that of the last one."""
    tried = "".join(f"\n- host: 'h{number}': {message}" for number, message in enumerate(messages))
    return f"{messages[-1]}\nMultiple connection attempts failed. All failures were:{tried}"


def with_state(state: str) -> psycopg.Error:
    """An error as the server sends it; classes that psycopg does not know have one that it does."""
    try:
        return errors.lookup(state)("what happened\nDETAIL: more of it")
    except KeyError:
        error = errors.OperationalError("what happened")
        error.sqlstate = state
        return error


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *((state, Failure.CONTENTION) for state in ("40001", "40P01", "55P03")),
        *((state, Failure.CONNECTION) for state in ("08000", "08003", "08006", "08P01", "25006")),
        *((state, Failure.CONNECTION) for state in ("53000", "53100", "53200", "53300", "53400")),
        *((state, Failure.CONNECTION) for state in ("57P01", "57P02", "57P03", "57P04", "57P05")),
        *((state, Failure.REFUSED) for state in ("28000", "28P01", "3D000")),
        *((state, Failure.OTHER) for state in ("57014", "40002", "55006", "25P02", "23505", "42501", "42P01", "22003")),
    ],
)
def test_sqlstates(state: str, kind: Failure) -> None:
    error = with_state(state)
    assert classify(error) is kind
    assert classify(DBAPIError("SELECT 1", {}, error)) is kind


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (f'{TCP}FATAL:  password authentication failed for user "u"', Failure.REFUSED),
        (f"{TCP}fe_sendauth: no password supplied", Failure.REFUSED),
        (f'{TCP}FATAL:  database "d" does not exist', Failure.REFUSED),
        (f'{SOCKET}FATAL:  role "u" does not exist', Failure.REFUSED),
        (f'{SOCKET}FATAL:  role "u" is not permitted to log in', Failure.REFUSED),
        (f'{TCP}FATAL:  no pg_hba.conf entry for host "1.2.3.4", user "u", database "d"', Failure.REFUSED),
        (f'{TCP}FATAL:  permission denied for database "d"\nDETAIL:  No CONNECT privilege.', Failure.REFUSED),
        (f"{TCP}server does not support SSL, but SSL was required", Failure.REFUSED),
        (f'{TCP}root certificate file "/ca" does not exist', Failure.REFUSED),
        ('connection is bad: invalid sslmode value: "bogus"', Failure.REFUSED),
        (f"{TCP}Connection refused\n\tIs the server running on that host?", Failure.CONNECTION),
        ('connection is bad: connection to server on socket "/x" failed: No such file', Failure.CONNECTION),
        (f"{TCP}FATAL:  the database system is starting up", Failure.CONNECTION),
        (f"{TCP}FATAL:  the database system is shutting down", Failure.CONNECTION),
        (f"{TCP}FATAL:  sorry, too many clients already", Failure.CONNECTION),
        (f'{TCP}FATAL:  too many connections for role "u"', Failure.CONNECTION),
        ("failed to resolve host 'nowhere.invalid': [Errno -2] Name or service not known", Failure.CONNECTION),
        ("connection timeout expired", Failure.CONNECTION),
        ("consuming input failed: server closed the connection unexpectedly\n\tThis probably", Failure.CONNECTION),
        ("the connection is closed", Failure.CONNECTION),
        ("", Failure.CONNECTION),
        (
            several(f'{TCP}FATAL:  password authentication failed for user "u"', f"{TCP}Connection refused"),
            Failure.CONNECTION,
        ),
        (
            several(f'{TCP}FATAL:  database "d" does not exist', f"{TCP}fe_sendauth: no password supplied"),
            Failure.REFUSED,
        ),
    ],
)
def test_connections_that_were_not_made(message: str, kind: Failure) -> None:
    assert classify(psycopg.OperationalError(message)) is kind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PoolTimeoutError("QueuePool limit"), Failure.BUSY),
        (psycopg.ProgrammingError("the query has 1 placeholder but 0 parameters were passed"), Failure.OTHER),
        (psycopg.InterfaceError("the cursor is closed"), Failure.OTHER),
        (InvalidRequestError("our own mistake"), Failure.OTHER),
        (DBAPIError("SELECT 1", {}, ValueError("no error of the driver")), Failure.OTHER),
        (ValueError("nothing of a database"), Failure.OTHER),
    ],
)
def test_what_is_no_failure_of_the_database(error: Exception, kind: Failure) -> None:
    assert classify(error) is kind


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [
        (
            psycopg.OperationalError(f'{SOCKET}FATAL:  password authentication failed for user "u"'),
            DatabaseUnavailableError,
            (
                'refused the connection: password authentication failed for user "u"; check user, password, database '
                "name and the address's parameters"
            ),
        ),
        (
            psycopg.OperationalError(f"{TCP}Connection refused\n\tIs the server running on that host?"),
            DatabaseUnavailableError,
            (
                'cannot be reached: connection to server at "127.0.0.1", port 5432 failed: Connection refused; '
                "check the address and that the server runs"
            ),
        ),
        (
            psycopg.OperationalError(f'{TCP}FATAL:  too many connections for role "u"'),
            DatabaseUnavailableError,
            'has nothing left to give: too many connections for role "u"; make room on the server, or raise its limits',
        ),
        (
            with_state("53100"),
            DatabaseUnavailableError,
            "has nothing left to give: what happened; make room on the server, or raise its limits",
        ),
        (
            with_state("25006"),
            DatabaseUnavailableError,
            "only reads: what happened; give the address of the server that writes",
        ),
        (
            with_state("40P01"),
            DatabaseError,
            "is too busy: what happened; try again later",
        ),
        (
            PoolTimeoutError("QueuePool limit"),
            DatabaseError,
            "this process waits in vain for one of its own connections (QueuePool limit); use it from fewer threads",
        ),
        (
            with_state("42501"),
            DatabaseError,
            "what happened; let the tables' owner run: poolsql db grant ROLE",
        ),
        (with_state("23505"), DatabaseError, "what happened"),
        (psycopg.InterfaceError(), DatabaseError, "InterfaceError"),
    ],
)
def test_what_people_are_told(error: Exception, raised: type[DatabaseError], message: str) -> None:
    for wrapped in (error, DBAPIError("SELECT secret", {}, error)) if isinstance(error, psycopg.Error) else (error,):
        told = translate(wrapped, ADDRESS)
        assert type(told) is raised
        assert re.fullmatch(rf"database {re.escape(ADDRESS)}:? {re.escape(message)}", str(told))


class Work:
    """Fails in the given ways, one a try, and then passes."""

    def __init__(self, *ways: Exception) -> None:
        self.tries = 0
        self._ways = list(ways)

    def __call__(self) -> int:
        self.tries += 1
        if self._ways:
            raise self._ways.pop(0)
        return self.tries


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have been waited between tries; nobody waits, but time passes."""
    paused: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", paused.append)
    monkeypatch.setattr("tenacity.time.monotonic", lambda: sum(paused))
    return paused


def lost() -> psycopg.Error:
    return psycopg.OperationalError("the connection is closed")


def busy() -> psycopg.Error:
    return with_state("40P01")


def test_contention_is_tried_again_fast(pauses: list[float]) -> None:
    assert retrying(ADDRESS, patience=15)(Work(*(busy() for _ in range(10)))) == 11
    assert max(pauses) <= 0.05


def test_contention_is_given_up(pauses: list[float]) -> None:
    work = Work(*(busy() for _ in range(100)))
    with pytest.raises(errors.DeadlockDetected):
        retrying(ADDRESS, patience=1000)(work)
    assert work.tries == failures.CONTENTION_TRIES


@pytest.mark.parametrize("patience", [0, 1e-9])
def test_contention_is_tried_a_few_times_without_patience(pauses: list[float], patience: float) -> None:
    work = Work(*(busy() for _ in range(100)))
    with pytest.raises(errors.DeadlockDetected):
        retrying(ADDRESS, patience=patience)(work)
    assert work.tries == failures.LEAST_CONTENTION_TRIES


def test_a_lost_connection_is_tried_again_ever_more_slowly_until_the_patience_ends(pauses: list[float]) -> None:
    work = Work(*(lost() for _ in range(1000)))
    with pytest.raises(psycopg.OperationalError):
        retrying(ADDRESS, patience=100)(work)
    assert 100 <= sum(pauses) <= 102
    assert max(pauses[:3]) <= 0.4
    assert 1 < max(pauses) <= 2
    assert work.tries == len(pauses) + 1


def test_without_patience_a_lost_connection_is_told_at_once(pauses: list[float]) -> None:
    work = Work(lost())
    with pytest.raises(psycopg.OperationalError):
        retrying(ADDRESS, patience=0)(work)
    assert (work.tries, pauses) == (1, [])


@pytest.mark.parametrize("state", ["23505", "57014", "28P01", "3D000"])
def test_everything_else_surfaces_at_once(pauses: list[float], state: str) -> None:
    work = Work(with_state(state))
    with pytest.raises(psycopg.Error):
        retrying(ADDRESS, patience=15)(work)
    assert (work.tries, pauses) == (1, [])


def test_a_pool_that_is_used_up_is_not_waited_for_again(pauses: list[float]) -> None:
    work = Work(PoolTimeoutError("QueuePool limit"))
    with pytest.raises(PoolTimeoutError):
        retrying(ADDRESS, patience=15)(work)
    assert work.tries == 1


def test_what_is_no_error_ends_the_work(pauses: list[float]) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        retrying(ADDRESS, patience=15)(interrupt)


def test_a_long_outage_is_logged_once_and_a_short_one_never(
    pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    retrying(ADDRESS, patience=60)(Work(lost()))
    assert caplog.records == []
    retrying(ADDRESS, patience=60)(Work(*(lost() for _ in range(20))))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == f"database {ADDRESS}: the connection is closed; trying again for up to 60 s"
