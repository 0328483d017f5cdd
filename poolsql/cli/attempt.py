"""``poolsql attempt``: how leases ended."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from typing import Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, Limit, OfPool, fleet_database
from poolsql.leasing.outcomes import Outcome

app = typer.Typer(help="How leases ended.", no_args_is_help=True)

COLUMNS = {
    "LEASE": "lease_id",
    "POOL": "pool",
    "PROFILE": "profile",
    "OUTCOME": "outcome",
    "BLAMES": "blames",
    "HOST": "host",
    "TASK": "task",
    "ENDED": "ended_at",
    "TOOK": "took",
    "VISITS": "visits",
    "DETAIL": "detail",
}

VISIT_COLUMNS = {
    "VISIT": "id",
    "OUTCOME": "outcome",
    "STATUS": "status",
    "HOST": "host",
    "URL": "url",
    "TASK": "task",
    "TOOK": "took",
    "DETAIL": "detail",
}


@app.command("list")
def list_(
    *,
    pool: OfPool = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Only those of this profile.", metavar="PROFILE")
    ] = None,
    outcome: Annotated[
        Outcome | None, typer.Option("--outcome", help="Only those that ended so, such as blocked.", metavar="OUTCOME")
    ] = None,
    host: Annotated[
        str | None, typer.Option("--host", help="Only those whose worst visit was to this host.", metavar="HOST")
    ] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List the attempts that ended last, the newest first."""
    from poolsql.operations.attempts import list_attempts

    with fleet_database() as database:
        found = list_attempts(database, pool=pool, profile=profile, outcome=outcome, host=host, limit=limit)
    output.print_rows(found, COLUMNS, as_json=as_json, none="no attempts")


@app.command()
def show(
    lease: Annotated[int, typer.Argument(help="The id of its lease.", metavar="ID", min=1)], as_json: AsJson = False
) -> None:
    """Show an attempt and its visits."""
    from poolsql.operations.attempts import show_attempt

    with fleet_database() as database:
        details = show_attempt(database, lease)
    if as_json:
        output.print_json(details)
        return
    output.print_facts(details.attempt)
    output.say("")
    output.print_rows(details.visits, VISIT_COLUMNS, as_json=False, none="no visits")
