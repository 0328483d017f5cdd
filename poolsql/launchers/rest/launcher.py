"""The launcher of kind `rest`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from poolsql.clocks import elapsed_clock
from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError, LauncherError, LaunchFailedError, LaunchFault, StopNotProvenError
from poolsql.launchers.addresses import is_gone, is_on_this_machine
from poolsql.launchers.contract import BrowserHandle, LaunchRequest, StopReport
from poolsql.launchers.rest.answers import BrowserState
from poolsql.launchers.rest.api import Api
from poolsql.launchers.rest.options import ID, path_problem
from poolsql.launchers.rest.reading import read_options
from poolsql.launchers.rest.starting import Start
from poolsql.launchers.rest.stopping import Stopper
from poolsql.launchers.rest.templates import Value

SETTLE_SECONDS = 20.0
"""How long a product may be at a request to start after nobody waits for its answer any more."""


class RestLauncher:
    """Lets a product start and stop the browser of a profile, through the product's HTTP API.

    One object may be used by several threads. Any process that reaches the API can stop a browser by its handle; when
    the API, or the browser's address, is one of the loopback, only processes of the machine that started it.

    What it cannot see: the processes of the browser. A stop is proven by the browser's address, which refuses
    connections; a browser whose address was never learned, by what the API says (see `stopping`).

    Args:
        name: Name of the launcher's row.
        machine: Name of this machine, as in `Settings.machine`.
        options: See `RestOptions`, and the page on launchers in the documentation.
        sleep: Waits between two tries of a start.

    Raises:
        BadInputError: Options cannot be right; the message names all of them.
    """

    kind: ClassVar[str] = "rest"
    pins_machine: ClassVar[bool] = False

    def __init__(
        self, name: str, machine: str, options: Mapping[str, Any], *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._name = name
        self._machine = machine
        self._options = read_options(options)
        self._api = Api(self._options)
        self._stopper = Stopper(self._api, self._options)
        self._sleep = sleep

    @property
    def stops_here_only(self) -> bool:
        """Whether the API is on the machine of whoever uses it, so that another machine asks another product."""
        return is_on_this_machine(self._options.base_url)

    @property
    def start_seconds(self) -> float | None:
        """How long a start may take with all its tries: the option ``start_timeout``."""
        return self._options.start_timeout

    def check_options(self, options: Mapping[str, Any], *, of_start: bool = False) -> None:
        """Make sure that a profile, or one start, can have these options: ``headless`` and the launcher's variables.

        Raises:
            BadInputError: It cannot; the message names everything that is wrong.
        """
        self._options.values(options)

    def prepare(self, request: LaunchRequest) -> BrowserHandle:
        """Check key and options of the profile; the API is not asked.

        Raises:
            LaunchFailedError: The browser could not start; `fault` is PROFILE.
        """
        values = self._values(request)
        del values[ID]
        return BrowserHandle(
            launcher=self._name,
            machine=self._machine,
            profile_key=request.profile_key,
            variables=values,
        )

    def start(self, request: LaunchRequest, handle: BrowserHandle, *, timeout: float) -> BrowserHandle:
        """Ask the API to start the browser, again after 2, 4 and 8 seconds when it fails by the launcher's fault.

        Before another try, and after the last one, what a lost answer may have left running is stopped.

        Raises:
            LaunchFailedError: It did not start within `timeout` seconds. ``stop_rung`` tells that nothing of it runs;
                when it is None, it may. `fault` is PROFILE when the API knows no such profile, or the profile is in
                use elsewhere.
        """
        deadline = Deadline(timeout)
        values = self._values(request)
        try:
            self._refuse_foreign(handle)
        except LauncherError as error:
            raise LaunchFailedError(str(error), fault=LaunchFault.PROFILE) from error
        start = Start(self._api, self._options, self._stopper, request=request, handle=handle, values=values)
        return handle.started(cdp_url=start.run(deadline, sleep=self._sleep))

    def stop(self, handle: BrowserHandle, *, timeout: float) -> StopReport:
        """Ask the API to stop the browser, and prove it: see `stopping` for what that proof is.

        A browser whose address is gone already is not asked about: a later browser of the profile is left alone.

        Raises:
            StopNotProvenError: It may still run after `timeout` seconds, or the handle is of another machine.
        """
        deadline = Deadline(timeout)
        try:
            self._refuse_foreign(handle)
        except LauncherError as error:
            raise StopNotProvenError(str(error)) from error
        began = elapsed_clock()
        rung = self._stopper.stop(
            handle, self._stop_values(handle), deadline, is_settled=lambda: self._is_settled(handle)
        )
        return StopReport(rung=rung, seconds=elapsed_clock() - began)

    def is_running(self, handle: BrowserHandle) -> bool:
        """Whether the browser may run.

        Raises:
            LauncherError: The handle is of another machine; or the browser's address was never learned, and the API
                cannot be asked for its state.
        """
        self._refuse_foreign(handle)
        deadline = Deadline(self._options.request_timeout)
        if handle.cdp_url is not None:
            return not is_gone(handle.cdp_url, deadline)
        return self._stopper.state(handle, self._stop_values(handle), deadline) is not BrowserState.STOPPED

    def _values(self, request: LaunchRequest) -> dict[str, Value]:
        key = request.profile_key
        problem = path_problem(key)
        if problem is not None:
            raise LaunchFailedError(f"profile {key}: its id {problem}", fault=LaunchFault.PROFILE)
        try:
            return {**self._options.values(request.options), ID: key}
        except BadInputError as error:
            raise LaunchFailedError(f"profile {key}: {error}", fault=LaunchFault.PROFILE) from error

    def _is_settled(self, handle: BrowserHandle) -> bool:
        # Its start was recorded before the lease was taken back, and sent its last request within its time; the
        # product may have been at it for longer.
        unsettled_for = self._options.start_timeout + SETTLE_SECONDS
        return handle.reclaiming_for is not None and handle.reclaiming_for >= unsettled_for

    def _stop_values(self, handle: BrowserHandle) -> dict[str, Value]:
        # As they were when it was started, with what the launcher's actions need by now.
        return {**self._options.variables, **(handle.variables or {}), ID: handle.profile_key}

    def _refuse_foreign(self, handle: BrowserHandle) -> None:
        is_local = self.stops_here_only or (handle.cdp_url is not None and is_on_this_machine(handle.cdp_url))
        if is_local and handle.machine != self._machine:
            raise LauncherError(
                f"profile {handle.profile_key}: its browser is on machine {handle.machine}, out of reach from "
                f"{self._machine}; a poolsql daemon must run there"
            )
