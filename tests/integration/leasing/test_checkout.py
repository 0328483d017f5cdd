"""Checkout: exclusive (I1), in one statement, longest available first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poolsql.errors import LeaseLostError
from tests.fixtures.fleets import Desk

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def test_a_leased_profile_is_not_offered(desk: Desk) -> None:
    desk.lease()
    assert desk.grant() is None


def test_the_longest_available_profile_comes_first(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=3)
    first = desk.lease()
    first.release()
    assert desk.lease().profile.id != first.profile.id


def test_a_released_lease_is_refused_when_checked(desk: Desk) -> None:
    lease = desk.lease()
    lease.release()
    with pytest.raises(LeaseLostError, match="released"):
        lease.check()
