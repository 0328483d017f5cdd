"""A pool in the hands of whoever borrows its profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from poolsql.durations import Duration
from poolsql.fleet.borrowing import Borrowing
from poolsql.fleet.drivers import Driver
from poolsql.fleet.runtime import Runtime
from poolsql.fleet.session import Borrowed
from poolsql.leasing import registry
from poolsql.leasing.checkout import Request
from poolsql.leasing.checks import LONGEST_NAME, checked_id, checked_name, checked_names, checked_number
from poolsql.leasing.lease import Lease
from poolsql.leasing.line import checked_priority
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.registry import PoolRow
from poolsql.leasing.status import PoolStatus, pool_status
from poolsql.leasing.stickiness import checked_sticky_key
from poolsql.targets import host_name
from poolsql.text import clean_text

MOST_AT_ONCE = 1000
"""Profiles that one checkout can lease."""


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
        without_tags: Sequence[str] = (),
        profile_id: int | None = None,
        prefer: str | None = None,
        require: str | None = None,
        priority: int = 0,
        wait: Duration = 0,
    ) -> Lease:
        """Lease the longest available profile that matches; it renews itself until it is released.

        Args:
            task: What it is for, in your own words.
            host: The target site, by its name (plus port when it is not the scheme's default) or an address of it:
                profiles that cool down on it are passed over, and a paused or stopped host gets none.
            tags: The profile must carry all of these.
            without_tags: The profile must carry none of these.
            profile_id: Only this profile.
            prefer: A key of your own: the profile that served it last if that one is free, else any, which serves the
                key from then on.
            require: The same, but only that profile will do; a key that nobody has used yet is served by any.
            priority: From -100 to 100; each step advances a waiting checkout as if it had come 10 seconds earlier.
            wait: How long to wait for one to come free. Who waits for the same is served in the order of arrival.

        Raises:
            NoProfileAvailableError: None came free in time; says why, and when the next one is expected.
            ProfileRetiredError: The profile that `require` asks for is retired.
            BadInputError: An argument cannot be right; nothing was leased.
            DatabaseUnavailableError: The database could not be reached.
        """
        return self._borrowing(
            task=task,
            host=host,
            tags=tags,
            without_tags=without_tags,
            profile_id=profile_id,
            prefer=prefer,
            require=require,
            priority=priority,
            wait=wait,
        ).lease()

    def checkout_many(
        self,
        number: int,
        *,
        task: str | None = None,
        host: str | None = None,
        tags: Sequence[str] = (),
        without_tags: Sequence[str] = (),
        priority: int = 0,
        wait: Duration = 0,
    ) -> list[Lease]:
        """Lease as many of the longest available profiles as there are, from one up to `number`, in one round trip.

        Args:
            number: At most as many as these, from 1 to 1000.
            task: As for `checkout`, like all others.
            wait: How long to wait for the first one, if none is free.

        Raises:
            NoProfileAvailableError: Not one came free in time.
            BadInputError: An argument cannot be right; nothing was leased.
            DatabaseUnavailableError: The database could not be reached.
        """
        asked = checked_number(number, "number", most=MOST_AT_ONCE)
        borrowing = self._borrowing(
            task=task,
            host=host,
            tags=tags,
            without_tags=without_tags,
            profile_id=None,
            prefer=None,
            require=None,
            priority=priority,
            wait=wait,
        )
        return borrowing.lease_many(asked) or borrowing.lease_up_to(asked)

    lease = checkout
    """`checkout` as a ``with`` block reads it.

    The lease is released at the block's end: as a success, or as `task_failed` where an exception leaves it.
    """

    def browser(
        self,
        *,
        task: str | None = None,
        host: str | None = None,
        tags: Sequence[str] = (),
        without_tags: Sequence[str] = (),
        profile_id: int | None = None,
        prefer: str | None = None,
        require: str | None = None,
        priority: int = 0,
        wait: Duration = 0,
        options: Mapping[str, Any] | None = None,
        playwright: Driver | None = None,
    ) -> Borrowed:
        """Lease a profile and start its browser, for one ``with`` or ``async with`` block.

        At the block's end the browser is stopped, the stop is proven, and the profile is released with the outcome
        that was reported, or that the block's exception stands for. When the lease is lost, the browser is stopped
        at once; the task of an ``async with`` block is cancelled, and either block ends with `LeaseLostError`.

        The call itself asks the database nothing. Entering the block with ``async with`` never blocks the loop, and
        being cancelled meanwhile leaves nothing behind.

        Args:
            task: As for `checkout`, like all up to `wait`.
            options: Launcher options for this start, such as ``headless``; they win over the profile's own.
            playwright: A running Playwright to connect with, async or sync like the block. Without it each async
                session starts a driver of its own, and the sync sessions of a thread share one; each is a process.

        Raises:
            BadInputError: An argument cannot be right; nothing was leased. When the block is entered: the launcher
                cannot take these options, a thread with a running loop uses ``with``, or the block is entered a
                second time.
            NoProfileAvailableError: When the block is entered, as `checkout`.
            LaunchFailedError: When the block is entered: the browser did not start; the profile was given back.
            LeaseLostError: At the block's end: the lease was lost meanwhile.
        """
        borrowing = self._borrowing(
            task=task,
            host=host,
            tags=tags,
            without_tags=without_tags,
            profile_id=profile_id,
            prefer=prefer,
            require=require,
            priority=priority,
            wait=wait,
        )
        return Borrowed(borrowing, options=options or {}, playwright=playwright)

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
        exist_ok: bool = False,
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
            exist_ok: True: a profile of that key in this pool stays as it is, and its id is returned.

        Raises:
            BadInputError: A name or tag cannot be right, or the launcher cannot take the options; nothing was added.
            UnknownNameError: The launcher or proxy is not defined.
            ConflictError: The launcher has such a profile already, or the proxy belongs to another one.
        """
        self._runtime.browsers.check_options(launcher, options or {})
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
            exist_ok=exist_ok,
        )

    def __repr__(self) -> str:
        return f"<Pool {self.name}>"

    def _borrowing(
        self,
        *,
        task: str | None,
        host: str | None,
        tags: Sequence[str],
        without_tags: Sequence[str],
        profile_id: int | None,
        prefer: str | None,
        require: str | None,
        priority: int,
        wait: Duration,
    ) -> Borrowing:
        request = Request(
            pool_id=self._row.id,
            task=clean_text(task, limit=LONGEST_NAME) if task is not None else None,
            host=host_name(checked_name(host, "host")) if host is not None else None,
            tags=checked_names(tags, "tag"),
            without_tags=checked_names(without_tags, "tag"),
            profile_id=checked_id(profile_id, "profile_id") if profile_id is not None else None,
            priority=checked_priority(priority),
        )
        sticky = checked_sticky_key(prefer=prefer, require=require, profile_id=profile_id)
        return Borrowing(self._runtime, request, pool=self.name, wait=wait, sticky=sticky)
