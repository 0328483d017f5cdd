"""The data directory: made whole or not at all, and opened only by programs of its own version."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from poolsql.database.embedded.account import Account, run_as
from poolsql.database.embedded.binaries import ServerBinaries, find_binaries
from poolsql.database.embedded.layout import Layout, make_private
from poolsql.deadlines import Deadline
from poolsql.errors import BadInputError, DatabaseUnavailableError

SUPERUSER = "poolsql"


def prepare_cluster(layout: Layout, account: Account | None, *, server_lock: int, deadline: Deadline) -> ServerBinaries:
    """Make the data directory when it is missing, and find the programs that fit it.

    Args:
        layout: Its start lock is held by the caller.
        account: Whom the server runs as.
        server_lock: Descriptor that holds the server lock. `initdb` inherits it, so that one that outlives us is
            waited for before its leavings are cleared.
        deadline: By when it must be done.

    Raises:
        BadInputError: There are no programs for it, or it is no data directory; nothing was changed.
        DatabaseUnavailableError: `initdb` failed; the message holds what it said.
    """
    if layout.data.exists():
        return _binaries_for_existing(layout, account)
    binaries = find_binaries(major=None, account=account, copies=layout.programs)
    if layout.unfinished_data.exists():
        shutil.rmtree(layout.unfinished_data)
    make_private(layout.unfinished_data, account)
    arguments = [
        binaries.program("initdb"),
        f"--pgdata={layout.unfinished_data}",
        f"--username={SUPERUSER}",
        # Who can open the socket's directory is let in; nothing listens for anybody else.
        "--auth-local=trust",
        "--auth-host=reject",
        "--encoding=UTF8",
        *_locale_arguments(binaries.major),
        "--data-checksums",
        "--no-instructions",
    ]
    try:
        result = run_as(account, arguments, inherited=[server_lock], timeout=max(0.1, deadline.left()))
    except subprocess.TimeoutExpired:
        raise DatabaseUnavailableError(
            f"the embedded server's data directory {layout.data} was not made within {deadline.seconds:g} s"
        ) from None
    if result.returncode != 0:
        raise DatabaseUnavailableError(
            f"initdb could not make the data directory {layout.data}: {last_lines(result.stdout)}"
        )
    layout.unfinished_data.rename(layout.data)
    _flush(layout)
    return binaries


def last_lines(text: str, count: int = 8) -> str:
    """The end of a program's output, in one line, for an error message."""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-count:]) or "it said nothing"


def _binaries_for_existing(layout: Layout, account: Account | None) -> ServerBinaries:
    try:
        version = (layout.data / "PG_VERSION").read_text(encoding="utf-8").strip()
        major = int(version)
    except (OSError, ValueError):
        raise BadInputError(
            f"{layout.data} is no data directory of Postgres (its PG_VERSION is missing or broken); restore it from "
            "a backup, or move it away to begin with an empty database"
        ) from None
    try:
        return find_binaries(major=major, account=account, copies=layout.programs)
    except BadInputError as error:
        raise BadInputError(
            f"{layout.data} was made by PostgreSQL {major} and only opens with that version: {error}. To change the "
            f"version: dump it with PostgreSQL {major} (pg_dump), move the directory away, and restore the dump"
        ) from None


def _locale_arguments(major: int) -> list[str]:
    """Sorts by code point, knows letters beyond ASCII, and needs no locale installed where that is possible."""
    if major >= 17:
        return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return ["--locale=C.UTF-8", "--lc-messages=C"] if sys.platform == "linux" else ["--locale=C"]


def _flush(layout: Layout) -> None:
    """Make the new name of the data directory survive a power cut."""
    descriptor = os.open(layout.directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
