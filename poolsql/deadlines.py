"""A point in time by which something must have ended, and waiting for a condition until then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from math import isfinite
from typing import TypeVar

from poolsql.clocks import elapsed_clock
from poolsql.errors import BadInputError

Result = TypeVar("Result")

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.02


class Deadline:
    """A moment `seconds` from now, on the clock that also counts while the machine is suspended.

    Raises:
        BadInputError: `seconds` is not a positive, finite number; an operation without an end is refused.
    """

    def __init__(self, seconds: float) -> None:
        if not (isfinite(seconds) and seconds > 0):
            raise BadInputError(f"a time-out of {seconds!r} s cannot work; give a positive number of seconds")
        self._began = elapsed_clock()
        self._seconds = seconds

    @property
    def seconds(self) -> float:
        """The whole time that was given."""
        return self._seconds

    def spent(self) -> float:
        """Seconds since the deadline was set."""
        return elapsed_clock() - self._began

    def left(self) -> float:
        """Seconds that remain; 0 once it has passed."""
        return max(0.0, self._seconds - self.spent())

    def pause(self) -> bool:
        """Wait a moment before the next look at something that gives no signal; False, at once, when it has passed."""
        left = self.left()
        if left:
            time.sleep(min(_LONGEST_PAUSE, left))
        return left > 0

    def part(self, share: float, *, at_most: float) -> Deadline:
        """A nearer deadline: this share of what is left, and no more than `at_most` seconds."""
        # A deadline that has passed gives parts that pass at once.
        return Deadline(max(min(self.left() * share, at_most), 1e-9))


def wait_until(condition: Callable[[], bool], deadline: Deadline) -> bool:
    """Wait until `condition` holds; False when the deadline passed first. It is looked at once at least."""
    pause = _FIRST_PAUSE
    while not condition():
        left = deadline.left()
        if not left:
            return False
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return True


def finish_within(work: Callable[[], Result], deadline: Deadline, *, name: str) -> Result:
    """Run `work` in a thread called `name` and wait for it no longer than the deadline.

    For work that has no time-out for all of its steps together, such as a look-up of a name followed by a request.
    The thread that is given up goes on until its own next step fails; what it does then is lost.

    Raises:
        TimeoutError: It was not ready in time. Other errors are those of `work`.
    """
    future: Future[Result] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future.result(deadline.left())
