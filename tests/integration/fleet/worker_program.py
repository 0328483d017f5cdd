"""Programs as users write them, run in processes of their own: ``python -m … ACTION {"settings": …}``.

Each tells on standard output, one JSON object a line, how far it has come.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from poolsql import Fleet, LeaseLostError, connect


def tell(**facts: Any) -> None:
    """Say how far it has come."""
    print(json.dumps(facts), flush=True)  # noqa: T201 - what the test reads


def open_fleet(asked: dict[str, Any]) -> Fleet:
    """The fleet that the test named."""
    return connect(asked.get("url"), machine=asked.get("machine", "here"), data_dir=asked["data_dir"])


def hold(asked: dict[str, Any]) -> None:
    """Borrow a browser and never come to an end."""
    with open_fleet(asked) as fleet, fleet.pool(asked["pool"]).browser(task="sku-1") as session:
        tell(lease=session.lease.id)
        session.page.goto(asked["waiting"], timeout=0)


def browse(asked: dict[str, Any]) -> None:
    """Show pages, the next one at each line; a lease that is lost is told of."""
    with open_fleet(asked) as fleet:
        try:
            with fleet.pool(asked["pool"]).browser() as session:
                for page in asked["pages"]:
                    session.page.goto(page)
                    tell(lease=session.lease.id, title=session.page.title())
                    sys.stdin.readline()
        except LeaseLostError as error:
            tell(lost=str(error), because=type(error.__cause__).__module__)


def end_on_sigterm(asked: dict[str, Any]) -> None:
    """Set a cookie, be told to end a second later."""

    def end(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    with open_fleet(asked) as fleet, fleet.pool(asked["pool"]).browser() as session:
        session.page.goto(asked["setting"])
        session.page.wait_for_timeout(1000)
        tell(lease=session.lease.id)
        session.page.goto(asked["waiting"], timeout=0)


def end_on_sigterm_async(asked: dict[str, Any]) -> None:
    """The same on a loop, whose task is cancelled."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with pool.browser() as session:
            await session.page.goto(asked["setting"])
            await asyncio.sleep(1)
            tell(lease=session.lease.id)
            await session.page.goto(asked["waiting"], timeout=0)

    with open_fleet(asked) as fleet:
        pool = fleet.pool(asked["pool"])
        try:
            asyncio.run(work())
        except asyncio.CancelledError:
            sys.exit(128 + signal.SIGTERM)


def fork(asked: dict[str, Any]) -> None:
    """Fork inside blocks; the child works on its own and then leaves the parent's blocks."""
    with open_fleet(asked) as fleet:
        pool = fleet.pool(asked["pool"])
        with pool.lease(task="plain") as lease, pool.browser(task="parent") as session:
            child = os.fork()
            if child == 0:
                _as_child(fleet, asked["pool"], lease.release, session.lease.check)
            _, status = os.waitpid(child, 0)
            tell(who="parent", child_ended_with=os.waitstatus_to_exitcode(status), worker=str(fleet._runtime.worker.id))
            lease.renew()
            session.lease.renew()
            session.page.goto(asked["url_of_page"])
            tell(who="parent", heading=session.page.inner_text("h1"))


def _as_child(fleet: Fleet, pool: str, *touches: Callable[[], object]) -> NoReturn:
    refused = []
    for touch in touches:
        try:
            touch()
        except LeaseLostError as error:
            refused.append(str(error))
    with fleet.pool(pool).lease(task="child", wait=5):
        tell(who="child", worker=str(fleet._runtime.worker.id), refused=refused)
    sys.exit(0)  # through all the blocks of the parent


def join_embedded(asked: dict[str, Any]) -> None:
    """Join the embedded server that another process started, and stay until told to end."""
    with open_fleet(asked) as fleet:
        tell(pools=fleet.pool(asked["pool"]).name)
        sys.stdin.readline()
        with fleet.pool(asked["pool"]).lease():
            tell(available=fleet.pool(asked["pool"]).status().counts)


ACTIONS = {
    action.__name__: action for action in (hold, browse, end_on_sigterm, end_on_sigterm_async, fork, join_embedded)
}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](json.loads(sys.argv[2]))
