"""What commands have in common: their options, who asks, and whether they mean it."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from poolsql.database.engine import Database

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Reason = Annotated[str | None, typer.Option("--reason", help="Why, for the history.", metavar="TEXT")]
Who = Annotated[
    str | None, typer.Option("--who", help="Who asks, for the history; default: user@machine.", metavar="NAME")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do it without asking.")]
Limit = Annotated[int, typer.Option("--limit", help="At most so many, the newest.", min=1, metavar="N")]

PoolName = Annotated[str, typer.Argument(help="The pool's name.", metavar="POOL")]
ProfileName = Annotated[str, typer.Argument(help="Its id, its key, or launcher/key.", metavar="PROFILE")]
OfPool = Annotated[str | None, typer.Option("--pool", help="Only those of this pool.", metavar="POOL")]


@contextmanager
def fleet_database() -> Iterator[Database]:
    """The process's database with tables that fit.

    A server that is down is told at once, where a worker would try again for a while.
    """
    from poolsql.database.fleet_database import open_fleet_database
    from poolsql.settings import process_settings

    with open_fleet_database(process_settings(), patience=0.0, quiet=True) as database:
        yield database


def me(who: str | None = None) -> str:
    """Who does it, for the audit: as `who` says, else the user on this machine."""
    from poolsql.settings import process_settings

    if who is not None and who.strip():
        return who
    try:
        user = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a container's user without a name; a Windows service
        user = f"user {os.getuid()}" if sys.platform != "win32" else "unknown user"
    return f"{user}@{process_settings().machine}"


def confirm(question: str, *, yes: bool, needed: bool = False) -> None:
    """Ask whether it is meant, on a terminal; return when it is.

    Args:
        question: What would happen.
        yes: It was said on the command line.
        needed: Without a terminal it has to be said on the command line.

    Raises:
        BadInputError: It was declined, or not said where it is needed; nothing was changed.
    """
    from poolsql.errors import BadInputError
    from poolsql.logs import one_line

    if yes:
        return
    if sys.stdin.isatty() and sys.stderr.isatty():
        if typer.confirm(one_line(question), err=True):
            return
        raise BadInputError("nothing was changed")
    if needed:
        raise BadInputError(f"{question} Nobody can be asked here: add --yes; nothing was changed")
