"""The keeper with fake leases: who is renewed, who is lost, and that no surprise ends its thread (I6, I10)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest

from poolsql.clocks import elapsed_clock
from poolsql.database.engine import Database
from poolsql.errors import DatabaseUnavailableError
from poolsql.leasing import keeper
from poolsql.leasing.keeper import Keeper
from poolsql.leasing.reports import LeaseName
from poolsql.leasing.worker import Worker
from tests.fixtures.conditions import until


@dataclass
class FakeLease:
    """What the keeper needs of a lease."""

    renew_every: float = 0.02
    trusted_until: float = field(default_factory=lambda: elapsed_clock() + 60)
    name: LeaseName = field(default_factory=lambda: LeaseName(uuid4().int % 2**60, uuid4()))
    renewals: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    surprise: Exception | None = None

    def renewed(self, row: Any, *, asked_at: float) -> None:
        assert row.lease_id == self.name.lease_id
        self.renewals.append(asked_at)

    def lose(self, reason: str) -> None:
        self.reasons.append(reason)
        if self.surprise is not None:
            raise self.surprise


class FakeRenewal:
    """Renews all leases but those that are gone; fails when it is told to."""

    def __init__(self) -> None:
        self.asked: list[set[int]] = []
        self.gone: set[int] = set()
        self.error: Exception | None = None

    def __call__(
        self, database: Database, worker: Worker, names: Sequence[LeaseName], *, patience: float
    ) -> dict[int, Any]:
        self.asked.append({name.lease_id for name in names})
        if self.error is not None:
            raise self.error
        ids = {name.lease_id for name in names} - self.gone
        return {lease_id: SimpleNamespace(lease_id=lease_id) for lease_id in ids}


@pytest.fixture
def renewal(monkeypatch: pytest.MonkeyPatch) -> FakeRenewal:
    made = FakeRenewal()
    monkeypatch.setattr(keeper, "renew", made)
    monkeypatch.setattr(keeper, "RETRY_SECONDS", 0.02)
    return made


@pytest.fixture
def kept(renewal: FakeRenewal) -> Iterator[Keeper]:
    worker = Worker(machine="here", pid=1, process_started="", version="")
    made = Keeper(cast("Database", None), worker)
    yield made
    made.close()
    assert "poolsql-keeper" not in {thread.name for thread in threading.enumerate()}


def test_nothing_runs_while_there_is_no_lease(kept: Keeper, renewal: FakeRenewal) -> None:
    assert kept._thread is None
    kept.renew_now()
    assert renewal.asked == []


def test_all_leases_are_renewed_together_again_and_again(kept: Keeper, renewal: FakeRenewal) -> None:
    leases = [FakeLease() for _ in range(3)]
    for lease in leases:
        kept.keep(lease)
    until(lambda: all(len(lease.renewals) >= 3 for lease in leases))
    assert renewal.asked[-1] == {lease.name.lease_id for lease in leases}


def test_a_forgotten_lease_is_not_renewed_any_more(kept: Keeper, renewal: FakeRenewal) -> None:
    lease, other = FakeLease(), FakeLease()
    kept.keep(lease)
    kept.keep(other)
    kept.forget(lease)
    seen = len(renewal.asked)
    until(lambda: len(renewal.asked) >= seen + 3)
    assert all(lease.name.lease_id not in asked for asked in renewal.asked[seen:])
    assert lease.reasons == []


def test_a_lease_that_is_gone_is_lost_once_and_the_others_go_on(kept: Keeper, renewal: FakeRenewal) -> None:
    lease, other = FakeLease(), FakeLease()
    renewal.gone = {lease.name.lease_id}
    kept.keep(other)
    kept.keep(lease)
    until(lambda: lease.reasons)
    renewals = len(other.renewals)
    until(lambda: len(other.renewals) >= renewals + 2)
    assert lease.reasons == ["the database no longer knows it as live"]
    assert other.reasons == []


@pytest.mark.parametrize("error", [DatabaseUnavailableError("away"), ValueError("surprise")])
def test_a_failed_renewal_is_tried_again_i10(kept: Keeper, renewal: FakeRenewal, error: Exception) -> None:
    lease = FakeLease()
    renewal.error = error
    kept.keep(lease)
    until(lambda: len(renewal.asked) >= 3)
    assert lease.reasons == []
    renewal.error = None
    until(lambda: lease.renewals)


def test_a_lease_without_an_answer_is_lost_when_it_cannot_be_trusted_any_more_i6(
    kept: Keeper, renewal: FakeRenewal
) -> None:
    renewal.error = DatabaseUnavailableError("away")
    short = FakeLease(trusted_until=elapsed_clock() + 0.1)
    long = FakeLease()
    kept.keep(long)
    kept.keep(short)
    until(lambda: short.reasons)
    assert short.trusted_until <= elapsed_clock()
    assert short.reasons == ["it could not be renewed in time"]
    assert long.reasons == []


def test_a_lease_that_surprises_when_it_is_lost_does_not_end_the_thread_i10(kept: Keeper, renewal: FakeRenewal) -> None:
    bad, distrusted, other = (FakeLease(surprise=RuntimeError("no more threads")) for _ in range(3))
    distrusted.trusted_until = elapsed_clock() + 0.05
    renewal.gone = {bad.name.lease_id}
    for lease in (bad, distrusted, other):
        kept.keep(lease)
    until(lambda: bad.reasons and distrusted.reasons)
    renewals = len(other.renewals)
    until(lambda: len(other.renewals) > renewals)
    assert other.reasons == []


def test_closing_tells_every_holder_even_if_one_surprises_i10(kept: Keeper, renewal: FakeRenewal) -> None:
    leases = [FakeLease(surprise=RuntimeError("no more threads")), FakeLease()]
    for lease in leases:
        kept.keep(lease)
    thread = kept._thread
    assert thread is not None
    kept.close()
    assert not thread.is_alive()
    assert [lease.reasons for lease in leases] == [[keeper.CLOSED]] * 2
    late = FakeLease()
    kept.keep(late)
    assert late.reasons == [keeper.CLOSED], "nobody would renew it"


def test_a_lease_in_doubt_is_asked_for_at_once(kept: Keeper, renewal: FakeRenewal) -> None:
    lease = FakeLease(renew_every=60, trusted_until=elapsed_clock())
    kept.keep(lease)
    until(lambda: lease.reasons or lease.renewals)
    assert renewal.asked, "long before its next renewal was due"
