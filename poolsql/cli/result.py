"""``poolsql result``: what runs found."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO, cast

import typer

from poolsql.cli import output
from poolsql.cli.asking import fleet_database
from poolsql.operations.formats import Format

app = typer.Typer(help="What runs found.", no_args_is_help=True)


@app.callback()
def result() -> None:
    """What runs found."""


@app.command()
def export(
    *,
    how: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="JSON lines, or a table with a column for each field; default: as the file's name ends, else jsonl.",
        ),
    ] = None,
    run: Annotated[int | None, typer.Option("--run", help="Only those of this run.", metavar="ID", min=1)] = None,
    job: Annotated[str | None, typer.Option("--job", help="Only those of this job's runs.", metavar="JOB")] = None,
    file: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file to write; it appears when it is complete.", metavar="FILE"),
    ] = None,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="CSV: keep texts that a spreadsheet would run as formulas; otherwise they get an apostrophe in front.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
) -> None:
    """Write the results of tasks that are done, oldest first, to standard output or a file."""
    from poolsql.operations.results import Source, export_results

    chosen = _format(how, file, as_json=as_json)
    with fleet_database() as database, _opened(file) as out:
        count = export_results(database, out, Source(run=run, job=job), how=chosen, raw=raw)
    output.note(f"{count} {'result' if count == 1 else 'results'}{f' in {file}' if file is not None else ''}")


def _format(how: Format | None, file: Path | None, *, as_json: bool) -> Format:
    from poolsql.errors import BadInputError

    if as_json and how not in {None, Format.JSONL}:
        raise BadInputError(f"--json and --format {how} contradict each other")
    if how is not None:
        return how
    return Format.CSV if not as_json and file is not None and file.suffix.lower() == ".csv" else Format.JSONL


@contextmanager
def _opened(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that takes its name when all is in it; always UTF-8."""
    from poolsql.errors import BadInputError

    if path is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", errors="strict", newline="")
        yield sys.stdout
        sys.stdout.flush()
        return
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as out:
            yield cast("TextIO", out)
        part.replace(path)
    except OSError as error:
        raise BadInputError(f"{path}: cannot write the file ({error.strerror})") from error
    finally:
        part.unlink(missing_ok=True)
