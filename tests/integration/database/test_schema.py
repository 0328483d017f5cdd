"""The tables in the code are the tables that the migrations build, in everything that Postgres keeps about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.tables import SCHEMA, metadata
from poolsql.settings import Settings
from tests.fixtures.catalogs import catalog


@pytest.fixture(scope="module")
def defined(empty_database: Callable[[], URL], settings: Settings) -> dict[str, list[Any]]:
    """The schema as the code defines it."""
    database = Database(empty_database(), settings)
    with database.transaction() as connection:
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
        metadata.create_all(connection)
    found = catalog(database)
    database.close()
    return found


@pytest.fixture(scope="module")
def migrated(database: Database) -> dict[str, list[Any]]:
    """The schema as the migrations build it."""
    return catalog(database)


@pytest.mark.parametrize(
    "kind", ["relations", "columns", "constraints", "indexes", "sequences", "views", "functions", "triggers"]
)
def test_the_code_and_the_migrations_agree(
    defined: dict[str, list[Any]], migrated: dict[str, list[Any]], kind: str
) -> None:
    assert migrated[kind] == defined[kind]


def test_the_catalogs_show_what_alembic_does_not_compare(migrated: dict[str, list[Any]]) -> None:
    """Guards the comparison above: an empty list equals an empty list."""
    assert len(migrated["relations"]) > len(metadata.tables)
    everything = str(migrated)
    for telling in (
        "fillfactor=70",
        "autovacuum_vacuum_threshold=200",
        "One process that holds leases; a new row for each process start.",
        "CHECK ((state = ANY (ARRAY['held'::text, 'reclaiming'::text])))",
        "WHERE (state = 'active'::text)",
        "ON DELETE CASCADE",
        "clock_timestamp()",
    ):
        assert telling in everything


def test_no_lease_column_that_a_renewal_writes_is_in_an_index(migrated: dict[str, list[Any]]) -> None:
    """Else no renewal could be a HOT update."""
    assert not [index for index in migrated["indexes"] if "expires_at" in str(index)]
