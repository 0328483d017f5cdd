"""The launcher of kind `local`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from poolsql.clocks import elapsed_clock
from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError, LauncherError, LaunchFailedError, LaunchFault, StopNotProvenError
from poolsql.launchers.contract import BrowserHandle, LaunchRequest, StopReport
from poolsql.launchers.local.browser_processes import find_browser
from poolsql.launchers.local.command import LocalOptions, browser_command, browser_environment, read_options
from poolsql.launchers.local.directories import open_directory, profile_directory
from poolsql.launchers.local.displays import display_wrapper
from poolsql.launchers.local.exclusive import no_start_under_way, only_starter
from poolsql.launchers.local.executable import find_executable
from poolsql.launchers.local.locks import take_unused
from poolsql.launchers.local.starting import read_address, start_browser
from poolsql.launchers.local.stopping import stop_browser
from poolsql.launchers.processes import ProcessIdentity

_START_ENDS = (0.2, 2.0)
"""Share of a stop's time, and seconds at most, for waiting until a start that is under way has ended."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a browser is started: its command line, its environment, and what brings it a display."""

    command: list[str]
    environment: dict[str, str]
    wrapper: list[str]


class LocalLauncher:
    """Starts Chromium on this machine, on the profile's own user data directory.

    One object may be used by several threads. A browser outlives the process that started it, and any process of
    this machine and user can stop it by its handle.

    Args:
        name: Name of the launcher's row.
        machine: Name of this machine, as in `Settings.machine`.
        data_dir: Where profile directories live, as in `Settings.data_dir`.
        executable: The browser; None for the first one that is found.
        options: See `LocalOptions`; those of a request win over these.

    Raises:
        BadInputError: An option cannot be right.
    """

    kind: ClassVar[str] = "local"
    pins_machine: ClassVar[bool] = True
    stops_here_only: ClassVar[bool] = True
    start_seconds: ClassVar[float | None] = None

    def __init__(
        self,
        name: str,
        machine: str,
        data_dir: Path,
        executable: Path | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._name = name
        self._machine = machine
        self._data_dir = data_dir
        self._executable = executable
        self._options = dict(options or {})
        read_options(self._options)

    def check_options(self, options: Mapping[str, Any], *, of_start: bool = False) -> None:
        """Make sure that a profile, or one start, can have these options; only a profile can have a ``directory``.

        Raises:
            BadInputError: It cannot; the message names everything that is wrong.
        """
        read_options(options, of_profile=not of_start)

    def prepare(self, request: LaunchRequest) -> BrowserHandle:
        """Check browser, options, display, proxy and directory, which is created if this is the profile's first start.

        A directory of the profile's own (the option ``directory``) is not created: it is where an identity is.

        Raises:
            LaunchFailedError: The browser could not start; `fault` is PROFILE when other profiles could.
        """
        own = self._read(request).directory
        if own is not None:
            directory = open_directory(own, create=False)
        else:
            directory = open_directory(profile_directory(self._data_dir, self._name, request.profile_key))
        self._plan(request, directory)
        take_unused(directory)
        return BrowserHandle(
            launcher=self._name, machine=self._machine, profile_key=request.profile_key, directory=str(directory)
        )

    def start(self, request: LaunchRequest, handle: BrowserHandle, *, timeout: float) -> BrowserHandle:
        """Start the browser that `prepare` made the handle for; its address is a websocket on 127.0.0.1.

        Raises:
            LaunchFailedError: It did not start within `timeout` seconds; nothing of it is left running, or the
                message says so. `fault` is PROFILE when another browser uses the directory.
        """
        deadline = Deadline(timeout)
        try:
            recorded = Path(self._directory(handle))
        except LauncherError as error:
            raise LaunchFailedError(str(error), fault=LaunchFault.PROFILE) from error
        directory = open_directory(recorded, create=self._read(request).directory is None)
        plan = self._plan(request, directory)
        with only_starter(directory):
            take_unused(directory)
            browser = start_browser(
                plan.command,
                environment=plan.environment,
                directory=directory,
                deadline=deadline,
                wrapper=plan.wrapper,
            )
        return handle.started(pid=browser.process.pid, process_started=browser.process.mark, cdp_url=browser.cdp_url)

    def stop(self, handle: BrowserHandle, *, timeout: float) -> StopReport:
        """Stop the browser by ``Browser.close``, SIGINT, SIGKILL, each with a part of the time, and prove it gone.

        A handle without a process id means whatever browser runs on the directory, since the process that started
        it died before it could tell. With one, a later browser on the directory is left alone.

        Raises:
            StopNotProvenError: Something of the browser is still alive after `timeout` seconds, its start is still
                under way, or the handle is of another machine.
        """
        deadline = Deadline(timeout)
        try:
            directory = self._directory(handle)
        except LauncherError as error:
            raise StopNotProvenError(str(error)) from error
        leader = _process(handle)
        began = elapsed_clock()
        if leader is not None:
            rung = stop_browser(directory, leader, handle.cdp_url, deadline)
        else:
            share, at_most = _START_ENDS
            with no_start_under_way(Path(directory), deadline.part(share, at_most=at_most)):
                rung = stop_browser(directory, None, read_address(Path(directory)), deadline)
        return StopReport(rung=rung, seconds=elapsed_clock() - began)

    def is_running(self, handle: BrowserHandle) -> bool:
        """Whether any process of the browser is alive, be it the main process or a helper that outlived it.

        Raises:
            LauncherError: The handle is of another machine.
        """
        return find_browser(self._directory(handle), _process(handle)).uses_directory()

    def _plan(self, request: LaunchRequest, directory: Path) -> _Plan:
        options = self._read(request)
        executable = find_executable(self._executable)
        environment = browser_environment(directory, options)
        return _Plan(
            command=browser_command(executable, directory, options, request.proxy),
            environment=environment,
            wrapper=display_wrapper(options, directory, environment),
        )

    def _read(self, request: LaunchRequest) -> LocalOptions:
        try:
            return read_options({**self._options, **request.options}, of_profile=True)
        except BadInputError as error:
            raise LaunchFailedError(f"profile {request.profile_key}: {error}", fault=LaunchFault.PROFILE) from error

    def _directory(self, handle: BrowserHandle) -> str:
        if handle.machine != self._machine:
            raise LauncherError(
                f"profile {handle.profile_key}: its browser is on machine {handle.machine}, out of reach from "
                f"{self._machine}; a poolsql daemon must run there"
            )
        if handle.directory is None:
            raise LauncherError(
                f"profile {handle.profile_key}: its handle names no directory, so it is not a local one"
            )
        return os.fspath(handle.directory)


def _process(handle: BrowserHandle) -> ProcessIdentity | None:
    if handle.pid is None or handle.process_started is None:
        return None
    return ProcessIdentity(handle.pid, handle.process_started)
