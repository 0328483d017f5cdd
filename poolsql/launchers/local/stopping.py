"""Stop a browser, gently first, and prove that nothing of it is left.

The ladder, with what each rung does to cookies that were set a moment before (measured): CDP ``Browser.close`` and
SIGINT keep them, SIGKILL loses what is younger than 30 seconds. SIGTERM is no rung: Chromium ends with exit code 0
and loses them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from websockets.exceptions import ConnectionClosed, WebSocketException

from poolsql.deadlines import Deadline, wait_until
from poolsql.errors import StopNotProvenError
from poolsql.launchers.addresses import connected
from poolsql.launchers.contract import StopRung
from poolsql.launchers.local.browser_processes import find_browser
from poolsql.launchers.local.locks import remove_stale_lock
from poolsql.launchers.processes import ProcessIdentity, interrupt, is_alive, kill

log = logging.getLogger(__name__)

# Shares of the time that is left when the rung is reached, and seconds after which more waiting helps nobody.
_CLOSE = (0.5, 10.0)
_INTERRUPT = (0.5, 5.0)
_HELPERS = (0.3, 1.0)
_DISPLAYS = (0.3, 2.0)
_CLOSE_FRAME_SECONDS = 0.5


def stop_browser(directory: str, leader: ProcessIdentity | None, cdp_url: str | None, deadline: Deadline) -> StopRung:
    """Bring a browser to its end and say which rung of the ladder ended its main process.

    Args:
        directory: Its user data directory.
        leader: The process that was started, None when that is not known (see `find_browser`).
        cdp_url: Its websocket address, if known.
        deadline: By when it must be over.

    Raises:
        StopNotProvenError: Something of it is still alive.
    """
    running = find_browser(directory, leader)
    rung = StopRung.NOT_RUNNING
    if running.uses_directory():
        rung = _stop_gently(running.mains, cdp_url, deadline) if running.mains else StopRung.KILLED
    if rung in {StopRung.CLOSED, StopRung.INTERRUPTED}:
        # Helpers end with their main process, a little later and after they have written what they hold.
        share, at_most = _HELPERS
        wait_until(lambda: not find_browser(directory, leader).uses_directory(), deadline.part(share, at_most=at_most))
    kill_browser(directory, leader, deadline)
    return rung


def kill_browser(directory: str, leader: ProcessIdentity | None, deadline: Deadline) -> None:
    """End at once whatever of a browser is alive, and take away the lock it leaves behind.

    Raises:
        StopNotProvenError: Something of it is still alive.
    """
    # Each round looks anew: a process can start another one in the moment before it is killed.
    share, at_most = _DISPLAYS
    patience = deadline.part(share, at_most=at_most)
    if not wait_until(partial(_kill_round, directory, leader, patience), deadline):
        running = find_browser(directory, leader)
        if running:
            raise StopNotProvenError(
                f"browser on {directory}: still running after {deadline.seconds:.3g} s (process {running.pids()}); "
                "end these processes by hand, as their owner"
            )
    remove_stale_lock(Path(directory))


def _kill_round(directory: str, leader: ProcessIdentity | None, patience: Deadline) -> bool:
    """Kill what is found, the main process first, which takes most others with it; True when nothing was found."""
    running = find_browser(directory, leader)
    for process in (*running.mains, *running.helpers):
        kill(process)
    for display in running.displays:
        # One that is killed leaves its lock and its socket among the temporary files.
        if not (patience.left() and interrupt(display)):
            kill(display)
    return not running


def _stop_gently(mains: Sequence[ProcessIdentity], cdp_url: str | None, deadline: Deadline) -> StopRung:
    share, at_most = _CLOSE
    patience = deadline.part(share, at_most=at_most)
    if cdp_url is not None and _ask_to_close(cdp_url, patience) and _wait_for_end(mains, patience):
        return StopRung.CLOSED
    share, at_most = _INTERRUPT
    patience = deadline.part(share, at_most=at_most)
    interrupted = [interrupt(process) for process in mains]  # a browser behind a wrapper script has two
    if any(interrupted) and _wait_for_end(mains, patience):
        return StopRung.INTERRUPTED
    return StopRung.KILLED


def _ask_to_close(cdp_url: str, patience: Deadline) -> bool:
    """Send ``Browser.close``; False when the browser cannot have got it."""
    try:
        close_within = min(_CLOSE_FRAME_SECONDS, patience.left())
        with connected(cdp_url, open_within=patience.left(), close_within=close_within) as connection:
            connection.send(json.dumps({"id": 1, "method": "Browser.close"}))
            with suppress(ConnectionClosed, TimeoutError):
                connection.recv(timeout=patience.left())
    except (OSError, EOFError, ValueError, WebSocketException) as error:
        log.debug("browser at %s cannot be asked to close: %s", cdp_url, error)
        return False
    return True


def _wait_for_end(mains: Sequence[ProcessIdentity], patience: Deadline) -> bool:
    return wait_until(lambda: not any(is_alive(process) for process in mains), patience)
