from __future__ import annotations

from datetime import UTC, datetime

import pytest

import poolsql
from poolsql import errors
from poolsql.errors import (
    BadInputError,
    DatabaseError,
    DatabaseUnavailableError,
    LaunchFailedError,
    LaunchFault,
    NoProfileAvailableError,
    PoolsqlError,
    SchemaMismatchError,
)

ALL = [thing for thing in vars(errors).values() if isinstance(thing, type) and issubclass(thing, PoolsqlError)]


@pytest.mark.parametrize("error", ALL)
def test_the_exit_code_tells_bad_input_and_a_missing_database_from_other_failures(error: type[PoolsqlError]) -> None:
    if issubclass(error, DatabaseUnavailableError):
        assert error.exit_code == 3
    else:
        assert error.exit_code == (2 if issubclass(error, BadInputError) else 1)


@pytest.mark.parametrize("error", ALL)
def test_every_error_is_public_and_says_what_it_means(error: type[PoolsqlError]) -> None:
    assert getattr(poolsql, error.__name__) is error
    assert error.__name__ in poolsql.__all__
    assert error.__name__.endswith("Error")
    assert error.__doc__


def test_who_catches_the_usual_errors_of_python_catches_bad_input_too() -> None:
    assert issubclass(BadInputError, ValueError)


def test_who_catches_a_missing_database_catches_tables_that_do_not_fit() -> None:
    assert issubclass(SchemaMismatchError, DatabaseUnavailableError)
    assert issubclass(DatabaseUnavailableError, DatabaseError)


def test_a_miss_says_when_to_come_back_and_keeps_its_own_counts() -> None:
    counts, moment = {"leased": 2}, datetime(2026, 11, 30, tzinfo=UTC)
    error = NoProfileAvailableError("none", next_free_at=moment, counts=counts)
    counts.clear()
    assert (str(error), error.next_free_at, error.counts) == ("none", moment, {"leased": 2})


def test_a_failed_launch_is_the_launchers_fault_unless_said_otherwise() -> None:
    assert LaunchFailedError("down").fault is LaunchFault.LAUNCHER
    assert LaunchFailedError("unknown id", fault=LaunchFault.PROFILE).fault is LaunchFault.PROFILE
