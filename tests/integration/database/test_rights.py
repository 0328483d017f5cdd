"""A role that owns nothing can run a whole fleet after `grant_runtime_rights`, and no more than that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.database.rights import APPEND_ONLY, FIXED, grant_runtime_rights
from poolsql.database.schema import check_schema
from poolsql.database.tables import metadata
from poolsql.errors import BadInputError, DatabaseError, LeaseLostError, NoProfileAvailableError, SchemaMismatchError
from poolsql.fleet.fleet import Fleet
from poolsql.leasing.outcomes import Outcome
from poolsql.settings import Settings
from tests.fixtures.conditions import until
from tests.fixtures.databases import Role

Open = Callable[..., Database]
NewRole = Callable[..., Role]

TABLES = sorted({table.name for table in metadata.tables.values()} | {"alembic_version"})
HOT = {"cooldowns", "hosts", "leases", "loop_stamps", "profiles", "tasks", "waiters"}

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def run(database: Database, statement: str, **parameters: Any) -> list[Any]:
    with database.connect() as connection:
        result = connection.execute(text(statement), parameters)
        return list(result.all()) if result.returns_rows else []


def rights(database: Database, role: Role) -> list[Any]:
    """Everything that the role was given in the schema, today and for later tables."""
    return run(
        database,
        "SELECT relname, acl.privilege_type, acl.is_grantable FROM pg_class, aclexplode(relacl) AS acl "
        "WHERE acl.grantee = CAST(:role AS regrole) "
        "UNION ALL SELECT nspname, acl.privilege_type, acl.is_grantable FROM pg_namespace, aclexplode(nspacl) AS acl "
        "WHERE acl.grantee = CAST(:role AS regrole) "
        "UNION ALL SELECT defaclobjtype::text, acl.privilege_type, acl.is_grantable "
        "FROM pg_default_acl, aclexplode(defaclacl) AS acl WHERE acl.grantee = CAST(:role AS regrole) ORDER BY 1, 2",
        role=f'"{role.name.replace(chr(34), chr(34) * 2)}"',
    )


def has_maintain(database: Database) -> bool:
    return bool(run(database, "SELECT current_setting('server_version_num')::int >= 170000 AS has")[0].has)


@pytest.fixture(scope="module")
def granted(database: Database, new_role: NewRole) -> Role:
    """A role that was given the rights while it could not log in yet."""
    role = new_role("NOLOGIN")
    outcome = grant_runtime_rights(database, role.name)
    assert (outcome.tables, outcome.upkeep) == (len(TABLES), has_maintain(database))
    run(database, f'ALTER ROLE "{role.name}" LOGIN')
    return role


@pytest.fixture
def limited(granted: Role, database_url: URL, opened: Open) -> Database:
    """The fleet's database, opened as that role."""
    return opened(granted.at(database_url))


@pytest.fixture
def fleet(limited: Database, settings: Settings) -> Iterator[Fleet]:
    with Fleet(limited, settings) as fleet:
        yield fleet


def test_a_whole_fleet_works(fleet: Fleet, limited: Database, database: Database) -> None:
    check_schema(limited)
    fleet.define_launcher("local", kind="local")
    fleet.define_proxy("isp1", "http://proxy.test:1", shared=True)
    pool = fleet.define_pool("shop", ttl="2m")
    fleet.define_pool("shop", ttl="90s", failure_cooldown="1h")
    for key in ("one", "two"):
        pool.add_profile(key, launcher="local", proxy="isp1", tags=["de"])

    with pool.lease(task="renewed", host="shop.test", tags=["de"]) as lease:
        lease.renew()
    first = pool.checkout(task="blocked", host="shop.test")
    first.release(Outcome.BLOCKED, detail="a wall")
    second = pool.checkout(task="expires")
    with pytest.raises(NoProfileAvailableError):
        pool.checkout(host="shop.test")
    run(database, "UPDATE poolsql.leases SET expires_at = clock_timestamp()")
    assert fleet.reap().expired == 1
    with pytest.raises(LeaseLostError):
        second.release()
    fleet.change_profile(first.profile.id, "retire", who="test", reason="worn")
    fleet.change_profile(first.profile.id, "restore", who="test")
    assert fleet.retire_due() == []
    assert sum(pool.status().counts.values()) == 2
    ended = [row.outcome for row in run(database, "SELECT outcome FROM poolsql.attempts ORDER BY ended_at")]
    assert ended == ["success", "blocked", "lease_expired"]
    assert run(database, "SELECT count(*) FROM poolsql.refused_reports")[0].count == 1


@pytest.mark.parametrize("table", TABLES)
def test_each_table_gives_what_it_needs_to(database: Database, granted: Role, table: str) -> None:
    expected = {"SELECT"}
    if table not in FIXED:
        expected |= {"INSERT"} if table in APPEND_ONLY else {"INSERT", "UPDATE", "DELETE"}
    if table in HOT and has_maintain(database):
        expected |= {"MAINTAIN"}
    found = {row.privilege_type for row in rights(database, granted) if row.relname == table}
    assert found == expected


def test_the_role_cannot_change_the_schema_or_history(limited: Database) -> None:
    for statement in (
        "DROP TABLE poolsql.misses",
        "CREATE TABLE poolsql.mine ()",
        "ALTER TABLE poolsql.pools ADD mine int",
        "DELETE FROM poolsql.attempts",
        "UPDATE poolsql.audit SET who = 'somebody else'",
        "UPDATE poolsql.outcomes SET blames = 'nobody'",
        "UPDATE poolsql.alembic_version SET version_num = '9999'",
    ):
        with pytest.raises(DatabaseError, match=r"permission denied|must be owner"):
            run(limited, statement)


def test_hot_tables_can_be_vacuumed(limited: Database) -> None:
    if not has_maintain(limited):
        pytest.skip("only an owner can, before PostgreSQL 17")
    # Without the right, VACUUM only warns and skips the table: what counts is that it was done.
    done = "SELECT coalesce(sum(vacuum_count), 0) AS times FROM pg_stat_user_tables WHERE relname = 'leases'"
    before = run(limited, done)[0].times
    run(limited, "VACUUM (SKIP_LOCKED) poolsql.leases, poolsql.profiles")
    until(lambda: run(limited, done)[0].times > before)
    assert run(limited, done)[0].times > before


def test_tables_and_sequences_of_later_revisions_are_granted_too(database: Database, limited: Database) -> None:
    run(database, "CREATE TABLE poolsql.later (id int GENERATED ALWAYS AS IDENTITY, word text)")
    run(database, "CREATE SEQUENCE poolsql.later_keys")
    run(limited, "INSERT INTO poolsql.later (word) VALUES ('new')")
    run(limited, "UPDATE poolsql.later SET word = 'changed'")
    assert run(limited, "SELECT word FROM poolsql.later")[0].word == "changed"
    run(limited, "DELETE FROM poolsql.later")
    assert run(limited, "SELECT nextval('poolsql.later_keys')")[0].nextval == 1
    run(database, "DROP TABLE poolsql.later")
    run(database, "DROP SEQUENCE poolsql.later_keys")


def test_granting_again_changes_nothing(database: Database, granted: Role) -> None:
    before = rights(database, granted)
    grant_runtime_rights(database, granted.name)
    assert rights(database, granted) == before


@pytest.mark.parametrize(
    "name",
    ['mean"; DROP SCHEMA poolsql CASCADE; --', "100%s %(role)s {table}", "Größe :name", "'quoted'", r"back\slash"],
)
def test_any_name_is_a_name(database: Database, new_role: NewRole, name: str) -> None:
    # A name may have 63 bytes, of which a random end makes 13.
    role = new_role(name=name)
    grant_runtime_rights(database, role.name)
    assert len(rights(database, role)) > len(TABLES)


@pytest.mark.parametrize(
    "name", ["", "nobody here", "public", "PUBLIC", "current_user", "pg_monitor", "a" * 64, "nul\0"]
)
def test_who_is_no_role_is_named(database: Database, name: str) -> None:
    before = run(database, "SELECT relname, relacl::text FROM pg_class ORDER BY 1")
    with pytest.raises(BadInputError, match="there is no role") as caught:
        grant_runtime_rights(database, name)
    assert repr(name) in str(caught.value)
    assert run(database, "SELECT relname, relacl::text FROM pg_class ORDER BY 1") == before


def test_a_name_in_the_wrong_case_is_understood(database: Database, new_role: NewRole) -> None:
    role = new_role()
    with pytest.raises(BadInputError, match=f"did you mean '{role.name}'"):
        grant_runtime_rights(database, role.name.upper())


def test_who_does_not_own_the_tables_cannot_grant(
    database: Database, limited: Database, granted: Role, new_role: NewRole
) -> None:
    role = new_role()
    owner = run(database, "SELECT current_user AS name")[0].name
    with pytest.raises(BadInputError, match=f"only the tables' owner '{owner}' or a superuser"):
        grant_runtime_rights(limited, role.name)
    assert rights(database, role) == []


def test_nothing_is_granted_when_one_grant_fails(
    database: Database, database_url: URL, opened: Open, new_role: NewRole
) -> None:
    owner, role = new_role(), new_role()
    foreign = f"foreign_{uuid4().hex[:8]}"
    # The owner of all but one table, so that a grant in the middle is refused.
    run(database, f"CREATE TABLE poolsql.{foreign} ()")
    try:
        run(database, f'GRANT USAGE ON SCHEMA poolsql TO "{owner.name}" WITH GRANT OPTION')
        for name in TABLES:
            run(database, f'ALTER TABLE poolsql.{name} OWNER TO "{owner.name}"')
        with pytest.raises(DatabaseError, match=f"permission denied for table {foreign}"):
            grant_runtime_rights(opened(owner.at(database_url)), role.name)
        assert rights(database, role) == []
    finally:
        run(database, f'REASSIGN OWNED BY "{owner.name}" TO CURRENT_USER')
        run(database, f'DROP OWNED BY "{owner.name}"')
        run(database, f"DROP TABLE poolsql.{foreign}")


def test_without_tables_there_is_nothing_to_grant(
    empty_database: Callable[[], URL], opened: Open, new_role: NewRole
) -> None:
    with pytest.raises(SchemaMismatchError, match="run: poolsql db upgrade"):
        grant_runtime_rights(opened(empty_database()), new_role().name)
