"""The line of one pool, in the hands of tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from poolsql.leasing.checkout import Grant
from poolsql.leasing.waiting import Wait
from tests.fixtures.fleets import Desk


def stand(desk: Desk, *, wait: float = 60, **asked: Any) -> Wait:
    """A checkout that waits in the line, as one whose worker is told at once."""
    made = desk.wait(wait=wait, **asked)
    assert made.try_once() is None
    made.stand_in_line()
    return made


def served(waits: dict[str, Wait]) -> dict[str, Grant]:
    """Those that were handed a lease, by their names."""
    tell(waits.values())
    granted = {name: wait.try_once() for name, wait in waits.items()}
    return {name: grant for name, grant in granted.items() if grant is not None}


def tell(waits: Iterable[Wait]) -> None:
    """Tell them, as the presence connection does; here everybody."""
    for wait in waits:
        wait._tickets.call(wait._request.id)


def lines(desk: Desk) -> list[Any]:
    """The tickets of a pool by rank."""
    return desk.all("SELECT * FROM poolsql.waiters WHERE pool_id = :pool ORDER BY rank, id", pool=desk.pool.id)


def free_unannounced(desk: Desk, granted: Grant) -> None:
    """Let a profile come back without a hand-over, as after a cooldown."""
    desk.execute("DELETE FROM poolsql.leases WHERE id = :id", id=granted.lease_id)
    desk.execute("UPDATE poolsql.profiles SET available_at = clock_timestamp() WHERE id = :id", id=granted.profile.id)
