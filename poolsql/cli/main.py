"""``poolsql`` and ``python scheduler.py``: one program.

Exit codes: 0 done, 1 failed, 2 bad input, 3 database unavailable, 130 interrupted.
"""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from poolsql.cli.lazy import LazyGroup
from poolsql.errors import PoolsqlError

INTERRUPTED = 130

EXIT_CODES = {
    0: "done",
    1: "failed",
    2: "bad input",
    3: "database unavailable",
    INTERRUPTED: "interrupted",
}

app = typer.Typer(
    cls=LazyGroup,
    name="poolsql",
    epilog=f"Exit codes: {', '.join(f'{code} {meaning}' for code, meaning in EXIT_CODES.items())}.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        from poolsql.version import package_version

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
    from poolsql.logs import configure_logging
    from poolsql.settings import process_settings

    configure_logging(process_settings())


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the program; an error that was foreseen is one line and its exit code.

    Args:
        arguments: Of the command line; default: those of the process.
    """
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show every character is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # As Typer has it where it is the first to notice: nobody reads what a message would say.
        _drop_output()
        return 1
    return code


def _run(arguments: Sequence[str] | None) -> int:
    # Typer tells the exit code of its own ends, such as --help or Ctrl-C, as the answer.
    try:
        code = app(arguments, prog_name="poolsql", standalone_mode=False) or 0
    except PoolsqlError as error:
        return _fail(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except typer.TyperException as error:
        return _misused(error)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, what is printed of it has to be redacted
        import traceback

        from poolsql.redaction import redact

        sys.stderr.write(redact("".join(traceback.format_exception(error))))
        return _fail(f"unexpected {type(error).__name__}: {error}; please report it with the lines above", 1)
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return int(code)


def _drop_output() -> None:
    """Let the interpreter's last flush go nowhere instead of failing once more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


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
    from poolsql.logs import one_line
    from poolsql.redaction import redact

    sys.stderr.write(f"poolsql: {one_line(redact(message))}\n")
    return code
