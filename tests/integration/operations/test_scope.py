"""What is asked of one pool or profile is not computed for all of the fleet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from poolsql.database.engine import Database
from poolsql.operations.pools import list_pools
from poolsql.operations.profiles import show_profile
from poolsql.operations.why import why
from tests.fixtures.fleets import Desk

ASKED: dict[str, Callable[[Desk], object]] = {
    "pool status": lambda desk: list_pools(desk.database, desk.pool.name),
    "profile show": lambda desk: show_profile(desk.database, str(desk.only)),
    "profile why": lambda desk: why(desk.database, str(desk.only)),
}


@pytest.mark.parametrize("asked", ASKED)
def test_only_the_pool_that_is_meant_is_judged(
    new_desk: Callable[..., Desk], monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    desk = new_desk(profiles=1)
    judged: list[Any] = []
    run = Database.run

    def noted(database: Database, statement: Any, parameters: Any, **options: Any) -> Any:
        if "judged" in statement.name:
            judged.append(parameters["pool_id"])
        return run(database, statement, parameters, **options)

    monkeypatch.setattr(Database, "run", noted)
    ASKED[asked](desk)
    assert judged == [desk.pool.id]
