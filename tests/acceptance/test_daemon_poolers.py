"""Daemons behind PgBouncer in transaction mode: from the tables to the results, also when it is started anew."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from tests.acceptance.daemons import PATIENT, Daemons, hosts, job, pool_of
from tests.fixtures.conditions import until
from tests.fixtures.databases import Role, address_of
from tests.fixtures.poolers import NewPooler, PgBouncer
from tests.fixtures.programs import program_home
from tests.sites.numbered import NumberedSite

TASKS = 6


@pytest.fixture
def pooler(new_pooler: NewPooler) -> PgBouncer:
    """Before the module's database."""
    return new_pooler()


@pytest.mark.slow
@pytest.mark.parametrize("direct", [True, False], ids=["with a direct address", "without"])
def test_a_run_goes_through_while_the_pooler_is_killed_and_started(
    direct: bool, daemons: Daemons, numbered: NumberedSite, pooler: PgBouncer
) -> None:
    through = {"POOLSQL_DATABASE_URL": address_of(pooler.at(daemons.url))}
    if direct:
        through["POOLSQL_DIRECT_DATABASE_URL"] = address_of(daemons.url)
    given = daemons.run("db", "settings", **through)
    assert given.wait(seconds=60) == 0, given.output
    pooler.make_connections_anew()
    pages = [numbered.held(number) for number in range(TASKS)]
    file = daemons.write(pool_of(2, **PATIENT), hosts(numbered.host), job("pages", pages, concurrency="2"))
    applied = daemons.run("apply", str(file), **through)
    assert applied.wait(seconds=60) == 0, applied.output
    daemons.fire("pages")
    first, second = (daemons.start(working=True, **through) for _ in range(2))
    until(lambda: numbered.held_now == 2, seconds=60)
    before = {lease.id for lease in daemons.leases()}

    pooler.kill()
    numbered.let_go()
    pooler.start()
    daemons.wait_until_over()

    listed = daemons.run("worker", "list", "--json", **through)
    assert listed.wait(seconds=60) == 0, listed.output
    lines = json.loads(listed.output)
    assert [line["present"] for line in lines] == [True if direct else None] * 2
    until(lambda: not daemons.leases(), seconds=60)
    daemons.end(first, second)
    daemons.check_results(TASKS)
    daemons.check_nothing_held()
    daemons.check_signed_off()
    attempts = daemons.attempts()
    assert {attempt.outcome for attempt in attempts} == {"success"}
    assert before <= {attempt.lease_id for attempt in attempts}
    for daemon in (first, second):
        assert daemon.output.count("presence is off") == (0 if direct else 1)
        assert "upkeep is off" not in daemon.output


def test_the_way_from_nothing(
    new_pooler: NewPooler, database_url: URL, database: Database, new_role: Callable[..., Role]
) -> None:
    """A role that only reaches the server through the pooler learns what it needs, step by step."""
    role = new_role()
    pooler = new_pooler(role)
    with database.connect() as connection:
        connection.execute(
            text(f'ALTER ROLE "{role.name}" IN DATABASE "{database_url.database}" SET timezone = \'Asia/Tokyo\'')
        )
    through = {"POOLSQL_DATABASE_URL": address_of(pooler.at(role.at(database_url)))}
    owner = {"POOLSQL_DATABASE_URL": address_of(database_url)}
    with program_home() as home:

        def answer(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
            program = home.start(*arguments, **environment)
            assert program.wait(seconds=60) == code, program.output
            return program.output

        answer(owner, "db", "grant", role.name)
        told = answer(through, "daemon", code=3)
        assert "timezone is 'Asia/Tokyo' instead of 'UTC'" in told
        assert "run: poolsql db settings" in told
        assert answer(through, "db", "settings", "--dry-run").count("ALTER ROLE") == 10
        assert "RECONNECT" in answer(through, "db", "settings")
        assert "the pooler's sessions are older" in answer(through, "pool", "status", code=3)
        pooler.make_connections_anew()
        assert answer(through, "worker", "list") == "no workers"
        # Nothing to do, and nothing that somebody without the right to do it has to do.
        assert "at revision" in answer(through, "db", "upgrade")
