"""``poolsql host``: target sites; pausing and stopping what is loaded from them."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, Reason, Who, fleet_database, me

if TYPE_CHECKING:
    from poolsql.operations.hosts import HostChange

app = typer.Typer(help="Target sites: pausing and stopping what is loaded from them.", no_args_is_help=True)

COLUMNS = {
    "HOST": "name",
    "STATE": "state",
    "PAUSED FOR": "paused_for",
    "AFTER": "pause_reason",
    "STOPPED BECAUSE": "stop_reason",
    "DELAY": "delay",
    "BLOCKS": "blocks_in_a_row",
    "LIMITS": "limits_in_a_row",
    "ERRORS": "errors_in_a_row",
    "COOLING": "cooling",
}

HostName = Annotated[
    str, typer.Argument(help="Its name, with the port where it is not the scheme's own; or an address.", metavar="HOST")
]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the hosts that are known, with their pauses and the number of profiles that cool down on them."""
    from poolsql.operations.hosts import list_hosts

    with fleet_database() as database:
        found = list_hosts(database)
    output.print_rows(found, COLUMNS, as_json=as_json, none="no hosts")


@app.command()
def pause(
    host: HostName,
    how_long: Annotated[str, typer.Option("--for", help="How long, such as 2h.", metavar="TIME")],
    reason: Reason = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Load nothing from a host for a while; a pause that lasts longer already stays."""
    from poolsql.durations import parse_duration
    from poolsql.operations.hosts import pause_host

    wanted = parse_duration(how_long, name="--for")
    with fleet_database() as database:
        done = pause_host(database, host, how_long=wanted, who=me(who), reason=reason)
    _tell(done, f"paused for {output.shown(done.host.paused_for)}", as_json=as_json)


@app.command()
def stop(host: HostName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Load nothing from a host until it is resumed."""
    from poolsql.operations.hosts import stop_host

    with fleet_database() as database:
        done = stop_host(database, host, who=me(who), reason=reason)
    _tell(done, "stopped", as_json=as_json)


@app.command()
def resume(host: HostName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Lift a host's stop and pause, and forget what made its pauses grow."""
    from poolsql.operations.hosts import resume_host

    with fleet_database() as database:
        done = resume_host(database, host, who=me(who), reason=reason)
    _tell(done, "open", as_json=as_json)


def _tell(done: HostChange, state: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(done)
    else:
        output.say(f"host {done.host.name} is {state}{'' if done.changed else ' already'}")
