"""The plans of checkout and reaping stay the same whatever the pool's size, and whatever there is more of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.flat import RARE, TAG
from benchmarks.fleets import BUSY, FILL
from benchmarks.reap import EXPIRE
from poolsql.database.statements import Statement
from poolsql.leasing.checkout import CHECKOUT, CHECKOUT_BY_TAG
from poolsql.leasing.line import LINE
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.reaper import BATCH, EXPIRE_FREE
from poolsql.leasing.reports import RELEASE, release_parameters
from poolsql.leasing.tickets import SERVE
from tests.fixtures.fleets import Desk, name_of
from tests.integration.leasing.lines import free_unannounced, stand
from tests.integration.leasing.test_plans import explain


def filled(new_desk: Callable[..., Desk], *, profiles: int, busy: int) -> Desk:
    """A pool that has the tables for itself."""
    desk = new_desk(profiles=0)
    for table in ("leases", "profile_tags", "profiles"):
        desk.execute(f"DELETE FROM poolsql.{table}")
    fill = FILL.replace("'benchmark'", ":launcher")
    desk.execute(fill, pool=desk.pool.id, name=desk.pool.name, profiles=profiles, launcher=desk.launcher)
    desk.execute(BUSY, pool=desk.pool.id, busy=busy, worker=desk.worker.id)
    return desk


VACUUM = "VACUUM (ANALYZE) poolsql.profiles, poolsql.leases, poolsql.profile_tags"


@pytest.mark.parametrize(("profiles", "busy"), [(2_000, 1_000), (20_000, 10_000), (20_000, 19_900)])
@pytest.mark.parametrize("floored", [False, True], ids=["at first", "above a floor"])
def test_a_checkout_takes_the_first_that_fits_and_sorts_nothing(
    new_desk: Callable[..., Desk], profiles: int, busy: int, floored: bool
) -> None:
    desk = filled(new_desk, profiles=profiles, busy=busy)
    desk.execute(VACUUM)
    floor = desk.one("SELECT min(available_at) AS first FROM poolsql.profiles").first if floored else None
    plan = explain(desk.database, CHECKOUT, {**desk.request().parameters(desk.worker), "floor": floor})
    (offered, *_) = plan.reading("profiles")
    assert offered.get("Index Name") == "profiles_offer_idx", offered
    assert not [node for node in plan.nodes if node["Node Type"] in {"Sort", "Incremental Sort"}]
    assert plan.rows_read("profiles") <= 10


def test_a_rare_tag_is_looked_up_by_the_tag_where_all_carry_another(new_desk: Callable[..., Desk]) -> None:
    desk = filled(new_desk, profiles=20_000, busy=0)
    desk.execute(TAG, pool=desk.pool.id, one_in=1000, rare=RARE)
    desk.execute(VACUUM)
    parameters = desk.request(tags=(RARE,)).parameters(desk.worker)
    plan = explain(desk.database, CHECKOUT_BY_TAG, {**parameters, "rare_tag": RARE})
    assert not [node for node in plan.nodes if node.get("Index Name") == "profiles_offer_idx"]
    assert plan.rows_read("profiles") <= 30


def test_a_batch_of_expired_leases_reads_its_own_profiles_only(new_desk: Callable[..., Desk]) -> None:
    desk = filled(new_desk, profiles=30_000, busy=30_000)
    desk.execute(EXPIRE, pool=desk.pool.id)
    desk.execute(VACUUM)
    plan = explain(desk.database, EXPIRE_FREE, {"dead_workers": [], "batch": BATCH, **LINE})
    assert plan.nodes[0]["Actual Rows"] == BATCH
    assert plan.rows_read("profiles") <= 10 * BATCH
    assert plan.rows_read("leases") <= 10 * BATCH
    # Nobody compares each lease of the batch with each.
    compared = sum(node.get("Rows Removed by Join Filter", 0) * node["Actual Loops"] for node in plan.nodes)
    assert compared <= 10 * BATCH


STAND_BEHIND = """
INSERT INTO poolsql.waiters (
    request_id, pool_id, worker_id, machine, listens, tags, without_tags, criteria, rank, arrived_at, gives_up_at
)
SELECT gen_random_uuid(), pool_id, worker_id, machine, true, tags, without_tags, criteria,
    rank + make_interval(secs => number), arrived_at, gives_up_at
FROM poolsql.waiters, generate_series(1, :behind) AS number
"""
ANALYZE = "ANALYZE poolsql.waiters"
BELIEFS = {"nothing": (), "it is empty": ("before",), "it is full": ("after",)}


@pytest.mark.usefixtures("no_looks")
@pytest.mark.parametrize("statement", [RELEASE, SERVE], ids=["release", "look"])
@pytest.mark.parametrize("believed", BELIEFS)
@pytest.mark.parametrize("behind", [20, 200, 20_000])
def test_who_is_first_in_the_line_is_found_without_looking_at_all_others(
    new_desk: Callable[..., Desk], behind: int, believed: str, statement: Statement
) -> None:
    """Whatever the planner believes of a table that is empty at one moment and full at the next."""
    desk = new_desk()
    desk.execute("TRUNCATE poolsql.waiters")
    if "before" in BELIEFS[believed]:
        desk.execute(ANALYZE)
    leased = desk.granted()
    wait = stand(desk)
    desk.execute(STAND_BEHIND, behind=behind)
    if "after" in BELIEFS[believed]:
        desk.execute(ANALYZE)
    if statement is SERVE:
        free_unannounced(desk, leased)
        parameters = desk.request().parameters(desk.worker, in_line=True)
    else:
        parameters = release_parameters(name_of(leased), outcome=Outcome.SUCCESS)
    plan = explain(desk.database, statement, parameters)
    (line, *_) = [node for node in plan.reading("waiters") if "NULLIF" in node.get("Filter", "")]
    assert line["Node Type"] == "Index Scan"
    assert (line["Actual Rows"], line["Rows Removed by Filter"]) == (1, 0)
    assert any(node.get("Relation Name") == "leases" and node.get("Operation") == "Insert" for node in plan.nodes)
    wait.leave_line()
