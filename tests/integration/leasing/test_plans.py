"""EXPLAIN guards: the hot statements stay flat at 100,000 profiles, 90 % of them cooling, on the *generic* plan.

The generic plan is what runs: `plan_cache_mode` is forced on every connection of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.leasing.checkout import CHECKOUT, CHECKOUT_BY_TAG, CHECKOUT_NAMED, CLAIM, Grant
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.rare_tags import rare_tag
from poolsql.leasing.reaper import CLAIM_RECLAIM, EXPIRE_FREE, EXPIRE_STARTED, FINISH_RECLAIM
from poolsql.leasing.reports import (
    BROWSER_STARTING,
    LOOK,
    PLAIN_SUCCESS,
    RECORD_VISIT,
    RELEASE,
    RENEW,
    Visit,
    release_parameters,
)
from tests.fixtures.fleets import Desk, name_of

PROFILES = 100_000

FILL = """
INSERT INTO poolsql.profiles (pool_id, launcher_id, key, tags, available_at)
SELECT :pool, launchers.id, 'big-' || number,
    CASE WHEN number % 1000 = 0 THEN '{even,rare}' WHEN number % 2 = 0 THEN '{even}' ELSE '{odd}' END::text[],
    clock_timestamp() + make_interval(secs => CASE WHEN number % 10 = 0 THEN -number ELSE number END)
FROM poolsql.launchers, generate_series(1, :profiles) AS number
WHERE launchers.name = :launcher;
INSERT INTO poolsql.profile_tags (tag, profile_id)
SELECT tag, id FROM poolsql.profiles CROSS JOIN unnest(tags) AS tag WHERE pool_id = :pool;
INSERT INTO poolsql.cooldowns (profile_id, host, until, in_a_row, outcome, set_at)
SELECT id, 'host-' || id % 200, now() + interval '1 hour', 1, 'blocked', now() FROM poolsql.profiles WHERE id % 3 = 0;
INSERT INTO poolsql.attempts (
    lease_id, token, profile_id, pool_id, launcher_id, worker_id, outcome, blames, counted, ended_by, started_at,
    ended_at, browser_started, visits
)
SELECT -id, gen_random_uuid(), id, pool_id, launcher_id, gen_random_uuid(), 'success', 'nobody', false, 'holder',
    now() - interval '1 day', now() - interval '1 hour', false, 1
FROM poolsql.profiles;
INSERT INTO poolsql.visits (
    lease_id, profile_id, pool_id, launcher_id, worker_id, outcome, blames, started_at, ended_at
)
SELECT lease_id, profile_id, pool_id, launcher_id, worker_id, outcome, blames, started_at, ended_at
FROM poolsql.attempts;
INSERT INTO poolsql.hosts (name) SELECT 'host-' || number FROM generate_series(1, 20000) AS number
"""

BIG = {"profiles", "profile_tags", "cooldowns", "attempts", "visits", "hosts"}
"""Tables that grow with the fleet or its history: no hot statement may read one from end to end."""


@pytest.fixture(scope="module")
def filled() -> list[Desk]:
    """The one desk of this module, once it is made."""
    return []


@pytest.fixture
def big(filled: list[Desk], new_desk: Callable[..., Desk]) -> Desk:
    """A pool of 100,000 profiles with a history."""
    if not filled:
        desk = new_desk(profiles=0)
        for statement in FILL.split(";"):
            named = {"pool": desk.pool.id, "launcher": desk.launcher, "profiles": PROFILES}
            desk.execute(statement, **{name: value for name, value in named.items() if f":{name}" in statement})
        desk.execute("VACUUM (ANALYZE)")
        filled.append(desk)
    return filled[0]


class Plan:
    """How Postgres ran a statement."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.nodes = list(_walk(root["Plan"]))
        self.buffers = root["Plan"]["Shared Hit Blocks"] + root["Plan"]["Shared Read Blocks"]

    def reading(self, table: str) -> list[Mapping[str, Any]]:
        """The nodes that read a table."""
        return [node for node in self.nodes if node.get("Relation Name") == table and "Scan" in node["Node Type"]]

    @property
    def read_from_end_to_end(self) -> set[str]:
        """Tables that were read without an index."""
        return {node["Relation Name"] for node in self.nodes if node["Node Type"] == "Seq Scan"}

    def rows_read(self, table: str) -> int:
        """Rows of a table that were looked at, those that did not fit included."""
        return sum(
            int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
            for node in self.reading(table)
        )


def _walk(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from _walk(child)


def explain(database: Database, statement: Statement, parameters: Mapping[str, Any]) -> Plan:
    """Run a statement's generic plan under EXPLAIN ANALYZE; whatever it did is rolled back."""
    guarded = sql.Identifier(f"guarded_{uuid4().hex}")
    values = sql.SQL(", ").join(sql.Literal(value) for value in statement.in_order(parameters))
    pooled = database.engine.raw_connection()
    connection = cast("psycopg.Connection[Any]", pooled.driver_connection)
    try:
        assert connection.execute("SHOW plan_cache_mode").fetchone() == ("force_generic_plan",)
        with connection.transaction(force_rollback=True):
            connection.execute(sql.SQL("PREPARE {} AS ").format(guarded) + sql.SQL(statement.numbered.decode()))
            row = connection.execute(
                sql.SQL("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {} ({})").format(guarded, values)
            ).fetchone()
        assert row is not None
        return Plan(row[0][0])
    finally:
        pooled.close()


ASKED: dict[str, dict[str, Any]] = {
    "anything": {},
    "for a host": {"host": "host-7"},
    "for an unknown host": {"host": "nobody.test"},
    "with a common tag": {"tags": ("even",)},
    "for a host with a tag": {"host": "host-8", "tags": ("even",)},
}


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED.keys())
def test_a_checkout_reads_a_handful_of_rows_of_100_000(big: Desk, asked: dict[str, Any]) -> None:
    plan = explain(big.database, CHECKOUT, big.request(**asked).parameters(big.worker))
    (offered, *_) = plan.reading("profiles")
    assert offered.get("Index Name") == "profiles_offer_idx", offered
    assert not [node for node in plan.nodes if node["Node Type"] in {"Sort", "Incremental Sort", "Hash Join"}]
    assert plan.read_from_end_to_end & BIG == set()
    assert plan.rows_read("profiles") <= 10
    assert plan.buffers <= 150
    assert any(node["Node Type"] == "ModifyTable" and node["Actual Rows"] == 1 for node in plan.nodes), "it found one"


def test_a_named_profile_is_looked_up_by_its_id(big: Desk) -> None:
    (named,) = big.all(
        "SELECT id FROM poolsql.profiles WHERE pool_id = :pool AND available_at < now() "
        "ORDER BY available_at DESC LIMIT 1",
        pool=big.pool.id,
    )
    plan = explain(big.database, CHECKOUT_NAMED, big.request(profile_id=named.id).parameters(big.worker))
    assert plan.read_from_end_to_end & BIG == set()
    assert plan.rows_read("profiles") <= 3
    assert any(node["Node Type"] == "ModifyTable" and node["Actual Rows"] == 1 for node in plan.nodes), "it found one"


def test_a_tag_that_few_carry_is_looked_up_by_tag(big: Desk) -> None:
    request = big.request(tags=("even", "rare"))
    tag = rare_tag(big.database, request.tags)
    assert tag == "rare"
    plan = explain(big.database, CHECKOUT_BY_TAG, {**request.parameters(big.worker), "rare_tag": tag})
    assert plan.read_from_end_to_end & BIG == set()
    assert plan.rows_read("profiles") <= 110
    assert any(node["Node Type"] == "ModifyTable" and node["Actual Rows"] == 1 for node in plan.nodes), "it found one"


def test_a_checkout_that_finds_nothing_does_not_read_what_cools(big: Desk, new_desk: Callable[..., Desk]) -> None:
    other = new_desk(profiles=3)
    for _ in other.profile_ids:
        other.go(Outcome.BLOCKED)
    plan = explain(big.database, CHECKOUT, other.request().parameters(other.worker))
    assert plan.rows_read("profiles") == 0
    assert plan.buffers <= 30


@pytest.fixture
def granted(big: Desk) -> Iterator[Grant]:
    """A live lease in the big pool."""
    lease = big.granted(host="host-7")
    yield lease
    big.execute("DELETE FROM poolsql.leases WHERE id = :id", id=lease.lease_id)
    big.execute("UPDATE poolsql.profiles SET available_at = '2000-01-01' WHERE id = :id", id=lease.profile.id)


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.CAPTCHA, Outcome.RATE_LIMITED, Outcome.PROXY_FAILED])
@pytest.mark.parametrize("kind", ["plain success", "release", "visit"])
def test_a_report_looks_everything_up_by_key(big: Desk, granted: Grant, kind: str, outcome: Outcome) -> None:
    named = {"lease_id": granted.lease_id, "token": granted.token}
    if kind != "visit":
        statement = RELEASE if kind == "release" else PLAIN_SUCCESS
        parameters = release_parameters(name_of(granted), outcome=outcome, stop_rung="term")
    else:
        statement, parameters = RECORD_VISIT, {**named, **Visit(outcome=outcome).parameters(), "number": 0}
    plan = explain(big.database, statement, parameters)
    assert plan.read_from_end_to_end & BIG == set()
    assert plan.rows_read("profiles") <= 10
    assert plan.rows_read("attempts") <= 20
    assert plan.buffers <= 300


@pytest.mark.parametrize("statement", [RENEW, LOOK, CLAIM, BROWSER_STARTING], ids=repr)
def test_a_question_about_a_lease_looks_everything_up_by_key(big: Desk, granted: Grant, statement: Statement) -> None:
    parameters = {
        "lease_id": granted.lease_id,
        "token": granted.token,
        "lease_ids": [granted.lease_id],
        "tokens": [granted.token],
        "worker_id": big.worker.id,
        "request_id": uuid4(),
        "browser": "{}",
        "machine": "here",
        "directory": "/data/1",
    }
    plan = explain(big.database, statement, parameters)
    assert plan.read_from_end_to_end & BIG == set()
    assert plan.buffers <= 60


@pytest.mark.parametrize("browser", [False, True], ids=["without a browser", "with one"])
def test_the_reaper_looks_everything_up_by_key(big: Desk, granted: Grant, browser: bool) -> None:
    if browser:
        big.start_browser(granted)
    big.expire(granted.lease_id)
    due = {"dead_workers": [big.worker.id], "batch": 500, **LINE}
    steps: list[tuple[Statement, dict[str, Any]]] = [(EXPIRE_FREE, due)]
    if browser:
        end = {"lease_id": granted.lease_id, "token": granted.token, "stop_rung": "term", **LINE}
        steps = [
            (EXPIRE_STARTED, due),
            (CLAIM_RECLAIM, {"machine": "here", "claim_seconds": 30.0}),
            (FINISH_RECLAIM, end),
        ]
    for statement, parameters in steps:
        plan = explain(big.database, statement, parameters)
        assert plan.nodes[0]["Actual Rows"] == 1, statement
        assert plan.read_from_end_to_end & BIG == set(), statement
        assert plan.buffers <= 300, statement
        big.database.run(statement, parameters)
    big.execute("UPDATE poolsql.profiles SET available_at = '2000-01-01' WHERE id = :id", id=granted.profile.id)
