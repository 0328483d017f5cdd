"""``poolsql worker``: the processes that hold leases."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, Reason, Who, fleet_database, me

if TYPE_CHECKING:
    from poolsql.operations.workers import LoopLine

app = typer.Typer(help="The processes that hold leases.", no_args_is_help=True)

HEADINGS = ("ID", "MACHINE", "PID", "SINCE", "RUNS", "PRESENT", "LEASES", "RECLAIMING", "DRAINING", "LOOPS")


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the workers that have not signed off, with their leases; daemons with the age of their loops' stamps."""
    from poolsql.operations.workers import list_workers
    from poolsql.settings import process_settings

    with fleet_database() as database:
        found = list_workers(database, machine=process_settings().machine)
    if as_json:
        output.print_json(found)
        return
    if not found:
        output.say("no workers")
        return
    rows = [
        (
            line.id,
            line.machine,
            line.pid,
            line.started_at,
            {True: "yes", False: "no", None: "unknown"}[line.alive],
            {True: "yes", False: "no", None: "off"}[line.present],
            line.held,
            line.reclaiming,
            line.draining_at is not None,
            [_loop(loop) for loop in line.loops],
        )
        for line in found
    ]
    output.print_table(HEADINGS, rows)


@app.command()
def drain(
    worker: Annotated[str, typer.Argument(help="Its id, or how that begins.", metavar="ID")],
    reason: Reason = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Let a daemon take no more work: it ends what it has, and exits."""
    from poolsql.operations.workers import drain_worker

    with fleet_database() as database:
        worker_id, changed = drain_worker(database, worker, who=me(who), reason=reason)
    if as_json:
        output.print_json({"id": worker_id, "changed": changed})
    else:
        output.say(f"worker {worker_id} is draining{'' if changed else ' already'}")


def _loop(loop: LoopLine) -> str:
    from poolsql.durations import format_duration

    failing = f", failing since {output.shown(loop.failing_since)}" if loop.failing_since is not None else ""
    return f"{loop.loop} {format_duration(round(loop.age.total_seconds(), 1))} ago{failing}"
