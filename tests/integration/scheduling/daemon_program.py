"""A daemon for the tests that start several: ``python -m tests.integration.scheduling.daemon_program [SECONDS]``.

The address is in POOLSQL_DATABASE_URL. With SECONDS this process's own clock is so far ahead of the machine's.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta

import time_machine


def main() -> None:
    """Run until a signal."""
    if len(sys.argv) > 1:
        ahead = timedelta(seconds=float(sys.argv[1]))
        time_machine.travel(datetime.now(UTC) + ahead, tick=True).start()
    from poolsql.fleet.fleet import connect  # noqa: PLC0415 - after the clock is set, which some modules copy
    from poolsql.logs import configure_logging  # noqa: PLC0415
    from poolsql.scheduling.daemon import Daemon  # noqa: PLC0415
    from poolsql.settings import process_settings  # noqa: PLC0415

    configure_logging(process_settings())
    with connect() as fleet:
        Daemon(fleet).run()


if __name__ == "__main__":
    main()
