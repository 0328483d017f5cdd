"""A pool in the hands of whoever borrows its profiles."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from playwright import async_api

from poolsql.durations import Duration
from poolsql.errors import BadInputError
from poolsql.fleet.borrowing import Borrowing
from poolsql.fleet.runtime import Runtime
from poolsql.fleet.session import Borrowed
from poolsql.leasing import registry
from poolsql.leasing.checkout import Request
from poolsql.leasing.lease import Lease
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.registry import PoolRow
from poolsql.leasing.status import PoolStatus, pool_status
from poolsql.leasing.waiting import Wait
from poolsql.text import clean_text

LONGEST_NAME = 500
"""Characters of a task, host or tag."""


class Pool:
    """A named set of profiles with one policy."""

    def __init__(self, runtime: Runtime, row: PoolRow) -> None:
        self._runtime = runtime
        self._row = row

    @property
    def name(self) -> str:
        """The pool's name."""
        return self._row.name

    @property
    def id(self) -> int:
        """The pool's number in all tables."""
        return self._row.id

    @property
    def policy(self) -> PoolPolicy:
        """The pool's policy as it was when this object was made."""
        return self._row.policy

    def checkout(
        self,
        *,
        task: str | None = None,
        host: str | None = None,
        tags: Sequence[str] = (),
        profile_id: int | None = None,
        wait: Duration = 0,
    ) -> Lease:
        """Lease the longest available profile that matches; it renews itself until it is released.

        Args:
            task: What it is for, in your own words.
            host: The target site (name, plus port when it is not the scheme's default): profiles that cool down on
                it are passed over, and a paused or stopped host gets none.
            tags: The profile must carry all of these.
            profile_id: Only this profile.
            wait: How long to wait for one to come free.

        Raises:
            NoProfileAvailableError: None came free in time; says why, and when the next one is expected.
            BadInputError: An argument cannot be right; nothing was leased.
            DatabaseUnavailableError: The database could not be reached.
        """
        borrowing = self._borrowing(task=task, host=host, tags=tags, profile_id=profile_id, wait=wait)
        while True:
            lease = borrowing.try_once()
            if lease is not None:
                return lease
            pause = borrowing.pause()
            if pause is None:
                raise borrowing.give_up()
            time.sleep(pause)

    def lease(
        self,
        *,
        task: str | None = None,
        host: str | None = None,
        tags: Sequence[str] = (),
        profile_id: int | None = None,
        wait: Duration = 0,
    ) -> Lease:
        """`checkout` for a ``with`` block: released at its end, as a success or by the exception as `task_failed`."""
        return self.checkout(task=task, host=host, tags=tags, profile_id=profile_id, wait=wait)

    def browser(
        self,
        *,
        task: str | None = None,
        host: str | None = None,
        tags: Sequence[str] = (),
        profile_id: int | None = None,
        wait: Duration = 0,
        options: Mapping[str, Any] | None = None,
        playwright: async_api.Playwright | None = None,
    ) -> Borrowed:
        """Lease a profile and start its browser, for a ``with`` or ``async with`` block.

        At the block's end the browser is stopped, the stop is proven, and the profile is released with the outcome
        that was reported, or that the block's exception stands for.

        Args:
            options: Launcher options for this start, such as ``headless``; the others are as for `checkout`.
            playwright: A running async driver to connect with; one driver for many sessions saves a process each.

        Raises (when the block is entered):
            NoProfileAvailableError: As `checkout`.
            LaunchFailedError: The browser did not start; the profile was given back.
        """
        borrowing = self._borrowing(task=task, host=host, tags=tags, profile_id=profile_id, wait=wait)
        return Borrowed(
            self._runtime.browsers, borrowing, self._runtime.threads, options=options or {}, playwright=playwright
        )

    def status(self) -> PoolStatus:
        """How many profiles are available, and why the others are not."""
        return pool_status(self._runtime.database, self._row.id)

    def add_profile(
        self,
        key: str,
        *,
        launcher: str,
        proxy: str | None = None,
        tags: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        seed: str | None = None,
        new: bool = False,
    ) -> int:
        """Add a profile; returns its id.

        Args:
            key: The launcher's own name of the profile.
            launcher: Name of a defined launcher.
            proxy: Name of a defined proxy. One that is not declared shared belongs to one profile only.
            tags: Words that a checkout can ask for.
            options: Launcher options of this profile; they win over the launcher's own.
            seed: Whatever the browser product derives the identity from, kept for replays.
            new: True: it is not offered before it is activated.

        Raises:
            UnknownNameError: The launcher or proxy is not defined.
            ConflictError: The launcher has such a profile already, or the proxy belongs to another one.
        """
        for tag in tags:
            _short(tag, "tag")
        return registry.add_profile(
            self._runtime.database,
            self._row,
            key,
            launcher=launcher,
            proxy=proxy,
            tags=tags,
            options=options,
            seed=seed,
            new=new,
        )

    def __repr__(self) -> str:
        return f"<Pool {self.name}>"

    def _borrowing(
        self, *, task: str | None, host: str | None, tags: Sequence[str], profile_id: int | None, wait: Duration
    ) -> Borrowing:
        if isinstance(tags, str):
            raise BadInputError(f"tags: {tags!r} is one text; write a list of tags")
        request = Request(
            pool_id=self._row.id,
            task=clean_text(task, limit=LONGEST_NAME) if task is not None else None,
            host=_short(host, "host") if host is not None else None,
            tags=tuple(_short(tag, "tag") for tag in tags),
            profile_id=profile_id,
        )
        runtime = self._runtime
        return Borrowing(runtime, Wait(runtime.database, runtime.worker, request, pool=self.name, wait=wait), host)


def _short(text: str, kind: str) -> str:
    if not text or len(text) > LONGEST_NAME or clean_text(text) != text:
        raise BadInputError(f"{kind}: {text[:50]!r} must be 1 to {LONGEST_NAME} characters, without NUL")
    return text
