"""Two hundred that wait for twenty profiles, in several processes, of which two are killed: everybody else is served.

They differ in what they ask for, in their priorities, and in how their waiting ends. All profiles are taken until all
of them stand in the line, so that the tickets tell who comes before whom.
"""

from __future__ import annotations

import json
import multiprocessing
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from poolsql.leasing.status import pool_status
from poolsql.scheduling.housekeeping import Housekeeping
from tests.acceptance import waiter
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk

PROCESSES = 5
PROFILES = 20
FITTING = (PROFILES, PROFILES // 2, PROFILES // 2, PROFILES, 1)
"""Profiles that fit each wish of `waiter.wish`. Each is handed over by a statement of its own, and one that finds the
first ticket in the hands of another statement takes the next: so many less one may be served before somebody who came
first."""


class Crowd:
    """The processes, and what they wrote down."""

    def __init__(self, url: str, desk: Desk, place: Path) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.cancel = place / "cancel"
        self.journals = [place / f"{number}.jsonl" for number in range(PROCESSES)]
        self.processes: list[BaseProcess] = [
            spawn.Process(
                target=waiter.wait_in_line,
                args=(url, desk.pool.name, journal.stem, desk.profile_ids[0], self.cancel, journal),
            )
            for journal in self.journals
        ]

    def noted(self, kind: str, number: int | None = None) -> list[dict[str, Any]]:
        """What became of a kind of waiters, of one process or of all."""
        chosen = self.journals if number is None else [self.journals[number]]
        lines = [line for journal in chosen if journal.exists() for line in journal.read_text("utf-8").splitlines()]
        return [noted for noted in map(json.loads, lines) if noted["task"].split()[1] == kind]

    def end(self) -> None:
        """Leave no process behind."""
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()
            process.close()


@pytest.fixture
def crowd(desk: Desk, database_url: URL, tmp_path: Path) -> Iterator[Crowd]:
    """Processes that have begun to wait for the desk's profiles, all of which are taken."""
    desk.add_profiles(PROFILES // 2 - 1)
    desk.add_profiles(PROFILES // 2, tags=["de"])
    made = Crowd(database_url.render_as_string(hide_password=False), desk, tmp_path)
    yield made
    made.end()


@pytest.mark.timeout(100)
def test_a_crowd_of_mixed_wishes_is_served_in_its_order_though_processes_are_killed(
    desk: Desk, new_desk: Callable[..., Desk], crowd: Crowd
) -> None:
    # Elsewhere, since whoever reaps on this machine finds that there is no such process.
    holder = new_desk(pool=desk.pool, profiles=0, machine="elsewhere")
    taken = [holder.granted() for _ in range(PROFILES)]
    for process in crowd.processes:
        process.start()
    standing = PROCESSES * (waiter.PATIENT + waiter.CANCELLED)
    until(lambda: len(crowd.noted("impatient")) == PROCESSES * waiter.IMPATIENT, seconds=40)
    until(lambda: len(tickets(desk)) == standing, seconds=40)
    places = tickets(desk)

    crowd.processes[0].kill()
    crowd.cancel.touch()
    alive = range(1, PROCESSES)
    until(lambda: len(crowd.noted("cancelled")) == len(alive) * waiter.CANCELLED)
    for lease in taken:
        holder.release(lease)
    until(lambda: crowd.noted("patient", 1))
    crowd.processes[1].kill()
    alive = range(2, PROCESSES)
    for number in alive:
        crowd.processes[number].join(timeout=60)
        assert crowd.processes[number].exitcode == 0

    # Everybody alive was served, or was told in time that there is nothing.
    for number in alive:
        assert len(crowd.noted("patient", number)) == waiter.PATIENT * waiter.CYCLES
    for noted in crowd.noted("impatient"):
        assert waiter.IMPATIENCE <= noted["waited"] < waiter.IMPATIENCE + 3
    assert {noted["error"] for noted in crowd.noted("cancelled")} == {"CancelledError"}
    check_that_nobody_shared_a_profile(crowd)
    check_the_order(desk, places, {str(number) for number in alive})

    # What was handed to the dead, and what they held, comes back; only their own tickets are left, until upkeep.
    def all_free() -> bool:
        desk.reaper(dead_workers=lambda: killed).run_once()
        return pool_status(desk.database, desk.pool.id).counts == {"available": PROFILES}

    killed = [row.id for row in desk.all("SELECT id FROM poolsql.workers WHERE ended_at IS NULL AND pid <> :pid",
                                         pid=multiprocessing.current_process().pid)]  # fmt: skip
    assert len(killed) == 2
    until(all_free, seconds=30)
    assert desk.leases() == []
    assert {attempt.outcome for attempt in desk.attempts()} <= {"success", "not_claimed", "worker_lost"}
    assert {row.worker_id for row in tickets(desk)} <= set(killed)
    desk.execute("UPDATE poolsql.workers SET waiting_seen_at = waiting_seen_at - interval '2 minutes'")
    Housekeeping(desk.database).run_once()
    assert tickets(desk) == []


def tickets(desk: Desk) -> list[Any]:
    """The line, by rank."""
    query = "SELECT task, criteria, worker_id FROM poolsql.waiters WHERE pool_id = :pool ORDER BY rank, id"
    return desk.all(query, pool=desk.pool.id)


def check_that_nobody_shared_a_profile(crowd: Crowd) -> None:
    """As those who are alive believed."""
    by_profile: dict[int, list[tuple[float, float]]] = defaultdict(list)
    for noted in crowd.noted("patient"):
        by_profile[noted["profile"]].append((noted["began"], noted["ended"]))
    assert len(by_profile) == PROFILES, "all of them were used"
    for intervals in by_profile.values():
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(sorted(intervals)))


def check_the_order(desk: Desk, places: list[Any], alive: set[str]) -> None:
    """Those who asked for the same were handed their leases by rank; a priority is part of the rank."""
    served_at: dict[str, Any] = {}
    for attempt in desk.attempts():
        served_at[attempt.task] = min(attempt.started_at, served_at.get(attempt.task, attempt.started_at))
    lines: dict[int, list[str]] = defaultdict(list)
    fitting: dict[int, int] = {}
    for place in places:
        process, kind, number, *_ = place.task.split()
        fitting[place.criteria] = FITTING[int(number) % waiter.WISHES]
        if process in alive and kind == "cancelled":
            assert place.task not in served_at, "it had left"
        elif process in alive:
            lines[place.criteria].append(place.task)
    assert len(lines) == waiter.WISHES
    overtaken = 0
    for criteria, line in lines.items():
        for place, task in enumerate(line):
            by = [later for later in line[place + 1 :] if served_at[later] < served_at[task]]
            assert len(by) < fitting[criteria], f"{task} was overtaken by {by}"
            overtaken += bool(by)
    everybody = len(alive) * waiter.PATIENT
    assert sum(map(len, lines.values())) == everybody
    assert overtaken <= everybody / 10
