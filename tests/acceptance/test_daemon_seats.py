"""Jobs that ask for more browsers than the machine is to run, all at once."""

from __future__ import annotations

import pytest

from tests.acceptance.daemons import Daemons, hosts, job, pool_of
from tests.fixtures.conditions import until
from tests.sites.numbered import NumberedSite

MOST = 2
TASKS = 5


@pytest.mark.slow
def test_two_jobs_of_ten_browsers_share_two(daemons: Daemons, numbered: NumberedSite) -> None:
    urls = [numbered.page(number, seconds=0.3) for number in range(2 * TASKS)]
    daemons.apply(
        pool_of(20),
        hosts(numbered.host),
        job("first", urls[:TASKS], concurrency="10"),
        job("second", urls[TASKS:], concurrency="10"),
    )
    runs = [daemons.fire("first"), daemons.fire("second")]
    daemon = daemons.start("--max-browsers", str(MOST))
    processes, leases = [0], [0]
    progress: list[tuple[int, int]] = []
    while daemons.open_runs():
        processes.append(len(daemons.home.browsers()))
        leases.append(len([lease for lease in daemons.leases() if lease.browser_state == "started"]))
        done = [task.run_id for task in daemons.tasks() if task.state == "done"]
        progress.append((done.count(runs[0]), done.count(runs[1])))
    assert 1 <= max(leases) <= MOST
    assert 1 <= max(processes) <= MOST
    assert any(first < TASKS and second < TASKS and first and second for first, second in progress), progress
    daemons.check_results(2 * TASKS)
    daemons.end(daemon)
    daemons.check_nothing_held()


def test_daemons_of_one_machine_share_its_browsers(daemons: Daemons, numbered: NumberedSite) -> None:
    pages = [numbered.held(number) for number in range(TASKS)]
    daemons.apply(pool_of(20), hosts(numbered.host), job("pages", pages, concurrency="10"))
    daemons.fire("pages")
    first = daemons.start("--max-browsers", str(MOST))
    until(lambda: numbered.held_now == MOST, seconds=60)
    second = daemons.start("--max-browsers", str(MOST))
    second.line_with("no further browser for now: of the 2 that this machine is to run, 0 run here and 2 elsewhere")
    assert len(daemons.leases()) == MOST
    assert len(daemons.home.browsers()) == MOST
    numbered.let_go()
    daemons.wait_until_over()
    daemons.check_results(TASKS)
    daemons.end(first, second)
    daemons.check_nothing_held()
