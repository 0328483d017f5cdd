from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine

from poolsql.database.addresses import database_address, libpq_parameters, readable
from poolsql.errors import BadInputError


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "PostgreSQL"])
def test_every_way_to_write_the_scheme_means_psycopg(scheme: str) -> None:
    url = database_address(f"  {scheme}://ann:p%40ss%2Fword%25@db.example:5433/fleet\n")
    assert url.drivername == "postgresql+psycopg"
    assert (url.username, url.password, url.host, url.port, url.database) == (
        "ann",
        "p@ss/word%",
        "db.example",
        5433,
        "fleet",
    )


@pytest.mark.parametrize(
    ("address", "arguments"),
    [
        ("postgres://h/d", {"host": "h", "dbname": "d"}),
        ("postgres:///d", {"dbname": "d"}),
        ("postgres://u@[::1]:5433/d", {"user": "u", "host": "::1", "port": 5433, "dbname": "d"}),
        (
            "postgres://u@/d?host=/run/my%20socket&port=7",
            {"user": "u", "host": "/run/my socket", "port": "7", "dbname": "d"},
        ),
        ("postgres://%2Frun%2Fsocket/d", {"host": "/run/socket", "dbname": "d"}),
        (
            "postgres://a:1,b:2/d?target_session_attrs=primary",
            {"host": "a,b", "port": "1,2", "dbname": "d", "target_session_attrs": "primary"},
        ),
        # Two empty ports: the default for both.
        ("postgres://a,b/d", {"host": "a,b", "port": ",", "dbname": "d"}),
        ("postgres://h?dbname=d&user=u&password=p", {"host": "h", "dbname": "d", "user": "u", "password": "p"}),
        (
            "postgres://h/d?sslmode=verify-full&sslrootcert=/ca.pem&options=-c%20a%3Db",
            {"host": "h", "dbname": "d", "sslmode": "verify-full", "sslrootcert": "/ca.pem", "options": "-c a=b"},
        ),
        ("postgres://h/d?ssl=true", {"host": "h", "dbname": "d", "sslmode": "require"}),
        (
            "postgres://größe@h/dä%20ta?application_name=%C3%BC",
            {"user": "größe", "host": "h", "dbname": "dä ta", "application_name": "ü"},
        ),
    ],
)
def test_libpq_gets_what_the_address_says(address: str, arguments: dict[str, object]) -> None:
    engine = create_engine(database_address(address))
    positional, named = engine.dialect.create_connect_args(engine.url)
    named.pop("context")
    assert (positional, named) == ([], arguments)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("", "is not a database address"),
        ("geheim", "is not a database address"),
        ("host=h password=geheim", "is not a database address"),
        ("postgresql:/u:geheim@h/d", "is not a database address"),
        ("geheim geheim://h/d", "is not a database address"),
        ("postgresql://u:geheim%zz@h/d", "is not a database address"),
        ("postgresql://u:geheim\0@h/d", "is not a database address"),
        ("postgresql://u:geheim\udc80@h/d", "is not a database address"),
        ("postgresql://[::1/d?password=geheim", "is not a database address"),
        ("sqlite:///geheim.db", "names the database kind 'sqlite'; poolsql needs Postgres"),
        ("mysql+pymysql://u:geheim@h/d", r"names the database kind 'mysql\+pymysql'"),
        ("https://u:geheim@h/d", "names the database kind 'https'"),
        ("postgresql://u:geheim@h", "names no database"),
        ("postgresql://u:geheim@h/", "names no database"),
        ("postgresql://u:geheim@h/d?pgbouncer=true", "knows no connection parameter 'pgbouncer'; remove it"),
        ("postgresql://u:geheim@h:0/d", "the port is no number from 1 to 65535"),
        ("postgresql://u:geheim@h:65536/d", "the port is no number"),
        ("postgresql://u@a:1,b:geheim/d", "the port is no number"),
        # A password with an @ or a / in it: what follows would be taken for a host or a database.
        ("postgresql://u:a@geheim@h/d", "an @ too many; .* in a password %40 for @"),
        ("postgresql://u:12/geheim@h/d", "an @ too many"),
        ("postgresql://u:geheim/more@h/d", "an @ too many"),
    ],
)
def test_what_is_no_address_is_refused_without_repeating_it(address: str, message: str) -> None:
    with pytest.raises(BadInputError, match=f"^POOLSQL_X:? .*{message}") as caught:
        database_address(address, name="POOLSQL_X")
    assert "geheim" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    # What libpq said holds pieces of the address.
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgres://u:geheim@h:5433/d?sslmode=require&sslpassword=geheim", "postgresql://u@h:5433/d"),
        ("postgres://h/d?password=geheim", "postgresql://h/d"),
        ("postgres://u:geheim@[::1]/d", "postgresql://u@[::1]/d"),
        ("postgres://u@/d?host=/run/my%20socket&port=7", "postgresql://u@/d?host=/run/my%20socket&port=7"),
        ("postgres://u:geheim@a:1,b:2/d", "postgresql://u@/d?host=a,b&port=1,2"),
        ("postgres://a%40b:geheim@h/d%3F%0A", "postgresql://a%40b@h/d%3F%0A"),
        ("postgres:///d", "postgresql:///d"),
    ],
)
def test_what_is_shown_is_an_address_without_secrets(address: str, shown: str) -> None:
    url = database_address(address)
    assert readable(url) == shown
    assert "geheim" not in f"{url} {url!r}".replace("sslpassword=geheim", "")
    again = database_address(shown)
    assert (again.host, again.port, again.username, again.database) == (url.host, url.port, url.username, url.database)


@pytest.mark.parametrize("password", ["", "a b", "p@ss:w/o#r%d ü+&=?"])
def test_libpq_reads_from_the_whole_address_what_was_given(password: str) -> None:
    url = database_address("postgresql://boss@/fleet?host=/run/my%20socket&port=7").set(password=password or None)
    read = conninfo_to_dict(libpq_parameters(url))
    wanted = {"user": "boss", "dbname": "fleet", "host": "/run/my socket", "port": "7"}
    assert read == ({**wanted, "password": password} if password else wanted)
