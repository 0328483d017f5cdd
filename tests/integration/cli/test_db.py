"""``poolsql db`` for programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.database.schema import head_revision
from tests.fixtures.databases import Role
from tests.fixtures.fleets import Desk
from tests.integration.cli.audits import audited_since, last_audit
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_an_upgrade_that_is_not_needed(calls: Calls, database: Database) -> None:
    told = calls("db", "upgrade", "--json").json
    assert told == {"database": database.address, "before": head_revision(), "after": head_revision()}


def test_fencing_names_who_and_why(calls: Calls, desk: Desk) -> None:
    granted, mark = desk.granted(), last_audit(desk)
    assert calls("db", "fence", "--who", "eva", "--reason", "restored", "--json").json == {"fenced": 1}
    assert calls("db", "fence", "--json").json == {"fenced": 0}
    assert desk.lease_row(granted.lease_id).reclaim_detail == "fenced: restored"
    assert audited_since(desk, mark) == [
        ("eva", "fence", "1 leases", "restored"),
        ("ann@here", "fence", "0 leases", None),
    ]
    desk.reaper().run_once()


def test_rights_for_a_role(calls: Calls, new_role: Callable[[], Role], database: Database) -> None:
    role = new_role()
    told = calls("db", "grant", role.name, "--json").json
    assert (told["role"], told["tables"] > 20) == (role.name, True)
    assert "there is no role 'x'" in calls("db", "grant", "x").refusal
    with database.connect() as connection:
        connection.execute(text(f'DROP OWNED BY "{role.name}"'))


def test_settings_for_sessions_behind_a_pooler(calls: Calls, new_role: Callable[[], Role], database: Database) -> None:
    role = new_role()
    told = calls("db", "settings", role.name, "--dry-run", "--json").json
    assert (told["role"], told["database"], told["done"]) == (role.name, database.url.database, False)
    given = text("SELECT setconfig FROM pg_db_role_setting WHERE setrole = CAST(:role AS regrole)")
    with database.connect() as connection:
        assert connection.execute(given, {"role": role.name}).all() == []
        assert calls("db", "settings", role.name, "--json").json == {**told, "done": True}
        (row,) = connection.execute(given, {"role": role.name}).all()
    assert len(row.setconfig) == len(told["statements"])
    assert "statement_timeout=30000" in row.setconfig
    assert "there is no role 'x'" in calls("db", "settings", "x").refusal
