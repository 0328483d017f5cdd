"""Start a browser process and wait until it can be driven."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from poolsql.deadlines import Deadline
from poolsql.errors import LaunchFailedError, LaunchFault, StopNotProvenError
from poolsql.launchers.local.stopping import kill_browser
from poolsql.launchers.processes import ProcessIdentity, identify

_PORT_FILE = "DevToolsActivePort"
_ADDRESS = re.compile(r"(\d+)\n(/devtools/browser/[0-9a-f-]{36})\s*")
_RESERVE_SECONDS = 2.0
"""Of the whole time, what is kept for ending a browser that does not come up."""
_PROFILE_IN_USE = 21
"""Chromium's exit code when another browser, or another host, holds the lock of the directory."""
_NO_SOCKET = "Failed to create socket directory"
"""What it says before it ends with the same code, because it cannot make the socket that goes with the lock."""
_NO_SANDBOX = re.compile("no usable sandbox|setuid sandbox|sys_chroot|move to new namespace", re.IGNORECASE)
"""What it says when it ends because the system, or the container, allows no user namespaces."""
_LAST_LINES = 8
_LINE_BYTES = 400
_NOISE = "ERROR:dbus/"
"""A machine without D-Bus, such as a container, gets dozens of these lines and is none the worse."""


@dataclass(frozen=True, slots=True)
class StartedBrowser:
    """A browser that answers at `cdp_url`."""

    process: ProcessIdentity
    cdp_url: str


def read_address(directory: Path) -> str | None:
    """The address of the browser that runs on the directory, if it has written it already.

    The address names this one browser: after a restart it is refused, never answered by another one.
    """
    try:
        match = _ADDRESS.fullmatch((directory / _PORT_FILE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return match and f"ws://127.0.0.1:{match[1]}{match[2]}"


def start_browser(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    deadline: Deadline,
    wrapper: Sequence[str] = (),
) -> StartedBrowser:
    """Start `command` in a session of its own and wait until it has opened its debugging port.

    A `wrapper` goes before the command and becomes it in the same process, once all is ready for it. Nobody else may
    use the directory or start a browser on it (see `only_starter`). The browser outlives this process; while this
    process lives, the browser's end leaves no zombie.

    Raises:
        LaunchFailedError: It ended early or was not ready in time. Nothing is left running, or the message says so.
    """
    (directory / _PORT_FILE).unlink(missing_ok=True)
    child = _Child(command, environment, directory, wrapper)
    try:
        return _wait(child, directory, deadline)
    except LaunchFailedError as error:
        try:
            kill_browser(str(directory), child.process, deadline)
            if error.fault is not LaunchFault.PROFILE:
                # A wrapper may have started the browser in another session.
                kill_browser(str(directory), None, deadline)
        except StopNotProvenError as not_proven:
            raise LaunchFailedError(
                f"{error}; and a part of it may still run: {not_proven}", fault=error.fault
            ) from error
        raise
    except BaseException:  # Ctrl-C, or a task that was cancelled
        kill_browser(str(directory), child.process, deadline)
        raise


def _wait(child: _Child, directory: Path, deadline: Deadline) -> StartedBrowser:
    reserve = min(_RESERVE_SECONDS, deadline.seconds / 4)
    while True:
        code = child.exit_code()
        if code is not None:
            raise _ended_early(child, directory, code)
        address = read_address(directory)
        if address is not None:
            return StartedBrowser(process=child.process, cdp_url=address)
        if deadline.left() <= reserve:
            raise LaunchFailedError(
                f"browser {child.name}: not ready after {deadline.spent():.3g} s on {directory}{child.last_words()}"
            )
        deadline.pause()


def _ended_early(child: _Child, directory: Path, code: int) -> LaunchFailedError:
    if code == _PROFILE_IN_USE and _NO_SOCKET in child.last_words():
        return LaunchFailedError(
            f"browser {child.name}: cannot use the directory for temporary files "
            f"{os.environ.get('TMPDIR', '/tmp')}; make room in it, or set TMPDIR to one that can be written"  # noqa: S108 - only told
        )
    if code == _PROFILE_IN_USE:
        return LaunchFailedError(
            f"profile directory {directory}: Chromium says that another browser uses it (exit code {code}); "
            "stop that browser first",
            fault=LaunchFault.PROFILE,
        )
    if _NO_SANDBOX.search(child.last_words()):
        return LaunchFailedError(
            f"browser {child.name}: this system does not let it keep its pages in a sandbox; allow user namespaces "
            "without privileges (in a container by its seccomp profile), or set the option sandbox = false if you "
            f"trust the pages{child.last_words()}"
        )
    how = f"ended with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
    return LaunchFailedError(f"browser {child.name}: {how} before it was ready{child.last_words()}")


class _Child:
    """A browser as a child of this process: a thread keeps its last words and reaps it."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], directory: Path, wrapper: Sequence[str]
    ) -> None:
        self.name = command[0]
        reading, writing = os.pipe()
        if os.name == "posix":
            # When nobody reads any more, because this process is frozen or dead, the browser must not wait for it.
            os.set_blocking(writing, False)
        try:
            self._popen = subprocess.Popen(  # noqa: S603 - no shell; the program is the one that was configured
                [*wrapper, *command],
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writing,
                start_new_session=True,
                umask=0o077 if os.name == "posix" else -1,
            )
        except OSError as error:
            os.close(reading)
            raise LaunchFailedError(f"browser {self.name}: cannot be started ({error.strerror})") from error
        finally:
            os.close(writing)
        # Not reaped yet, so its entry in the process table is there even if it has ended already.
        self.process = identify(self._popen.pid) or ProcessIdentity(self._popen.pid, "ended")
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._reader = threading.Thread(
            target=self._attend, args=(reading,), name=f"poolsql-browser-{self._popen.pid}", daemon=True
        )
        self._reader.start()

    def exit_code(self) -> int | None:
        return self._popen.poll()

    def last_words(self) -> str:
        """What it wrote last, as the end of a message; waits a moment for what is on its way."""
        if self.exit_code() is not None:
            self._reader.join(timeout=0.5)
        lines = [line for line in self._lines.copy() if line]
        return f"; its last words: {' | '.join(lines)}" if lines else ""

    def _attend(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as stream:
            while line := stream.readline(_LINE_BYTES):
                text = line.decode(errors="replace").strip()
                if _NOISE not in text:
                    self._lines.append(text)
        self._popen.wait()
