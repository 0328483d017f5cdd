"""Locks are held during the whole of what they protect, as a second connection sees it at each statement (I8)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.locks import Lock
from poolsql.database.migration import upgrade
from poolsql.database.rights import grant_runtime_rights
from poolsql.settings import Settings
from tests.fixtures.databases import Role
from tests.fixtures.locks import watched


def test_an_upgrade(empty_database: Callable[[], URL], settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(empty_database(), settings)
    try:
        with watched(database, Lock.UPGRADE, monkeypatch) as watch:
            upgrade(database)
    finally:
        database.close()
    changes = watch.check()
    watch.check_that_the_holder_does_the_work()
    assert any("CREATE TABLE poolsql.waiters" in change for change in changes)
    assert any("COMMIT" in change for change in changes)


def test_a_grant(database: Database, new_role: Callable[..., Role], monkeypatch: pytest.MonkeyPatch) -> None:
    role = new_role()
    with watched(database, Lock.UPGRADE, monkeypatch) as watch:
        grant_runtime_rights(database, role.name)
    watch.check()
    watch.check_that_the_holder_does_the_work()
    with database.connect() as connection:
        connection.connection.cursor().execute(f'DROP OWNED BY "{role.name}"')
