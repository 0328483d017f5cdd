"""``poolsql`` and ``python scheduler.py``: one program.

Exit codes: 0 done, 1 failed, 2 bad input, 3 database unavailable, 130 interrupted.
"""

from __future__ import annotations

import io
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from poolsql.cli import db
from poolsql.errors import PoolsqlError
from poolsql.logs import configure_logging, one_line
from poolsql.redaction import redact
from poolsql.settings import process_settings
from poolsql.version import package_version

INTERRUPTED = 130

app = typer.Typer(
    name="poolsql",
    epilog="Exit codes: 0 done, 1 failed, 2 bad input, 3 database unavailable, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(db.app, name="db")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(package_version())
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A pool of long-lived browser profiles on Postgres.

    Without POOLSQL_DATABASE_URL it uses a Postgres server of its own, in the user's data directory.
    """
    configure_logging(process_settings())


@app.command()
def demo(
    urls: Annotated[
        Path | None,
        typer.Option(help="Visit the http(s) addresses in this file, one a line, instead of the demo's own shop."),
    ] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Keep the database up at the end, until Ctrl-C.")] = False,
) -> None:
    """Show the pool at work: two workers, real browsers, and a kill -9 in the middle."""
    from poolsql.demo.play import play  # noqa: PLC0415 - brings Playwright, which the other commands do without

    play(Console(), urls=urls, stay=stay)


def run() -> int:
    """Run the program; an error that was foreseen is one line and its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show every character is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Typer tells the exit code of its own ends, such as --help or Ctrl-C, as the answer.
    try:
        code = app(prog_name="poolsql", standalone_mode=False) or 0
    except PoolsqlError as error:
        return _fail(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except typer.TyperException as error:
        return _misused(error)
    except Exception as error:  # noqa: BLE001 - whatever it is, what is printed of it has to be redacted
        sys.stderr.write(redact("".join(traceback.format_exception(error))))
        return _fail(f"unexpected {type(error).__name__}: {error}; please report it with the lines above", 1)
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return int(code)


def _misused(error: typer.TyperException) -> int:
    """A command line that cannot be understood; a group's name alone shows its help."""
    code = int(getattr(error, "exit_code", 2))
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        return code  # the help is printed already
    told = error.format_message() if hasattr(error, "format_message") else str(error)
    where = f"{context.command_path if context is not None else 'poolsql'} --help"
    return _fail(f"{told.rstrip('.')}; see: {where}", code)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"poolsql: {one_line(redact(message))}\n")
    return code
