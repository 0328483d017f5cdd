"""What breaks around a daemon while it works: it goes on with all that can go on."""

from __future__ import annotations

import pytest

from tests.acceptance.daemons import Daemons, hosts, job, pool_of
from tests.fixtures.conditions import until
from tests.sites.numbered import NumberedSite


def test_a_driver_that_was_killed_is_replaced(daemons: Daemons, numbered: NumberedSite) -> None:
    pages = [numbered.held(number) for number in range(4)]
    retries = '{ default = 3, delay = "1s" }'
    daemons.apply(pool_of(2, hold="1s"), hosts(numbered.host), job("pages", pages, concurrency="2", retries=retries))
    daemons.fire("pages")
    daemon = daemons.start()
    until(lambda: numbered.held_now == 2, seconds=60)
    drivers = daemons.home.drivers()
    for driver in drivers:
        driver.kill()
    daemon.killed = True  # in part: the driver's temporary files stay
    daemon.line_with("starting another")
    numbered.let_go()
    daemons.wait_until_over()
    daemons.check_results(4)
    assert not set(drivers) & set(daemons.home.drivers())
    until(lambda: not daemons.leases(), seconds=30)
    daemons.end(daemon)
    daemons.check_nothing_held()


def test_a_handler_that_cannot_be_imported_stops_only_its_own_run(
    daemons: Daemons, numbered: NumberedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = daemons.directory / "handlers_of_a_user.py"
    handlers.write_text("async def take(session, task):\n    return {'title': await session.page.title()}\n")
    mine = '"handlers_of_a_user:take"'
    monkeypatch.syspath_prepend(daemons.directory)  # `apply` looks whether it can be imported
    daemons.apply(
        pool_of(2),
        hosts(numbered.host),
        job("broken", [numbered.page(1)], handler=mine),
        job("whole", [numbered.page(2)]),
    )
    broken, whole = daemons.fire("broken"), daemons.fire("whole")
    without = daemons.start()
    daemon_note = "SELECT state, detail FROM poolsql.runs WHERE id = :id"
    until(lambda: daemons.one(daemon_note, id=whole).state == "done", seconds=60)
    run = daemons.one(daemon_note, id=broken)
    assert run.state == "running", "another machine may have the handler"
    assert "handlers_of_a_user" in run.detail
    assert run.detail.startswith("on here: ")
    with_handler = daemons.start(PYTHONPATH=str(daemons.directory))
    until(lambda: daemons.one(daemon_note, id=broken).state == "done", seconds=60)
    assert [task.result["title"] for task in daemons.tasks()] == ["Page 1", "Page 2"]
    daemons.end(without, with_handler)
    daemons.check_nothing_held()
