"""Run a command, but not for longer than so many seconds: ``python tools/within.py SECONDS COMMAND …``.

Like ``timeout``, but everywhere, and everything that the command started ends with it: at the time-out (exit code 124),
at Ctrl-C and at SIGTERM.
"""

# ruff: noqa: INP001, T201 - a script, not a package

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys


def main() -> int:
    """Run the command of the command line and return its exit code."""
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - its own command line
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        print(f"Error: not done after {seconds:.0f} s", flush=True)
        return 124
    except KeyboardInterrupt:
        return 130
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
