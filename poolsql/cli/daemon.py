"""``poolsql daemon`` and ``poolsql healthcheck``."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from poolsql.database.opening import open_database
from poolsql.durations import parse_duration
from poolsql.errors import DatabaseUnavailableError, SchemaMismatchError
from poolsql.fleet.fleet import Fleet, connect
from poolsql.settings import process_settings

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
    from poolsql.scheduling.daemon import Daemon, DaemonOptions  # noqa: PLC0415 - brings Playwright and APScheduler

    options = DaemonOptions(max_browsers=max_browsers, grace=parse_duration(grace, name="--grace").total_seconds())
    file = None
    if fleet is not None:
        from poolsql.configuration.reading import load_fleet_file  # noqa: PLC0415 - only this option needs it

        file = load_fleet_file(fleet)
    with _connect() as connected:
        if file is not None:
            raise NotImplementedError  # apply
        Daemon(connected, options).run()


def healthcheck(
    everywhere: Annotated[
        bool, typer.Option("--all", help="Look at the daemons of all machines, not only at those of this one.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say whether the daemons of this machine are well.

    Exit code 0: they are; 1: there is none, or one of their loops hangs or fails; 3: the database cannot be reached.
    """
    settings = process_settings()
    from poolsql.scheduling.health import check_health  # noqa: PLC0415 - its neighbours bring Playwright

    with open_database(settings) as database:
        database.patience = 0.0
        health = check_health(database, machine=None if everywhere else settings.machine)
    if as_json:
        typer.echo(json.dumps({"ok": health.ok, **asdict(health)}, default=str))
    else:
        for problem in health.problems:
            typer.echo(problem, err=True)
        if health.ok:
            daemons = len({loop.worker_id for loop in health.loops})
            typer.echo(f"{daemons} {'daemon is' if daemons == 1 else 'daemons are'} well")
    if not health.ok:
        raise typer.Exit(1)


def _connect() -> Fleet:
    """Connect, and wait for a database that is not up yet: a daemon may be started before it.

    Raises:
        SchemaMismatchError: Its tables do not fit this code; waiting would not help.
    """
    while True:
        try:
            return connect()
        except SchemaMismatchError:
            raise
        except DatabaseUnavailableError as error:
            log.warning("waiting for the database: %s", error)
            time.sleep(ASK_AGAIN_AFTER)
