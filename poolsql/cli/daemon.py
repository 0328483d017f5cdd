"""``poolsql daemon`` and ``poolsql healthcheck``."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, fleet_database, me

if TYPE_CHECKING:
    from poolsql.configuration.entries import FleetFile
    from poolsql.fleet.fleet import Fleet

log = logging.getLogger(__name__)

ASK_AGAIN_AFTER = 2.0
"""Seconds between two tries to reach a database that is not up yet."""


def daemon(
    fleet: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Apply this fleet.toml first, as `poolsql apply` does.")
    ] = None,
    max_browsers: Annotated[
        int | None,
        typer.Option(min=1, help="Browsers at once on this machine; without it, what its memory holds at 600 MB each."),
    ] = None,
    grace: Annotated[
        str, typer.Option(metavar="TIME", help="How long tasks under way may go on after the signal to stop.")
    ] = "20s",
) -> None:
    """Fire jobs, work on their runs, take leases back from the dead, retire profiles; until Ctrl-C or SIGTERM.

    Any number of daemons can share a database. A second signal stops the browsers at once.
    """
    from poolsql.configuration.problems import FleetFileError
    from poolsql.configuration.reading import load_fleet_file
    from poolsql.durations import parse_duration
    from poolsql.scheduling.daemon import Daemon, DaemonOptions

    options = DaemonOptions(max_browsers=max_browsers, grace=parse_duration(grace, name="--grace").total_seconds())
    try:
        file = load_fleet_file(fleet) if fleet is not None else None
        with _connect() as connected:
            if file is not None:
                _apply(connected, file)
            Daemon(connected, options).run()
    except FleetFileError as error:
        from poolsql.cli.apply import refuse

        refuse(error)


def healthcheck(
    *,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Look at the daemons of all machines, not only at those of this one.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say whether the daemons of this machine are well.

    Exit code 0: they are; 1: there is none, or one of their loops hangs or fails; 3: the database cannot be reached.
    """
    from poolsql.scheduling.health import check_health
    from poolsql.settings import process_settings

    with fleet_database() as database:
        here = process_settings().machine
        health = check_health(database, machine=None if everywhere else here, here=here)
    if as_json:
        output.print_json({"ok": health.ok, **asdict(health)})
    else:
        for problem in health.problems:
            output.note(problem)
        if health.ok:
            count = len({loop.worker_id for loop in health.loops})
            output.say(f"{count} {'daemon is' if count == 1 else 'daemons are'} well")
    if not health.ok:
        raise typer.Exit(1)


def _apply(fleet: Fleet, file: FleetFile) -> None:
    from poolsql.configuration.applying import apply_plan
    from poolsql.configuration.planning import plan

    planned = plan(fleet.database, fleet.settings, file)
    done = apply_plan(fleet.database, fleet.settings, planned, who=me(), reason="daemon --fleet")
    for line in [*done.lines(), *done.notes, done.summary(done=True)]:
        log.info("%s", line)


def _connect() -> Fleet:
    """Connect, and wait for a database that is not up yet: a daemon may be started before it.

    Raises:
        SchemaMismatchError: Its tables do not fit this code; waiting would not help.
        SessionSettingsError: A pooler's sessions have the wrong settings; waiting would not help.
    """
    from poolsql.errors import DatabaseUnavailableError, SchemaMismatchError, SessionSettingsError
    from poolsql.fleet.fleet import connect

    while True:
        try:
            return connect()
        except (SchemaMismatchError, SessionSettingsError):
            raise
        except DatabaseUnavailableError as error:
            log.warning("waiting for the database: %s", error)
            time.sleep(ASK_AGAIN_AFTER)
