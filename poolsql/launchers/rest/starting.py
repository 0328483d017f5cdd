"""Starting a browser through an API: tries, and what is left behind when they fail.

An answer can be lost while the browser comes up. So each try that is not known to have done nothing counts as a
browser that may run: before the next try, and after the last one, the API is told to stop it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from poolsql.deadlines import Deadline, wait_until
from poolsql.errors import BadInputError, LaunchFailedError, LaunchFault, StopNotProvenError
from poolsql.launchers.addresses import accepts_connections, checked_cdp_url, shown
from poolsql.launchers.contract import BrowserHandle, LaunchRequest, StopRung
from poolsql.launchers.rest.answers import Missing
from poolsql.launchers.rest.api import Api, ApiError
from poolsql.launchers.rest.options import RestOptions
from poolsql.launchers.rest.retrying import with_retries
from poolsql.launchers.rest.stopping import Stopper
from poolsql.launchers.rest.templates import Value
from poolsql.redaction import HIDDEN, redact

log = logging.getLogger(__name__)

_RESERVE = (0.25, 10.0)
"""Share of the whole time, and seconds at most, that is kept for stopping what may run after a start that failed."""
_OPENS = (0.5, 10.0)
"""Share of the time that is left, and seconds at most, until a browser accepts connections at its address."""


class Start:
    """One start of one profile.

    Args:
        api: The API.
        options: The launcher's options.
        stopper: Stops what a failed try may have left.
        request: What is to be started.
        handle: As it was prepared, without an address.
        values: What fills the places of the API's actions.
    """

    def __init__(
        self,
        api: Api,
        options: RestOptions,
        stopper: Stopper,
        *,
        request: LaunchRequest,
        handle: BrowserHandle,
        values: Mapping[str, Value],
    ) -> None:
        self._api = api
        self._options = options
        self._stopper = stopper
        self._request = request
        self._handle = handle
        self._values = values
        self._may_run = False
        self._in_flight = False

    def run(self, deadline: Deadline, *, sleep: Callable[[float], None]) -> str:
        """Start the browser and return its address, at which connections are accepted.

        Raises:
            LaunchFailedError: It did not start; ``stop_rung`` says how it is proven that nothing runs, or the message
                says that it may.
            LeaseLostError: The lease was lost meanwhile, as the request's ``still_wanted`` says. Whoever took the
                lease back stops what may run: it may be another lease's browser by now.
        """
        share, at_most = _RESERVE
        tries_end = Deadline(deadline.left() - min(deadline.seconds * share, at_most))
        try:
            return with_retries(lambda: self._try_once(tries_end), tries_end, sleep=sleep)
        except ApiError as error:
            raise self._failed(error, deadline) from None

    def _try_once(self, tries_end: Deadline) -> str:
        self._request.still_wanted()
        if self._may_run:
            self._stop_what_may_run(tries_end)
        key = self._request.profile_key
        try:
            data = self._api.call(self._options.start, key, self._values, tries_end)
        except ApiError as error:
            # After a try that may have worked, "in use" can mean by ourselves: nobody knows that the profile is bad.
            if self._may_run and error.fault is LaunchFault.PROFILE and not error.not_running:
                error.fault = LaunchFault.LAUNCHER
            self._may_run = self._may_run or error.may_have_acted
            self._in_flight = self._in_flight or error.in_flight
            raise
        self._may_run = True
        found = self._options.cdp_url.find(data)
        place = f"profile {key}: the answer to its start"
        if isinstance(found, Missing):
            raise ApiError(f"{place} has no address of the browser at {self._options.cdp_url.text}")
        try:
            cdp_url = checked_cdp_url(found)
        except BadInputError as error:
            raise ApiError(f"{place}: {self._options.cdp_url.text} {error}") from None
        if HIDDEN in redact(cdp_url):
            # It would be kept with the lease, where everybody who may read the tables reads it.
            raise ApiError(f"{place}: the address of the browser holds a secret, which cannot be kept with the lease")
        share, at_most = _OPENS
        patience = tries_end.part(share, at_most=at_most)
        if not wait_until(lambda: accepts_connections(cdp_url, patience), patience):
            raise ApiError(
                f"{place}: nothing accepts connections at {shown(cdp_url)} after {patience.spent():.3g} s; is the "
                "browser on a machine whose debugging port cannot be reached from here?"
            )
        return cdp_url

    def _stop_what_may_run(self, deadline: Deadline) -> None:
        # If it cannot be proven, the next try is made all the same: a product does not run a profile twice, and its
        # answer says more than ours.
        share, at_most = _RESERVE
        patience = deadline.part(share, at_most=at_most)
        try:
            self._stopper.stop(self._handle, self._values, patience, is_settled=self._is_settled)
        except StopNotProvenError as problem:
            log.info("%s", problem)

    def _is_settled(self) -> bool:
        return not self._in_flight

    def _failed(self, error: ApiError, deadline: Deadline) -> LaunchFailedError:
        if not self._may_run:
            return LaunchFailedError(str(error), fault=error.fault, stop_rung=StopRung.NOT_RUNNING.value)
        try:
            rung = self._stopper.stop(self._handle, self._values, deadline, is_settled=self._is_settled)
        except StopNotProvenError as not_proven:
            return LaunchFailedError(f"{error}; and it may run all the same: {not_proven}", fault=error.fault)
        return LaunchFailedError(str(error), fault=error.fault, stop_rung=rung.value)
