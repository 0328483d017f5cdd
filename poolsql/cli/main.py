"""``poolsql`` and ``python scheduler.py``: one program.

Exit codes: 0 done, 1 failed, 2 bad input, 3 database unavailable, 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from poolsql.cli import db
from poolsql.demo.play import play
from poolsql.errors import PoolsqlError
from poolsql.fleet.runtime import package_version
from poolsql.logs import configure_logging
from poolsql.redaction import redact
from poolsql.settings import process_settings

app = typer.Typer(
    name="poolsql",
    help="A pool of long-lived browser profiles on Postgres.",
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
    """A pool of long-lived browser profiles on Postgres."""
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
    play(Console(), urls=urls, stay=stay)


def main() -> NoReturn:
    """Run the program; an error that was foreseen is one line and its exit code."""
    try:
        app(standalone_mode=True)
    except PoolsqlError as error:
        sys.stderr.write(f"poolsql: {redact(' '.join(str(error).splitlines()))}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write("poolsql: interrupted\n")
        sys.exit(130)
    sys.exit(0)
