"""Whether Playwright's driver process still answers: without it nothing can be done, and nobody else is to blame."""

from __future__ import annotations

import asyncio

from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Playwright

from poolsql.errors import PoolsqlError

DRIVER_ANSWERS_WITHIN = 10.0
"""Seconds after which a driver that was asked for nothing much counts as gone."""


class DriverLostError(PoolsqlError):
    """Playwright's driver process has ended."""


async def check_driver(playwright: Playwright) -> None:
    """A driver that has ended fails every task from now on, and each browser would be blamed for it.

    Raises:
        DriverLostError: It does not answer.
    """
    try:
        async with asyncio.timeout(DRIVER_ANSWERS_WITHIN):
            context = await playwright.request.new_context()
            await context.dispose()
    except (PlaywrightError, TimeoutError) as error:
        raise DriverLostError(
            f"Playwright's driver process has ended ({type(error).__name__}); start the worker again"
        ) from error
