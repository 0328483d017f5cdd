from __future__ import annotations

import pytest

from poolsql.database.addresses import database_address
from poolsql.database.sessions import connection_arguments
from poolsql.settings import load_settings


def test_a_parameter_of_the_address_wins_over_ours() -> None:
    url = database_address(
        "postgres://h/d?connect_timeout=3&application_name=mine&keepalives_idle=60&client_encoding=latin1"
    )
    arguments = connection_arguments(url, load_settings(connect_timeout=9))
    assert set(arguments) == {"tcp_user_timeout", "keepalives_interval", "keepalives_count", "options"}


def test_a_connection_attempt_takes_no_longer_than_the_settings_say() -> None:
    arguments = connection_arguments(database_address("postgres://h/d"), load_settings(connect_timeout=9))
    assert arguments["connect_timeout"] == 9


@pytest.mark.parametrize(("seconds", "milliseconds"), [(0.001, 1), (0.0014, 1), (1.5, 1500), (3600, 3600000)])
def test_a_timeout_is_never_rounded_to_none(seconds: float, milliseconds: int) -> None:
    settings = load_settings(statement_timeout=seconds, lock_timeout=seconds)
    options = connection_arguments(database_address("postgres://h/d"), settings)["options"]
    assert f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds} " in options


def test_the_options_of_the_address_come_last() -> None:
    url = database_address("postgres://h/d?options=-c%20lock_timeout%3D1")
    options = connection_arguments(url, load_settings())["options"]
    assert options.index("lock_timeout=5000") < options.index("lock_timeout=1")
    assert options.endswith(" -c lock_timeout=1")
    assert r"-c default_transaction_isolation=read\ committed " in options
