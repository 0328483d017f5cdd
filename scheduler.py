"""The program, from a source tree: ``python scheduler.py …`` is ``poolsql …``."""

from __future__ import annotations

from poolsql.__main__ import main

if __name__ == "__main__":
    main()
