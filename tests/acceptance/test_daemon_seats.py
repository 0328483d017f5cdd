"""Jobs that ask for more browsers than the machine is to run, all at once."""

from __future__ import annotations

import pytest

from tests.acceptance.daemons import Daemons, hosts, job, pool_of
from tests.sites.numbered import NumberedSite

MOST = 2
TASKS = 8


@pytest.mark.parametrize(
    ("count", "seen"),
    # Two that look at the same moment may have one too many for a while.
    [pytest.param(1, MOST, id="one daemon"), pytest.param(2, MOST + 1, id="two daemons")],
)
def test_two_jobs_of_ten_browsers_share_two(count: int, seen: int, daemons: Daemons, numbered: NumberedSite) -> None:
    urls = [numbered.page(number, seconds=0.3) for number in range(2 * TASKS)]
    daemons.apply(
        pool_of(20),
        hosts(numbered.host),
        job("first", urls[:TASKS], concurrency="10"),
        job("second", urls[TASKS:], concurrency="10"),
    )
    runs = [daemons.fire("first"), daemons.fire("second")]
    working = [daemons.start("--max-browsers", str(MOST)) for _ in range(count)]
    processes, leases = [0], [0]
    progress: list[tuple[int, int]] = []
    while daemons.open_runs():
        processes.append(len(daemons.home.browsers()))
        leases.append(len([lease for lease in daemons.leases() if lease.browser_state == "started"]))
        done = [task.run_id for task in daemons.tasks() if task.state == "done"]
        progress.append((done.count(runs[0]), done.count(runs[1])))
    assert 1 <= max(leases) <= seen
    assert 1 <= max(processes) <= seen
    assert any(first < TASKS and second < TASKS and first and second for first, second in progress), progress
    daemons.check_results(2 * TASKS)
    if count == 2:
        assert len({visit.worker_id for visit in daemons.visits()}) == 2, "only one of them worked"
    daemons.end(*working)
    daemons.check_nothing_held()
