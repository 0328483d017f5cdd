"""Twelve processes on four profiles: no two hold one at the same time (I1), and each lease ends as one attempt (I4).

Each process journals when it held which profile, on the machine's one monotonic clock. `POOLSQL_CYCLES=20000` runs
the long version.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections import defaultdict
from multiprocessing.process import BaseProcess
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy.engine import URL

from tests.acceptance.borrower import borrow
from tests.fixtures.fleets import Desk

PROCESSES = 12
PROFILES = 4
CYCLES = int(os.environ.get("POOLSQL_CYCLES", "2000"))


@pytest.mark.timeout(600)
def test_twelve_processes_never_share_one_of_four_profiles(desk: Desk, database_url: URL, tmp_path: Path) -> None:
    desk.add_profiles(PROFILES - 1)
    journals = [tmp_path / f"{number}.jsonl" for number in range(PROCESSES)]
    spawn = multiprocessing.get_context("spawn")
    share = -(-CYCLES // PROCESSES)
    url = database_url.render_as_string(hide_password=False)
    processes: list[BaseProcess] = [
        spawn.Process(target=borrow, args=(url, desk.pool.name, share, journal)) for journal in journals
    ]
    for process in processes:
        process.start()
    try:
        for process in processes:
            process.join(timeout=550)
        assert [process.exitcode for process in processes] == [0] * PROCESSES
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()
            process.close()

    held = [json.loads(line) for journal in journals for line in journal.read_text(encoding="utf-8").splitlines()]
    assert len(held) == share * PROCESSES
    by_profile: dict[int, list[tuple[float, float, int]]] = defaultdict(list)
    for lease_id, profile_id, began, ended in held:
        by_profile[profile_id].append((began, ended, lease_id))
    assert set(by_profile) == set(desk.profile_ids), "all of them were used"
    overlaps = [
        (earlier, later)
        for intervals in by_profile.values()
        for earlier, later in zip(sorted(intervals), sorted(intervals)[1:], strict=False)
        if later[0] < earlier[1]
    ]
    assert overlaps == []

    # A process that the others keep from the cores may answer too late to what was handed to it.
    attempts = [attempt for attempt in desk.attempts() if attempt.outcome != "not_claimed"]
    assert sorted(attempt.lease_id for attempt in attempts) == sorted(lease_id for lease_id, *_ in held)
    assert {attempt.ended_by for attempt in attempts} == {"holder"}
    assert desk.leases() == []
    visits = desk.one(
        "SELECT count(*) FROM poolsql.visits WHERE pool_id = :pool AND outcome <> 'not_claimed'", pool=desk.pool.id
    )
    assert visits.count == len(held)
    workers: set[UUID] = {attempt.worker_id for attempt in attempts}
    assert len(workers) == PROCESSES
