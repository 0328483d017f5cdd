"""From launcher rows to browsers: starting one under a lease, and stopping what any lease recorded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from poolsql.database.engine import Database
from poolsql.errors import (
    BadInputError,
    ConflictError,
    LauncherError,
    LaunchFailedError,
    LaunchFault,
    StopNotProvenError,
)
from poolsql.launchers.contract import BrowserHandle, Launcher, LaunchRequest, Proxy, StopRung
from poolsql.leasing.lease import Lease
from poolsql.leasing.registry import LauncherRow, find_launcher, find_proxy
from poolsql.settings import Settings
from poolsql.text import did_you_mean

log = logging.getLogger(__name__)

START_SECONDS = 30.0
"""For starting a browser, on a machine that starts several at once; where the launcher names no time of its own."""

STOP_SECONDS = 20.0
"""For the whole stop ladder; shorter than a reaper's claim, so that no two stop the same browser."""


@dataclass(frozen=True, slots=True)
class RunningBrowser:
    """A browser and the launcher that started it: whoever holds it can stop it, also when the database is away."""

    launcher: Launcher
    handle: BrowserHandle

    def stop(self) -> str:
        """Stop it, prove it, and return the rung of the ladder that did it.

        Raises:
            StopNotProvenError: It may still run.
        """
        return self.launcher.stop(self.handle, timeout=STOP_SECONDS).rung.value


class Browsers:
    """Starts and stops browsers through the launchers that the database names."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def launcher(self, name: str) -> Launcher:
        """The launcher of a row, with its options as they are now.

        Raises:
            LaunchFailedError: There is no such row, or this version cannot drive a launcher of its kind and options.
        """
        try:
            return build_launcher(find_launcher(self._database, name), self._settings)
        except BadInputError as error:
            raise LaunchFailedError(str(error)) from error

    def check_options(self, launcher: str, options: Mapping[str, Any]) -> None:
        """Make sure that a launcher can take these options of a profile.

        Raises:
            BadInputError: It cannot; the message names everything that is wrong.
            UnknownNameError: There is no such launcher.
        """
        if options:
            row = find_launcher(self._database, launcher)
            _check_options(build_launcher(row, self._settings), launcher, options, of_start=False)

    def start(self, lease: Lease, *, options: Mapping[str, Any]) -> RunningBrowser:
        """Start the leased profile's browser; what could go wrong is written down before it can.

        Args:
            options: For this start; they win over the profile's and the launcher's.

        Raises:
            BadInputError: The launcher cannot take these options; nothing was started.
            LaunchFailedError: It did not start; nothing is left running, or the lease still records it.
            LeaseLostError: The lease was lost meanwhile; nothing is left running.
        """
        profile = lease.profile
        launcher = self.launcher(profile.launcher)
        # Before anything is blamed on the profile: these options are the caller's.
        _check_options(launcher, profile.launcher, options, of_start=True)
        request = LaunchRequest(
            lease_id=lease.id,
            profile_id=profile.id,
            profile_key=profile.key,
            proxy=self._proxy(profile.proxy_id),
            options={**profile.options, **options},
            still_wanted=lease.check,
        )
        handle = launcher.prepare(request)
        machine = handle.machine if launcher.stops_here_only else None
        try:
            lease.browser_starting(handle.to_json(), machine=machine, directory=handle.directory)
        except ConflictError as error:
            nothing = StopRung.NOT_RUNNING.value
            raise LaunchFailedError(str(error), fault=LaunchFault.PROFILE, stop_rung=nothing) from error
        # A worker that was frozen here must start nothing: it may be proven already that nothing of it runs.
        lease.check()
        seconds = launcher.start_seconds or START_SECONDS
        browser = RunningBrowser(launcher, launcher.start(request, handle, timeout=seconds))
        try:
            lease.browser_started(browser.handle.to_json())
        except BaseException:
            try:
                browser.stop()
            except LauncherError as problem:
                log.warning("lease %d: %s", lease.id, problem, extra={"lease": lease.id})
            raise
        return browser

    def stop_recorded(self, browser: Mapping[str, Any]) -> str:
        """Stop the browser that a lease recorded (what the reaper is given).

        Raises:
            StopNotProvenError: It may still run.
        """
        try:
            handle = BrowserHandle.from_json(browser)
        except TypeError as error:
            raise StopNotProvenError(f"the lease's record of its browser cannot be read: {error}") from error
        return RunningBrowser(self.launcher(handle.launcher), handle).stop()

    def _proxy(self, proxy_id: int | None) -> Proxy | None:
        if proxy_id is None:
            return None
        row = find_proxy(self._database, proxy_id)
        return Proxy(name=row.name, server=row.server, username=row.username, secret=row.secret)


def build_launcher(row: LauncherRow, settings: Settings) -> Launcher:
    """Make the launcher object of a row.

    Everything that can be checked without the network is checked.

    Raises:
        BadInputError: There is no launcher of that kind, or its options cannot be right.
    """
    build = KINDS.get(row.kind)
    if build is None:
        raise BadInputError(
            f"launcher {row.name}: kind {row.kind!r} is not known{did_you_mean(row.kind, KINDS)}; "
            f"known are {', '.join(KINDS)}"
        )
    try:
        return build(row, settings)
    except BadInputError as error:
        raise BadInputError(f"launcher {row.name}: {error}") from error


def _local(row: LauncherRow, settings: Settings) -> Launcher:
    from poolsql.launchers.local.launcher import LocalLauncher  # noqa: PLC0415 - parts of it are of POSIX alone

    return LocalLauncher(row.name, settings.machine, settings.data_dir, settings.chromium, row.options)


def _rest(row: LauncherRow, settings: Settings) -> Launcher:
    from poolsql.launchers.rest.launcher import RestLauncher  # noqa: PLC0415 - a fleet without one need not load it

    return RestLauncher(row.name, settings.machine, row.options)


KINDS: Mapping[str, Callable[[LauncherRow, Settings], Launcher]] = {"local": _local, "rest": _rest}
"""What makes a launcher, by the kind that its row names."""


def _check_options(launcher: Launcher, name: str, options: Mapping[str, Any], *, of_start: bool) -> None:
    try:
        launcher.check_options(options, of_start=of_start)
    except BadInputError as error:
        raise BadInputError(f"launcher {name}: {error}") from error
