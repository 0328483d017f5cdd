"""``poolsql apply`` and ``poolsql config``: what the fleet is to be, and what it is."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, Reason, Who, fleet_database, me

if TYPE_CHECKING:
    from poolsql.configuration.changes import Plan
    from poolsql.configuration.entries import FleetFile
    from poolsql.configuration.problems import FleetFileError

_COLOURS = {"+": "green", "~": "yellow", "-": "red"}

config_app = typer.Typer(help="Settings of this process, and the fleet as a file.", no_args_is_help=True)


def apply_command(
    file: Annotated[Path, typer.Argument(help="What the fleet is to be.", metavar="[FILE]")] = Path("fleet.toml"),
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and change nothing.")] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune", help="Remove what the file declared once and does not any more: its profiles are retired."
        ),
    ] = False,
    reason: Reason = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Make the database say what a fleet.toml says; all that is wrong with the file is told first, by its lines.

    What operators paused, activated or retired stays so, and what was never in the file is left alone.
    """
    from poolsql.configuration.applying import apply_plan
    from poolsql.configuration.planning import plan
    from poolsql.configuration.problems import FleetFileError
    from poolsql.configuration.reading import read_fleet_file
    from poolsql.errors import DatabaseUnavailableError
    from poolsql.settings import process_settings

    settings = process_settings()
    read: FleetFile | None = None
    try:
        read = read_fleet_file(file, settings)
        with fleet_database() as database:
            planned = plan(database, settings, read, prune=prune)
            if not dry_run:
                planned = apply_plan(database, settings, planned, who=me(who), reason=reason)
    except FleetFileError as error:
        refuse(error, as_json=as_json)
    except DatabaseUnavailableError:
        # What is wrong in the file is of more use, and can be mended meanwhile.
        if read is None or not read.problems:
            raise
        refuse(FleetFileError(file, read.problems), as_json=as_json)
    else:
        _tell(planned, done=not dry_run, as_json=as_json)


@config_app.command("show")
def show(
    *,
    fleet: Annotated[
        bool, typer.Option("--fleet", help="Write the fleet as a fleet.toml, which `poolsql apply` takes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings of this process without their secrets, and where each comes from; or the whole fleet."""
    from poolsql.configuration.settings_showing import setting_rows
    from poolsql.errors import BadInputError
    from poolsql.settings import process_settings

    if fleet and as_json:
        raise BadInputError("--fleet writes TOML; leave --json out")
    if fleet:
        from poolsql.configuration.showing import fleet_toml

        with fleet_database() as database:
            written = fleet_toml(database)
        # As it is: secrets in it are references, which redaction would take for secrets.
        sys.stdout.write(written)
        return
    columns = {"SETTING": "name", "VALUE": "value", "FROM": "source"}
    output.print_rows(setting_rows(process_settings()), columns, as_json=as_json, none="no settings")


def refuse(error: FleetFileError, *, as_json: bool = False) -> NoReturn:
    """Print what is wrong with a file and end the program."""
    if as_json:
        output.print_json({"applied": False, "problems": list(error.problems)})
    else:
        for line in error.lines():
            output.note(line)
        count = len(error.problems)
        output.note(f"{'1 thing is' if count == 1 else f'{count:,} things are'} wrong; nothing was changed")
    raise typer.Exit(error.exit_code)


def _tell(plan: Plan, *, done: bool, as_json: bool) -> None:
    if as_json:
        changes = [change.to_json() for change in plan.changes]
        output.print_json({"applied": done, "changes": changes, "counts": plan.counts, "notes": plan.notes})
        return
    for line in plan.lines():
        _say_coloured(line)
    for note in plan.notes:
        output.say(note)
    output.say(plan.summary(done=done))


def _say_coloured(line: str) -> None:
    if not output.on_terminal():
        output.say(line)
        return
    from rich.text import Text

    output.console().print(Text(output.shown(line), style=_COLOURS[line[0]]))
