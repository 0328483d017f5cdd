"""From launcher rows to browsers: starting one under a lease, and stopping what any lease recorded."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from poolsql.database.engine import Database
from poolsql.errors import BadInputError, LaunchFailedError, StopNotProvenError
from poolsql.launchers.contract import BrowserHandle, Launcher, LaunchRequest, Proxy
from poolsql.launchers.local.launcher import LocalLauncher
from poolsql.leasing.lease import Lease
from poolsql.leasing.registry import LauncherRow, find_launcher, find_proxy
from poolsql.settings import Settings

log = logging.getLogger(__name__)

START_SECONDS = 30.0
STOP_SECONDS = 20.0

KINDS = {LocalLauncher.kind: LocalLauncher}


class Browsers:
    """Starts and stops browsers through the launchers that the database names."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings

    def launcher(self, name: str) -> Launcher:
        """The launcher of a row, with its options as they are now.

        Raises:
            UnknownNameError: There is no such row.
            LaunchFailedError: This version cannot drive a launcher of that kind.
        """
        return build_launcher(find_launcher(self._database, name), self._settings)

    def start(self, lease: Lease, *, options: Mapping[str, Any]) -> BrowserHandle:
        """Start the leased profile's browser; what could go wrong is written down before it can.

        Raises:
            LaunchFailedError: It did not start; nothing is left running, or the lease still records it.
            LeaseLostError: The lease was lost meanwhile; nothing is left running.
        """
        profile = lease.profile
        launcher = self.launcher(profile.launcher)
        request = LaunchRequest(
            lease_id=lease.id,
            profile_id=profile.id,
            profile_key=profile.key,
            proxy=self._proxy(profile.proxy_id),
            options={**profile.options, **options},
        )
        handle = launcher.prepare(request)
        machine = handle.machine if launcher.pins_machine else None
        lease.browser_starting(handle.to_json(), machine=machine, directory=handle.directory)
        started = launcher.start(request, handle, timeout=START_SECONDS)
        try:
            lease.browser_started(started.to_json())
        except BaseException:
            launcher.stop(started, timeout=STOP_SECONDS)
            raise
        return started

    def stop(self, handle: BrowserHandle) -> str:
        """Stop a browser, prove it, and return the rung of the ladder that did it.

        Raises:
            StopNotProvenError: It may still run.
        """
        return self.launcher(handle.launcher).stop(handle, timeout=STOP_SECONDS).rung.value

    def stop_recorded(self, browser: Mapping[str, Any]) -> str:
        """Stop the browser that a lease recorded (what the reaper is given).

        Raises:
            StopNotProvenError: It may still run.
        """
        try:
            handle = BrowserHandle.from_json(browser)
        except TypeError as error:
            raise StopNotProvenError(f"the lease's record of its browser cannot be read: {error}") from error
        return self.stop(handle)

    def _proxy(self, proxy_id: int | None) -> Proxy | None:
        if proxy_id is None:
            return None
        row = find_proxy(self._database, proxy_id)
        return Proxy(name=row.name, server=row.server, username=row.username, secret=row.secret)


def build_launcher(row: LauncherRow, settings: Settings) -> Launcher:
    """Make the launcher object of a row.

    Raises:
        LaunchFailedError: There is no launcher of that kind, or its options cannot be right.
    """
    if row.kind not in KINDS:
        raise LaunchFailedError(f"launcher {row.name}: kind {row.kind!r} is not known; known are {', '.join(KINDS)}")
    try:
        return LocalLauncher(row.name, settings.machine, settings.data_dir, settings.chromium, row.options)
    except BadInputError as error:
        raise LaunchFailedError(f"launcher {row.name}: {error}") from error
