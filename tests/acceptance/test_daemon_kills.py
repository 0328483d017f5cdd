"""``kill -9`` of daemons at random moments: whoever goes on finds everything, and does nothing twice."""

from __future__ import annotations

import random
import time

import pytest

from tests.acceptance.daemons import PATIENT, Daemons, hosts, job, pool_of
from tests.fixtures.conditions import until
from tests.sites.numbered import NumberedSite

SEED = 2026
BOTH = 0.25
"""How often all daemons are killed at once, so that only one that is started anew can go on."""


@pytest.mark.parametrize(
    ("tasks", "kills", "seconds"),
    [
        pytest.param(14, 2, 120.0, id="14 tasks"),
        pytest.param(500, 20, 900.0, id="500 tasks", marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
    ],
)
def test_each_task_has_one_result_whoever_is_killed(
    tasks: int, kills: int, seconds: float, daemons: Daemons, numbered: NumberedSite
) -> None:
    print(f"seed {SEED}")  # noqa: T201
    chance = random.Random(SEED)
    urls = [numbered.page(number, seconds=0.1) for number in range(tasks)]
    daemons.apply(pool_of(6, **PATIENT), hosts(numbered.host), job("pages", urls, concurrency="3", retries="10"))
    daemons.fire("pages")
    running = [daemons.start(), daemons.start()]
    for done in sorted(chance.sample(range(1, tasks - 3), kills)):
        until(lambda done=done: daemons.count("done") >= done, seconds=seconds)  # type: ignore[misc]
        time.sleep(chance.uniform(0, 0.7))  # any moment of a task's course
        victims = running if chance.random() < BOTH else [chance.choice(running)]
        running = [daemon for daemon in running if daemon not in victims]
        for victim in victims:
            victim.kill()
        running += [daemons.start(working=False) for _ in victims]
    daemons.wait_until_over(seconds=seconds)
    daemons.check_results(tasks)
    lost = [attempt for attempt in daemons.attempts() if attempt.outcome == "worker_lost"]
    assert len(lost) >= kills // 2, "the kills met nobody at work"
    until(lambda: not daemons.leases(), seconds=60)
    for daemon in running:
        daemon.line_with(": up to")
    daemons.end(*running)
    daemons.check_nothing_held()
    # Whoever is left signs the dead off.
    daemons.end(daemons.start())
    daemons.check_signed_off()
