"""Many that wait for few profiles, in several processes, of which one is killed: everybody else is served."""

from __future__ import annotations

import json
import multiprocessing
from collections import defaultdict
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from tests.acceptance.waiter import wait_in_line
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk

PROCESSES = 4
THREADS = 8
CYCLES = 12
PROFILES = 3


@pytest.mark.timeout(170)
def test_waiters_of_mixed_wishes_are_all_served_though_a_process_is_killed(
    desk: Desk, database_url: URL, tmp_path: Path
) -> None:
    desk.add_profiles(PROFILES - 1)
    journals = [tmp_path / f"{number}.jsonl" for number in range(PROCESSES)]
    spawn = multiprocessing.get_context("spawn")
    url = database_url.render_as_string(hide_password=False)
    processes: list[BaseProcess] = [
        spawn.Process(target=wait_in_line, args=(url, desk.pool.name, THREADS, CYCLES, journal)) for journal in journals
    ]
    for process in processes:
        process.start()
    doomed, *others = processes
    try:
        until(lambda: journals[0].exists() and journals[0].read_text(encoding="utf-8").count("\n") > CYCLES, seconds=60)
        doomed.kill()
        for process in others:
            process.join(timeout=100)
        assert [process.exitcode for process in others] == [0] * len(others)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
            process.close()

    held = [json.loads(line) for journal in journals[1:] for line in journal.read_text(encoding="utf-8").splitlines()]
    assert len(held) == len(others) * THREADS * CYCLES
    by_profile: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for _, profile_id, began, ended in held:
        by_profile[profile_id].append((began, ended))
    for intervals in by_profile.values():
        ordered = sorted(intervals)
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(ordered))

    # What was handed to the dead, and what it held, comes back; only its own tickets are left, and they are stale.
    def nothing_held() -> bool:
        desk.reaper().run_once()
        return not [lease for lease in desk.leases() if lease.unclaimed]

    until(nothing_held, seconds=30)
    outcomes = {attempt.outcome for attempt in desk.attempts()}
    assert outcomes <= {"success", "not_claimed", "worker_lost"}
    tickets = desk.all("SELECT DISTINCT worker_id FROM poolsql.waiters WHERE pool_id = :pool", pool=desk.pool.id)
    assert len(tickets) <= 1
    attempts = {attempt.lease_id for attempt in desk.attempts() if attempt.outcome == "success"}
    assert {lease_id for lease_id, *_ in held} <= attempts
