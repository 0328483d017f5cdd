"""``poolsql lease``: who has which profile; taking leases back."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from collections.abc import Sequence
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
    stopped: Annotated[
        bool,
        typer.Option(
            "--browser-is-stopped",
            help="Of leases that are reclaiming: you know that their browsers are stopped. They end without the proof, "
            "and their profiles are offered again; for machines that never come back. Needs --reason.",
        ),
    ] = False,
    reason: Reason = None,
    who: Who = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take leases from their holders; the reaper stops their browsers and ends them."""
    from poolsql.errors import BadInputError
    from poolsql.operations.leases import revoke_leases

    if stopped:
        if not lease or pool is not None or worker is not None or everything:
            raise BadInputError("--browser-is-stopped is said of single leases: write their ids")
        _end(lease, reason=reason or "", who=me(who), yes=yes, as_json=as_json)
        return
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


def _end(lease_ids: Sequence[int], *, reason: str, who: str, yes: bool, as_json: bool) -> None:
    """End reclaiming leases on the caller's word."""
    from poolsql.operations.leases import end_unproven_leases, unproven_leases

    with fleet_database() as database:
        unproven = unproven_leases(database, lease_ids)
        if unproven.leases:
            known = "; ".join(unproven.leases.values())
            confirm(
                f"{known}. If its browser still runs, two would share the profile. Is it stopped for certain?",
                yes=yes,
                needed=True,
            )
        ended = end_unproven_leases(database, list(unproven.leases), who=who, reason=reason)
    if as_json:
        output.print_json({"ended": ended, "already": unproven.already})
        return
    for line in unproven.already:
        output.say(line)
    for number in ended:
        output.say(f"lease {number} has ended on your word; its profile is offered again when its cooldown is over")
