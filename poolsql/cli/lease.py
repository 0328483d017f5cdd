"""``poolsql lease``: who has which profile; taking leases back."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from typing import Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, OfPool, Reason, Who, Yes, confirm, fleet_database, me

app = typer.Typer(help="Who has which profile; taking leases back.", no_args_is_help=True)

COLUMNS = {
    "ID": "id",
    "POOL": "pool",
    "PROFILE": "profile",
    "STATE": "state",
    "TASK": "task",
    "HOST": "host",
    "WORKER": "worker_id",
    "MACHINE": "machine",
    "PID": "pid",
    "FOR": "held_for",
    "EXPIRES IN": "expires_in",
    "TAKEN BECAUSE": "reclaim_detail",
    "STILL HERE BECAUSE": "reclaim_note",
}


@app.command("list")
def list_(
    pool: OfPool = None,
    worker: Annotated[
        str | None, typer.Option("--worker", help="Only those of this worker (how its id begins).", metavar="ID")
    ] = None,
    reclaiming: Annotated[bool, typer.Option("--reclaiming", help="Only those that are being reclaimed.")] = False,
    as_json: AsJson = False,
) -> None:
    """List live leases; for those that are being reclaimed, with what keeps their browsers from being stopped."""
    from poolsql.leasing.states import LeaseState
    from poolsql.operations.leases import list_leases

    state = LeaseState.RECLAIMING if reclaiming else None
    with fleet_database() as database:
        found = list_leases(database, pool=pool, worker=worker, state=state)
    output.print_rows(found, COLUMNS, as_json=as_json, none="no leases")


@app.command()
def revoke(
    lease: Annotated[list[int] | None, typer.Argument(help="Ids of leases.", metavar="[ID]...", min=1)] = None,
    *,
    pool: Annotated[str | None, typer.Option("--pool", help="All of this pool.", metavar="POOL")] = None,
    worker: Annotated[
        str | None, typer.Option("--worker", help="All of this worker (how its id begins).", metavar="ID")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that there are.")] = False,
    reason: Reason = None,
    who: Who = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take leases from their holders; the reaper stops their browsers and ends them."""
    from poolsql.operations.leases import revoke_leases

    with fleet_database() as database:
        if everything:
            confirm("Take all leases from their holders?", yes=yes, needed=True)
        elif pool is not None or worker is not None:
            of = f"pool {pool}" if pool is not None else f"worker {worker}"
            confirm(f"Take all leases of {of} from their holders?", yes=yes)
        done = revoke_leases(
            database,
            lease_ids=lease or (),
            pool=pool,
            worker=worker,
            everything=everything,
            who=me(who),
            reason=reason,
        )
    if as_json:
        output.print_json(done)
        return
    for line in done.already:
        output.say(line)
    for taken in done.taken:
        output.say(f"lease {taken.lease_id} of profile {taken.profile} was taken from worker {taken.worker_id}")
    if not done.taken and not done.already:
        output.say("no lease is held; nothing was changed")
