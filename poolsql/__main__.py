"""``python -m poolsql``, ``poolsql`` and ``scheduler.py``: where the program starts."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the program. Its modules are loaded in here, so that Ctrl-C is one line from the first moment on."""
    try:
        from poolsql.cli.main import INTERRUPTED, run  # noqa: PLC0415 - see above
    except KeyboardInterrupt:
        sys.stderr.write("poolsql: interrupted\n")
        sys.exit(130)
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
