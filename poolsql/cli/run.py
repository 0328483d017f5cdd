"""``poolsql run``: the firings of jobs."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, Limit, Reason, Who, fleet_database, me
from poolsql.scraping.states import RunState, TaskState

if TYPE_CHECKING:
    from poolsql.database.engine import Database
    from poolsql.operations.runs import RunRow

LOOK_EVERY = 0.5
"""Seconds between two looks at a run that is being watched."""
TELL_EVERY = 3.0
"""Seconds between two lines about it, where there is no terminal to redraw."""

app = typer.Typer(help="The firings of jobs: watching, cancelling and retrying them.", no_args_is_help=True)

COLUMNS = {
    "RUN": "id",
    "JOB": "name",
    "POOL": "pool",
    "STATE": "state",
    "INSTANT": "instant",
    "BEGAN": "created_at",
    "ENDED": "ended_at",
    "PENDING": "pending",
    "RUNNING": "running",
    "DONE": "done",
    "FAILED": "failed",
    "DETAIL": "detail",
}

TASK_COLUMNS = {
    "TASK": "id",
    "STATE": "state",
    "TRIES": "tries",
    "OUTCOME": "outcome",
    "PROFILE": "profile",
    "URL": "url",
    "DETAIL": "detail",
}

RunId = Annotated[int, typer.Argument(help="The run's number.", metavar="ID", min=1)]


@app.command("list")
def list_(
    job: Annotated[str | None, typer.Option("--job", help="Only those of this job.", metavar="JOB")] = None,
    state: Annotated[RunState | None, typer.Option("--state", help="Only those in this state.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first."""
    from poolsql.operations.jobs import find_job
    from poolsql.operations.runs import list_runs

    with fleet_database() as database:
        if job is not None:
            find_job(database, job)
        found = list_runs(database, job=job, state=state, limit=limit)
    output.print_rows(found, COLUMNS, as_json=as_json, none="no runs")


@app.command()
def show(
    run: RunId,
    state: Annotated[TaskState | None, typer.Option("--state", help="Only its tasks in this state.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many tasks.", min=1, metavar="N")] = 100,
    as_json: AsJson = False,
) -> None:
    """Show a run and its tasks; results are what 'result export' is for."""
    from poolsql.operations.runs import find_run, list_tasks

    with fleet_database() as database:
        found = find_run(database, run)
        tasks = list_tasks(database, run, state=state, limit=limit)
    if as_json:
        output.print_json({"run": found, "tasks": tasks}, data=("result", "parameters"))
        return
    output.print_facts(found)
    output.say("")
    output.print_rows(tasks, TASK_COLUMNS, as_json=False, none="no tasks")
    if len(tasks) == limit:
        output.note(f"the first {limit} tasks; --limit shows more")


@app.command()
def watch(run: RunId, as_json: AsJson = False) -> None:
    """Show how a run goes on until it has ended; exit code 0 when it is done, 1 when it failed or was cancelled."""
    with fleet_database() as database:
        ended = _watch(database, run, as_json=as_json)
    if ended.state is not RunState.DONE:
        raise typer.Exit(1)


@app.command()
def cancel(run: RunId, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """End a run: what waits is not tried any more, what is being visited ends with its visit."""
    from poolsql.operations.runs import cancel_run, find_run

    with fleet_database() as database:
        before = find_run(database, run)
        changed = before.state is not RunState.CANCELLED
        found = cancel_run(database, run, who=me(who), reason=reason) if changed else before
    if as_json:
        output.print_json({"run": found, "changed": changed})
    else:
        output.say(f"run {run} of {found.name} is cancelled{'' if changed else ' already'}")


@app.command()
def retry(
    run: RunId,
    every: Annotated[
        bool, typer.Option("--all", help="All tasks: also those that are done, and those that are never retried.")
    ] = False,
    reason: Reason = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Open a run again and try its failed tasks anew.

    Left as they are: those after whose outcome nothing is retried, such as not_found or session_lost.
    """
    from poolsql.operations.runs import retry_run

    with fleet_database() as database:
        retried = retry_run(database, run, only_failed=not every, who=me(who), reason=reason)
    if as_json:
        output.print_json({"run": run, "tasks": retried.tasks, "left": retried.left})
        return
    output.say(f"run {run} tries {retried.tasks} {'task' if retried.tasks == 1 else 'tasks'} again")
    if retried.left:
        output.say(f"left as they are, since they would end the same way: {retried.told_left}")


def _watch(database: Database, run_id: int, *, as_json: bool) -> RunRow:
    from poolsql.operations.runs import find_run

    found = find_run(database, run_id)
    if output.on_terminal() and not as_json:
        return _draw(database, found)
    told: RunRow | None = None
    told_at = 0.0
    while True:
        now = time.monotonic()
        if found != told and (not found.state.open or told is None or now - told_at >= TELL_EVERY):
            if as_json:
                output.print_json(found)
            else:
                output.say(_line(found))
            told, told_at = found, now
        if not found.state.open:
            return found
        time.sleep(LOOK_EVERY)
        found = find_run(database, run_id)


def _draw(database: Database, found: RunRow) -> RunRow:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from poolsql.operations.runs import find_run

    columns = (BarColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=output.console()) as progress:
        bar = progress.add_task(_line(found), total=None)
        while True:
            total = found.total or None
            progress.update(bar, description=_line(found), total=total, completed=found.done + found.failed)
            if not found.state.open:
                return found
            time.sleep(LOOK_EVERY)
            found = find_run(database, found.id)


def _line(run: RunRow) -> str:
    counts = f"{run.done + run.failed} of {run.total} tasks, {run.failed} failed, {run.running} running"
    detail = f": {output.shown(run.detail)}" if run.detail else ""
    return f"run {run.id} of {output.shown(run.name)} is {run.state}, {counts}{detail}"
