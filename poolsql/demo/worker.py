"""One worker process of the demo: ``python -m poolsql.demo.worker RUN POOL shop|pages BROWSERS``."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping
from typing import Any

from poolsql.fleet.fleet import connect
from poolsql.fleet.session import AsyncSession
from poolsql.leasing.outcomes import Outcome
from poolsql.logs import configure_logging
from poolsql.scraping.extraction import Field, extract
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.runner import Runner
from poolsql.scraping.runner_options import RunnerOptions
from poolsql.scraping.tasks import Task

_HEADING = Field("h1, h2, h3, h4, h5, h6", required=False)
_PRODUCT = {"name": Field("h1"), "price": Field(".price"), "stock": Field(".stock")}

# One retry is enough to show that a captcha waits for its host's pause, and then for the same profile.
_RETRIES = RetryPolicy(retries=2, delay=2.0, per_outcome={Outcome.CAPTCHA: 1})


async def read_shop(session: AsyncSession, task: Task) -> Mapping[str, Any]:
    """A product's name, price and stock; of other pages the title and first heading."""
    if "/product/" in task.url:
        return await extract(session.page, _PRODUCT)
    return await read_page(session, task)


async def read_page(session: AsyncSession, _: Task) -> Mapping[str, Any]:
    """Title and first heading."""
    found = await extract(session.page, {"heading": _HEADING})
    return {"title": await session.page.title(), **found}


HANDLERS = {"shop": read_shop, "pages": read_page}


async def work(run_id: int, pool: str, handler: str, browsers: int) -> None:
    """Work on the run until it is over; SIGTERM and SIGINT stop the browsers and release the leases first."""
    with connect() as fleet:
        configure_logging(fleet.settings)
        options = RunnerOptions(concurrency=browsers, retries=_RETRIES, task_timeout=30.0, profile_wait=20.0)
        running = asyncio.ensure_future(Runner(fleet, fleet.pool(pool), run_id, HANDLERS[handler], options).run())
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows has no handlers in loops
                asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await running


if __name__ == "__main__":
    run, pool_name, handler_name, count = sys.argv[1:]
    asyncio.run(work(int(run), pool_name, handler_name, int(count)))
