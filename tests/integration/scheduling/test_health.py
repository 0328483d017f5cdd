"""Whether daemons are well, by their stamps and the database's clock."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from poolsql.errors import DatabaseUnavailableError
from poolsql.leasing.worker import sign_off
from poolsql.scheduling.health import FAILING_FOR, LEAST_PATIENCE, ROUNDS_MISSED, check_health
from poolsql.scheduling.loops import Stamps
from tests.fixtures.fleets import Desk, FaultyDatabase


@pytest.fixture
def machine() -> str:
    """A machine that no other test names."""
    return f"machine-{uuid4().hex[:8]}"


@pytest.fixture
def daemon(new_desk: Callable[..., Desk], machine: str) -> Desk:
    """A worker with a loop that comes round each second."""
    desk = new_desk(machine=machine)
    stamp(desk)
    return desk


def stamp(desk: Desk, *, name: str = "fire", every: float = 1.0, note: str | None = None) -> None:
    Stamps(desk.database, desk.worker, drain=lambda: None).write(name, every=every, problem=note)


def age(desk: Desk, seconds: float, *, column: str = "stamped_at") -> None:
    desk.execute(
        f"UPDATE poolsql.loop_stamps SET {column} = clock_timestamp() - make_interval(secs => :seconds) "
        "WHERE worker_id = :id",
        id=desk.worker.id,
        seconds=seconds,
    )


def test_a_daemon_whose_loops_come_round_is_well(daemon: Desk, machine: str) -> None:
    health = check_health(daemon.database, machine=machine)
    assert health.ok
    (loop,) = health.loops
    assert (loop.worker_id, loop.machine, loop.pid, loop.loop) == (
        daemon.worker.id,
        machine,
        daemon.worker.pid,
        "fire",
    )
    assert 0 <= loop.age < 30


@pytest.mark.parametrize(
    ("every", "silent", "well"),
    [
        (1.0, LEAST_PATIENCE - 5, True),
        (1.0, LEAST_PATIENCE + 5, False),
        (60.0, ROUNDS_MISSED * 60.0 - 5, True),
        (60.0, ROUNDS_MISSED * 60.0 + 5, False),
    ],
)
def test_a_loop_that_has_not_come_round_for_long_is_told(
    every: float, silent: float, well: bool, daemon: Desk, machine: str
) -> None:
    stamp(daemon, every=every)
    age(daemon, silent)
    health = check_health(daemon.database, machine=machine)
    assert health.ok is well
    if not well:
        (problem,) = health.problems
        assert problem.startswith(f"daemon {daemon.worker.pid} on {machine}: loop fire has not come round for ")


@pytest.mark.parametrize(("since", "well"), [(FAILING_FOR - 5, True), (FAILING_FOR + 5, False)])
def test_a_loop_that_fails_for_long_is_told_with_the_reason(
    since: float, well: bool, daemon: Desk, machine: str
) -> None:
    stamp(daemon, note="the disk is full")
    age(daemon, since, column="failing_since")
    stamp(daemon, note="the disk is full")
    health = check_health(daemon.database, machine=machine)
    assert health.ok is well
    if not well:
        (problem,) = health.problems
        assert "loop fire has been failing for" in problem
        assert problem.endswith(": the disk is full")


def test_one_loop_that_is_ill_is_enough(daemon: Desk, machine: str) -> None:
    age(daemon, LEAST_PATIENCE + 5)
    stamp(daemon, name="reap")
    health = check_health(daemon.database, machine=machine)
    assert [loop.problem is None for loop in health.loops] == [False, True]
    assert not health.ok


def test_without_any_daemon_it_says_how_to_start_one(daemon: Desk, machine: str) -> None:
    sign_off(daemon.database, daemon.worker)
    health = check_health(daemon.database, machine=machine)
    assert health.problems == (f"no daemon runs on {machine}; start one: poolsql daemon",)


def test_a_daemon_that_died_is_told_until_it_is_signed_off(
    daemon: Desk, new_desk: Callable[..., Desk], machine: str
) -> None:
    dead = new_desk(machine=machine)
    stamp(dead)
    age(dead, LEAST_PATIENCE + 5)
    assert not check_health(daemon.database, machine=machine).ok
    sign_off(dead.database, dead.worker)
    assert check_health(daemon.database, machine=machine).ok


def test_daemons_of_other_machines_are_looked_at_only_when_asked_for(
    daemon: Desk, new_desk: Callable[..., Desk], machine: str
) -> None:
    other = new_desk(machine=f"other-{machine}")
    stamp(other)
    age(other, LEAST_PATIENCE + 5)
    assert check_health(daemon.database, machine=machine).ok
    everywhere = check_health(daemon.database)
    assert any(f"other-{machine}" in problem for problem in everywhere.problems)


def test_a_database_that_is_away_is_no_health(faulty: FaultyDatabase) -> None:
    faulty.patience = 0.0
    faulty.down = True
    with pytest.raises(DatabaseUnavailableError):
        check_health(faulty)


def test_a_daemon_of_this_machine_whose_process_has_died_is_none(daemon: Desk, machine: str) -> None:
    assert check_health(daemon.database, machine=machine, here="elsewhere").ok, "from there it cannot be seen"
    health = check_health(daemon.database, machine=machine, here=machine)
    assert health.problems == (f"no daemon runs on {machine}; start one: poolsql daemon",)
