"""Seats for browsers: as many as the machine is to run, whoever runs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID, uuid4

import pytest

from poolsql.fleet.threads import Threads
from poolsql.leasing.worker import Worker, register, sign_off
from poolsql.scheduling import browser_limit
from poolsql.scheduling.browser_limit import MEMORY_PER_BROWSER, BrowserLimit, default_most
from tests.fixtures.fleets import Desk, FaultyDatabase

PLENTY = 100 * MEMORY_PER_BROWSER

Limit = Callable[..., BrowserLimit]


@pytest.fixture(autouse=True)
def looks_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_limit, "LOOK_AGAIN_AFTER", 0.02)


@pytest.fixture
def machine() -> str:
    """A machine that no other test names."""
    return f"machine-{uuid4().hex[:8]}"


@pytest.fixture
def threads_of_ours() -> Iterator[Threads]:
    """Threads that have ended when the test has."""
    threads = Threads()
    yield threads
    threads.close()


@pytest.fixture
def new_limit(faulty: FaultyDatabase, machine: str, threads_of_ours: Threads) -> Limit:
    """Makes limits of processes on the test's machine, with memory as a test says."""

    def make(most: int, *, memory: Callable[[], int] = lambda: PLENTY, worker_id: UUID | None = None) -> BrowserLimit:
        if worker_id is None:
            worker = Worker(machine=machine, pid=1, process_started="test", version="test")
            register(faulty, worker)
            worker_id = worker.id
        return BrowserLimit(
            faulty, threads_of_ours, machine=machine, worker_id=worker_id, most=most, available_memory=memory
        )

    return make


@asynccontextmanager
async def asking(limit: BrowserLimit) -> AsyncIterator[asyncio.Task[None]]:
    """Somebody who asks for one more seat; the task ends when it is given."""

    async def ask() -> None:
        async with limit.seat():
            pass

    task = asyncio.create_task(ask())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_it_gives_as_many_seats_as_the_machine_has_and_no_more(new_limit: Limit) -> None:
    async def scene() -> None:
        limit = new_limit(2)
        async with AsyncExitStack() as taken:
            for _ in range(2):
                await taken.enter_async_context(limit.seat())
            assert limit.taken == 2
            async with asking(limit) as third:
                await asyncio.wait({third}, timeout=0.2)
                assert not third.done()
                await taken.aclose()
                await asyncio.wait_for(third, 15)
        assert limit.taken == 0

    asyncio.run(scene())


def test_browsers_of_other_processes_of_the_machine_count(
    new_limit: Limit, new_desk: Callable[..., Desk], machine: str
) -> None:
    here, elsewhere = new_desk(profiles=2, machine=machine), new_desk(profiles=2, machine=f"other-{machine}")
    for desk in (here, elsewhere):
        for _ in range(2):
            desk.start_browser(desk.granted(), machine=desk.worker.machine)
    lease_ids = [lease.id for lease in here.leases()]

    async def scene() -> None:
        limit = new_limit(2)
        async with asking(limit) as asked:
            await asyncio.wait({asked}, timeout=0.3)
            assert not asked.done()
            await asyncio.to_thread(here.reap, lease_ids[0])
            await asyncio.wait_for(asked, 15)

    asyncio.run(scene())


def test_processes_that_ask_at_the_same_moment_keep_to_the_machines_number(new_limit: Limit) -> None:
    async def scene() -> None:
        limits = [new_limit(3) for _ in range(6)]
        most, now = 0, 0
        full = asyncio.Event()

        async def work(limit: BrowserLimit) -> None:
            nonlocal most, now
            for _ in range(3):
                async with limit.seat():
                    now += 1
                    most = max(most, now)
                    if now == 3:
                        full.set()
                    await asyncio.wait_for(full.wait(), 15)
                    now -= 1

        await asyncio.gather(*(work(limit) for limit in limits for _ in range(2)))
        assert most == 3

    asyncio.run(scene())


def test_seats_of_a_process_that_has_ended_are_free(
    new_limit: Limit, new_desk: Callable[..., Desk], machine: str
) -> None:
    desk = new_desk(machine=machine)
    desk.execute("UPDATE poolsql.workers SET seats = 2 WHERE id = :id", id=desk.worker.id)

    async def scene() -> None:
        limit = new_limit(2)
        async with asking(limit) as asked:
            await asyncio.wait({asked}, timeout=0.2)
            assert not asked.done()
            await asyncio.to_thread(sign_off, desk.database, desk.worker)
            await asyncio.wait_for(asked, 15)

    asyncio.run(scene())


def test_its_own_leases_count_once(new_limit: Limit, new_desk: Callable[..., Desk], machine: str) -> None:
    desk = new_desk(machine=machine)
    desk.start_browser(desk.granted(), machine=machine)

    async def scene() -> None:
        limit = new_limit(2, worker_id=desk.worker.id)
        async with limit.seat(), asking(limit) as second:
            done, _ = await asyncio.wait({second}, timeout=15)
            assert done, "the started browser is the first seat's own"

    asyncio.run(scene())


def test_without_memory_for_one_more_it_waits_but_one_browser_is_always_allowed(
    new_limit: Limit, caplog: pytest.LogCaptureFixture
) -> None:
    memory = [MEMORY_PER_BROWSER - 1]
    caplog.set_level(logging.INFO, "poolsql.scheduling.browser_limit")

    async def scene() -> None:
        limit = new_limit(4, memory=lambda: memory[0])
        async with limit.seat(), asking(limit) as second:
            await asyncio.wait({second}, timeout=0.3)
            assert not second.done()
            memory[0] = PLENTY
            await asyncio.wait_for(second, 15)

    asyncio.run(scene())
    assert [record.getMessage() for record in caplog.records] == [
        "no further browser for now: the machine's memory is nearly used up"
    ], "it is told once, not at each look"


def test_a_seat_that_was_left_reserves_no_memory(new_limit: Limit) -> None:
    """Runs that find nothing to do take and leave seats all the time."""

    async def scene() -> None:
        limit = new_limit(9, memory=lambda: 3 * MEMORY_PER_BROWSER)
        async with limit.seat():
            for _ in range(20):
                async with asyncio.timeout(15), limit.seat():
                    assert limit.taken == 2

    asyncio.run(scene())


def test_seats_are_given_in_order_of_asking(new_limit: Limit) -> None:
    async def scene() -> list[int]:
        limit, order = new_limit(1), []

        async def ask(number: int) -> None:
            async with limit.seat():
                order.append(number)

        async with limit.seat():
            tasks = []
            for number in range(6):
                tasks.append(asyncio.create_task(ask(number)))
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(scene()) == list(range(6))


def test_whoever_gives_up_waiting_keeps_no_seat(new_limit: Limit) -> None:
    async def scene() -> None:
        limit = new_limit(1)
        async with limit.seat(), asking(limit):
            await asyncio.sleep(0)
        async with asking(limit) as another:
            await asyncio.wait_for(another, 15)
        assert limit.taken == 0

    asyncio.run(scene())


def test_a_database_that_is_away_does_not_keep_seats_back(new_limit: Limit, faulty: FaultyDatabase) -> None:
    faulty.patience = 0.0
    limit = new_limit(1)
    faulty.down = True

    async def scene() -> None:
        async with asking(limit) as asked:
            done, _ = await asyncio.wait({asked}, timeout=15)
            assert done

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("memory", "browsers"),
    [(0, 1), (MEMORY_PER_BROWSER, 1), (2 * MEMORY_PER_BROWSER - 1, 1), (8 * 1024**3, 13)],
)
def test_how_many_browsers_a_memory_holds(memory: int, browsers: int) -> None:
    assert default_most(memory) == browsers
