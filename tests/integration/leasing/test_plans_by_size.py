"""The plan of a checkout stays the same whatever the pool's size: it takes the first that fits, and sorts nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.fleets import BUSY, FILL
from poolsql.leasing.checkout import CHECKOUT
from tests.fixtures.fleets import Desk
from tests.integration.leasing.test_plans import explain


@pytest.mark.parametrize(("profiles", "busy"), [(2_000, 1_000), (20_000, 10_000), (20_000, 19_900)])
def test_a_checkout_takes_the_first_that_fits_and_sorts_nothing(
    new_desk: Callable[..., Desk], profiles: int, busy: int
) -> None:
    desk = new_desk(profiles=0)
    for statement in ("leases", "profile_tags", "profiles"):
        desk.execute(f"DELETE FROM poolsql.{statement}")
    fill = FILL.replace("'benchmark'", ":launcher")
    desk.execute(fill, pool=desk.pool.id, name=desk.pool.name, profiles=profiles, launcher=desk.launcher)
    desk.execute(BUSY, pool=desk.pool.id, busy=busy, worker=desk.worker.id)
    desk.execute("VACUUM (ANALYZE) poolsql.profiles, poolsql.leases")
    plan = explain(desk.database, CHECKOUT, desk.request().parameters(desk.worker))
    (offered, *_) = plan.reading("profiles")
    assert offered.get("Index Name") == "profiles_offer_idx", offered
    assert not [node for node in plan.nodes if node["Node Type"] in {"Sort", "Incremental Sort"}]
    assert plan.rows_read("profiles") <= 10
