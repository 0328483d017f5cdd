"""``poolsql job``: what is scraped when."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from typing import Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, Reason, Who, fleet_database, me

app = typer.Typer(help="What is scraped when: firing, pausing and resuming jobs.", no_args_is_help=True)

COLUMNS = {
    "JOB": "name",
    "POOL": "pool",
    "SCHEDULE": "schedule",
    "NEXT IN": "next_in",
    "NEXT AT": "next_at",
    "LAST RUN": "last_run",
    "ENDED AS": "last_state",
    "PAUSED": "paused_at",
    "BECAUSE": "pause_reason",
}

JobName = Annotated[str, typer.Argument(help="The job's name.", metavar="JOB")]


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List jobs with their next instant and their last run."""
    from poolsql.operations.jobs import list_job_lines

    with fleet_database() as database:
        found = list_job_lines(database)
    output.print_rows(found, COLUMNS, as_json=as_json, none="no jobs")


@app.command("run")
def run_(job: JobName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Fire a job now, paused or not; a daemon works on the run."""
    from poolsql.operations.jobs import fire_by_hand

    with fleet_database() as database:
        run_id = fire_by_hand(database, job, who=me(who), reason=reason)
    if as_json:
        output.print_json({"job": job, "run": run_id})
    else:
        output.say(f"run {run_id} of job {job} is due; to watch it: poolsql run watch {run_id}")


@app.command()
def pause(job: JobName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Let a job fire no more until it is resumed; an open run goes on."""
    from poolsql.operations.jobs import pause_job

    with fleet_database() as database:
        changed = pause_job(database, job, who=me(who), reason=reason)
    _tell(job, "paused", changed=changed, as_json=as_json)


@app.command()
def resume(job: JobName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Let a paused job fire again, from its next instant on; what it missed is not made up for."""
    from poolsql.operations.jobs import resume_job

    with fleet_database() as database:
        changed = resume_job(database, job, who=me(who), reason=reason)
    _tell(job, "resumed" if changed else "not paused, so it fires", changed=changed, as_json=as_json)


def _tell(job: str, state: str, *, changed: bool, as_json: bool) -> None:
    if as_json:
        output.print_json({"job": job, "changed": changed})
    else:
        output.say(f"job {job} is {state}{'' if changed else ' already'}")
