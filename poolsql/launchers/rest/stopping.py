"""Stopping a browser through an API, and what can be proven about it.

With the browser's address the proof is the address: it refuses connections, or what answers there knows no such
browser. Whether every process of the browser has ended too is known to the product alone.

Without the address, because the answer of the start was lost, the product's word is all there is: a stop that it
confirms, or the state that its status action tells. Where the API has a status action, only that counts. And as long
as the start may still be under way, "not running" is no proof: the browser can come up a moment later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from poolsql.deadlines import Deadline, wait_until
from poolsql.errors import LauncherError, StopNotProvenError
from poolsql.launchers.addresses import is_gone, shown
from poolsql.launchers.contract import BrowserHandle, StopRung
from poolsql.launchers.rest import retrying
from poolsql.launchers.rest.answers import BrowserState
from poolsql.launchers.rest.api import Api, ApiError
from poolsql.launchers.rest.options import RestOptions
from poolsql.launchers.rest.templates import Value

_ASK_EVERY = 0.25
"""Seconds between two questions for the state."""
_LAST_LOOK = 0.5
"""Seconds for which a browser is watched whose stop was refused."""


class Stopper:
    """Stops browsers of one launcher.

    Args:
        api: The API.
        options: The launcher's options.
    """

    def __init__(self, api: Api, options: RestOptions) -> None:
        self._api = api
        self._options = options

    def stop(
        self,
        handle: BrowserHandle,
        values: Mapping[str, Value],
        deadline: Deadline,
        *,
        is_settled: Callable[[], bool],
    ) -> StopRung:
        """Stop a browser and prove it.

        Args:
            values: What fills the places of the actions.
            is_settled: Whether no request to start the browser can be under way any more.

        Raises:
            StopNotProvenError: It may still run when the time is over, or may yet come up.
        """
        address = handle.cdp_url
        if address is not None:
            return self._stop(handle, values, deadline, lambda: is_gone(address, deadline), f"{shown(address)} answers")
        if self._options.status is not None:
            seen: set[BrowserState] = set()
            rung = self._stop(
                handle,
                values,
                deadline,
                lambda: self._is_stopped(handle, values, deadline, seen),
                "the product does not call it stopped",
            )
            came_up = bool(seen - {BrowserState.STOPPED, BrowserState.UNKNOWN})
        else:
            rung, came_up = self._stop_on_trust(handle, values, deadline), False
        if not came_up and not is_settled():
            raise StopNotProvenError(
                f"profile {handle.profile_key}: its browser does not run yet, but its start may still be under way; "
                "it is stopped again later"
            )
        return rung

    def state(self, handle: BrowserHandle, values: Mapping[str, Value], deadline: Deadline) -> BrowserState:
        """What the API says about the profile's browser.

        Raises:
            ApiError: It says nothing.
            LauncherError: It has no status action.
        """
        action, rule = self._options.status, self._options.status_rule
        if action is None or rule is None:
            raise LauncherError(
                f"profile {handle.profile_key}: the address of its browser was never learned, and the launcher has no "
                "status action to ask"
            )
        try:
            return rule.state(self._api.call(action, handle.profile_key, values, deadline))
        except ApiError as error:
            if error.not_running:
                return BrowserState.STOPPED
            raise

    def _stop(
        self,
        handle: BrowserHandle,
        values: Mapping[str, Value],
        deadline: Deadline,
        is_stopped: Callable[[], bool],
        otherwise: str,
    ) -> StopRung:
        # Asked for first: a late stop must not end a browser that was started since.
        if is_stopped():
            return StopRung.NOT_RUNNING
        problem: ApiError | None = None
        for wait in (*retrying.WAITS, None):
            problem = self._ask_to_stop(handle, values, deadline)
            is_last = wait is None or problem is None or not problem.retry
            if problem is None or (is_last and problem.may_have_acted):
                patience = deadline
            else:
                pause = _LAST_LOOK if is_last else max(wait or 0, problem.retry_after or 0)
                patience = deadline.part(1, at_most=pause)
            # A stop whose answer was lost may have worked.
            if wait_until(is_stopped, patience):
                return StopRung.VENDOR
            if is_last or not deadline.left():
                break
        raise StopNotProvenError(
            f"profile {handle.profile_key}: its browser may still run after {deadline.spent():.3g} s: {otherwise}"
            + (f", and {problem}" if problem is not None else "")
            + "; stop it in the product"
        )

    def _stop_on_trust(self, handle: BrowserHandle, values: Mapping[str, Value], deadline: Deadline) -> StopRung:
        problem: ApiError | None = None
        for wait in (*retrying.WAITS, None):
            problem = self._ask_to_stop(handle, values, deadline)
            if problem is None:
                return StopRung.VENDOR
            if problem.not_running:
                return StopRung.NOT_RUNNING
            pause = max(wait or 0, problem.retry_after or 0)
            if wait is None or not problem.retry or pause >= deadline.left():
                break
            time.sleep(pause)
        raise StopNotProvenError(
            f"profile {handle.profile_key}: its browser may run, and its address was never learned: {problem}; stop it "
            "in the product"
        )

    def _ask_to_stop(self, handle: BrowserHandle, values: Mapping[str, Value], deadline: Deadline) -> ApiError | None:
        try:
            self._api.call(self._options.stop, handle.profile_key, values, deadline, wants_json=False)
        except ApiError as error:
            return error
        return None

    def _is_stopped(
        self, handle: BrowserHandle, values: Mapping[str, Value], deadline: Deadline, seen: set[BrowserState]
    ) -> bool:
        with suppress(ApiError):
            state = self.state(handle, values, deadline)
            seen.add(state)
            if state is BrowserState.STOPPED:
                return True
        time.sleep(min(_ASK_EVERY, deadline.left()))
        return False
