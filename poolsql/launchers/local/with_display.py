"""Start a display that nobody sees, then become the browser: ``python with_display.py XVFB AUTHORITY COMMAND …``.

A program of its own, with nothing but the standard library, so that the display belongs to the browser and to nobody
else: it runs in the browser's session, carries the browser's mark, and ends a few seconds after its last client. The
browser keeps this program's process id and start time, so a worker that dies between the two starts leaves nothing
that the stop of the lease does not find.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

_SCREEN = "1920x1080x24"
_READY_SECONDS = 30.0
"""More than a start may take; whoever started this gives up earlier, unless it is dead."""
_LINGER = "5"
"""Seconds that a display stays without a client. A browser's first connection may be gone before its second."""
_NUMBERS = (100, 50_000)
"""Of displays; people and other programs take theirs from the low end."""
_TRIES = 5
_TAKEN = "already active"
_ANY_ADDRESS = 0xFFFF
_PROTOCOL = b"MIT-MAGIC-COOKIE-1"
_FAILED = 70


def main(program: str, authority: str, command: list[str]) -> int:
    """Start the display and run `command` on it in this very process; returns only when there is no display.

    Args:
        program: The X server.
        authority: Where its key is written; who cannot read this file cannot look at the display.
        command: The browser and its arguments.
    """
    _write_key(Path(authority))
    number, said = _start(program, authority)
    if number is None:
        sys.stderr.write(f"the display server {program} did not start{': ' + said if said else ''}\n")
        return _FAILED
    return _become(command, {**os.environ, "DISPLAY": f":{number}", "XAUTHORITY": authority})


def _become(command: list[str], environment: Mapping[str, str]) -> NoReturn:
    for ignored_by_python in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, ignored_by_python), signal.SIG_DFL)
    os.execve(command[0], command, environment)  # noqa: S606 - no shell; the program is the one that was configured


def _write_key(path: Path) -> None:
    """A file with one key, for any display number."""
    key = secrets.token_bytes(16)
    fields = (b"", b"", _PROTOCOL, key)
    data = struct.pack(">H", _ANY_ADDRESS) + b"".join(struct.pack(">H", len(field)) + field for field in fields)
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123 - with a mode
        file.write(data)


def _start(program: str, authority: str) -> tuple[int | None, str]:
    """The number of a display that accepts connections; None, and what the server said, if there is none."""
    said = ""
    for _ in range(_TRIES):
        # The server's own choice of a number takes no lock: one that ends removes the socket of one that begins.
        number = _NUMBERS[0] + secrets.randbelow(_NUMBERS[1] - _NUMBERS[0])
        ready, said = _start_as(number, program, authority)
        if ready:
            return number, ""
        if _TAKEN not in said:
            break
    return None, said


def _start_as(number: int, program: str, authority: str) -> tuple[bool, str]:
    reading, writing = os.pipe()
    command = [program, f":{number}", "-displayfd", str(writing), "-screen", "0", _SCREEN]
    command += ["-nolisten", "tcp", "-auth", authority, "-terminate", _LINGER]
    # A file, since a pipe that nobody reads any more would end the server's own helpers.
    with os.fdopen(reading, "rb") as telling, tempfile.TemporaryFile() as said:
        try:
            server = subprocess.Popen(  # noqa: S603 - no shell; the program is the one that was configured
                command, pass_fds=[writing], stdout=subprocess.DEVNULL, stderr=said
            )
        except OSError as error:
            return False, str(error.strerror)
        finally:
            os.close(writing)
        try:
            answers, _, _ = select.select([telling], [], [], _READY_SECONDS)
            ready = bool(answers and telling.readline().strip())
        except BaseException:  # Ctrl-C
            server.kill()
            raise
        if not ready:
            server.kill()
            server.wait()
        said.seek(0)
        lines = said.read().decode(errors="replace").splitlines()
    return ready, " ".join(line.strip() for line in lines[-4:] if line.strip())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
