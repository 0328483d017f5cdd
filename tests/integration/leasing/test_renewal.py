"""Renewal: all leases of a worker in one statement; only what is live (I2), never beyond the longest time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest

from poolsql.errors import LeaseLostError
from poolsql.leasing.reports import RENEW, LeaseName, begin_reclaim, renew
from tests.fixtures.fleets import Desk, FaultyDatabase, name_of

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_a_renewal_moves_the_end_by_the_time_of_the_lease(desk: Desk) -> None:
    granted = desk.granted()
    desk.expire(granted.lease_id)
    row = renew(desk.database, desk.worker, [name_of(granted)], patience=1)[granted.lease_id]
    assert row.remaining == pytest.approx(90, abs=1)
    assert desk.lease_row(granted.lease_id).expires_at == row.expires_at


def test_a_renewal_never_passes_the_longest_time(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(ttl="60s", renew="20s", max_lease="60s")
    granted = desk.granted()
    row = renew(desk.database, desk.worker, [name_of(granted)], patience=1)[granted.lease_id]
    assert row.expires_at == granted.deadline_at
    assert row.remaining < 60


def test_a_changed_pool_does_not_change_the_time_of_a_lease(desk: Desk) -> None:
    granted = desk.granted()
    desk.execute("UPDATE poolsql.pools SET ttl = interval '10 seconds' WHERE id = :id", id=desk.pool.id)
    row = renew(desk.database, desk.worker, [name_of(granted)], patience=1)[granted.lease_id]
    assert row.remaining == pytest.approx(90, abs=1)


def test_all_leases_of_a_worker_are_renewed_by_one_statement(
    new_desk: Callable[..., Desk], faulty: FaultyDatabase
) -> None:
    desk = new_desk(profiles=4)
    granted = [desk.granted() for _ in desk.profile_ids]
    rows = renew(faulty, desk.worker, [name_of(each) for each in granted], patience=1)
    assert set(rows) == {each.lease_id for each in granted}
    assert faulty.ran == [RENEW]


def test_a_renewal_tells_the_live_leases_from_the_lost_ones_i2(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=4)
    live, released, reaped, given_up = (desk.granted() for _ in range(4))
    desk.release(released)
    desk.start_browser(given_up)
    begin_reclaim(desk.database, name_of(given_up), detail="it froze", patience=1)
    desk.reap(reaped.lease_id)
    rows = renew(desk.database, desk.worker, [name_of(each) for each in (live, released, reaped)], patience=1)
    assert set(rows) == {live.lease_id}
    for lost in (released, reaped):
        assert desk.refused(lost.lease_id) == [("renew", None, None, desk.worker.id)]
    assert desk.refused(live.lease_id) == []


def test_a_late_renewal_is_refused_and_recorded_and_changes_nothing_i2(desk: Desk) -> None:
    granted = desk.granted()
    desk.start_browser(granted, machine="here")
    desk.expire(granted.lease_id)
    desk.reaper(machine="elsewhere").run_once()
    before = desk.picture()
    assert renew(desk.database, desk.worker, [name_of(granted)], patience=1) == {}
    assert desk.picture() == before
    assert [report.kind for report in desk.refused(granted.lease_id)] == ["renew"]


@pytest.mark.parametrize("end", ["held", "released"])
def test_a_foreign_token_renews_nothing_and_is_not_even_recorded_i2(desk: Desk, end: str) -> None:
    granted = desk.granted()
    if end == "released":
        desk.release(granted)
    before = desk.picture()
    assert renew(desk.database, desk.worker, [LeaseName(granted.lease_id, uuid4())], patience=1) == {}
    assert renew(desk.database, desk.worker, [LeaseName(2**62, uuid4())], patience=1) == {}
    assert desk.picture() == before
    assert desk.refused(granted.lease_id) == desk.refused(2**62) == []


def test_an_expired_lease_that_nobody_has_reaped_is_live_i6(desk: Desk) -> None:
    lease = desk.lease()
    desk.expire(lease.id)
    lease.renew()
    assert desk.reaper().run_once().expired == 0
    assert lease.expires_at == desk.lease_row(lease.id).expires_at


def test_a_lease_beyond_its_longest_time_is_not_renewed_i2(desk: Desk) -> None:
    lease = desk.lease()
    desk.execute("UPDATE poolsql.leases SET deadline_at = clock_timestamp() WHERE id = :id", id=lease.id)
    with pytest.raises(LeaseLostError, match="no longer knows it as live"):
        lease.renew()
    assert lease.lost is not None
    with pytest.raises(LeaseLostError, match="is lost"):
        lease.check()


def test_a_lost_lease_stays_lost(desk: Desk) -> None:
    lease = desk.lease()
    desk.reap(lease.id)
    for _ in range(2):
        with pytest.raises(LeaseLostError, match="is lost"):
            lease.renew()
    assert [report.kind for report in desk.refused(lease.id)] == ["renew"], "asked once"


def test_a_released_lease_cannot_be_renewed_i2(desk: Desk) -> None:
    lease = desk.lease()
    lease.release()
    with pytest.raises(LeaseLostError, match="was released before"):
        lease.renew()
    assert desk.refused(lease.id) == []


def test_a_renewal_is_a_small_update_in_place(desk: Desk) -> None:
    """`expires_at` is in no index, or each renewal would write to all of them (no HOT update)."""
    indexed = desk.all(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) "
        "WHERE i.indrelid = 'poolsql.leases'::regclass"
    )
    assert {row.attname for row in indexed} == {"id", "request_id", "profile_id", "worker_id"}


def test_renewing_again_and_again_moves_nothing_but_the_end(desk: Desk) -> None:
    lease = desk.lease()
    before = desk.lease_row(lease.id)
    for _ in range(3):
        lease.renew()
    after = desk.lease_row(lease.id)
    assert after.expires_at > before.expires_at
    assert after.expires_at - before.expires_at < timedelta(seconds=10)
    assert after._asdict() | {"expires_at": None} == before._asdict() | {"expires_at": None}
