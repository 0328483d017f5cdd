"""``poolsql profile``: profiles, why they are not offered, and taking them out and in."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, OfPool, ProfileName, Reason, Who, fleet_database, me
from poolsql.leasing.states import ProfileState

app = typer.Typer(help="Profiles: why they are not offered; taking them out and in.", no_args_is_help=True)

COLUMNS = {
    "ID": "id",
    "POOL": "pool",
    "PROFILE": "key",
    "LAUNCHER": "launcher",
    "STATE": "reason",
    "BACK IN": "free_in",
    "FAILURES": "consecutive_failures",
    "USES": "uses",
    "LAST": "last_outcome",
    "TAGS": "tags",
}

ATTEMPT_COLUMNS = {
    "LEASE": "lease_id",
    "OUTCOME": "outcome",
    "HOST": "host",
    "TASK": "task",
    "ENDED": "ended_at",
    "TOOK": "took",
    "DETAIL": "detail",
}


@app.command("list")
def list_(
    *,
    pool: OfPool = None,
    launcher: Annotated[
        str | None, typer.Option("--launcher", help="Only those of this launcher.", metavar="LAUNCHER")
    ] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="Only those that carry it; may be repeated.", metavar="TAG")
    ] = None,
    state: Annotated[ProfileState | None, typer.Option("--state", help="Only those in this state.")] = None,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            help="Only those that are available, leased, reclaiming, cooling, held, resting, breaker or pool_paused.",
            metavar="REASON",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List profiles, and what each waits for."""
    from poolsql.operations.profiles import list_profiles

    with fleet_database() as database:
        found = list_profiles(database, pool=pool, launcher=launcher, tags=tag or (), state=state, reason=reason)
    output.print_rows(found, COLUMNS, as_json=as_json, none="no profiles")


@app.command()
def show(profile: ProfileName, as_json: AsJson = False) -> None:
    """Show all about one profile, with its cooldowns and last attempts."""
    from poolsql.operations.profiles import show_profile

    with fleet_database() as database:
        details = show_profile(database, profile)
    if as_json:
        output.print_json(details)
        return
    output.print_facts(details.profile)
    if details.cooldowns:
        columns = {"COOLS DOWN ON": "host", "BACK IN": "free_in", "AFTER": "outcome", "IN A ROW": "in_a_row"}
        output.say("")
        output.print_rows(details.cooldowns, columns, as_json=False, none="")
    output.say("")
    output.print_rows(details.attempts, ATTEMPT_COLUMNS, as_json=False, none="no attempts yet")


@app.command()
def why(
    profile: ProfileName,
    host: Annotated[
        str | None, typer.Option("--host", help="To a checkout that names this host.", metavar="HOST")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", help="To a worker on this machine.", metavar="MACHINE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say in one line why a profile is not offered and until when, or that it is available."""
    from poolsql.operations.why import why as explain

    with fleet_database() as database:
        answer = explain(database, profile, host=host, machine=machine)
    if as_json:
        output.print_json(answer)
    else:
        output.say(f"{answer.profile}: {answer.text}")


@app.command()
def activate(profile: ProfileName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Offer a new profile from now on."""
    _change(profile, "activate", who=who, reason=reason, as_json=as_json)


@app.command()
def pause(profile: ProfileName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Take a profile out of the offer until it is resumed; its lease goes on."""
    _change(profile, "pause", who=who, reason=reason, as_json=as_json)


@app.command()
def resume(profile: ProfileName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Offer a paused profile again."""
    _change(profile, "resume", who=who, reason=reason, as_json=as_json)


@app.command()
def retire(profile: ProfileName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Take a profile out for good; restore brings it back."""
    _change(profile, "retire", who=who, reason=reason, as_json=as_json)


@app.command()
def restore(profile: ProfileName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Bring a retired profile back; its failures, uses and age count from now on."""
    _change(profile, "restore", who=who, reason=reason, as_json=as_json)


@app.command("import")
def import_(
    file: Annotated[
        Path | None,
        typer.Argument(help="A file with one id a line; default, or -: standard input.", metavar="[FILE]"),
    ] = None,
    *,
    pool: Annotated[str, typer.Option("--pool", help="Add them to this pool.", metavar="POOL")],
    launcher: Annotated[str, typer.Option("--launcher", help="Whose ids they are.", metavar="LAUNCHER")],
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag for all of them; may be repeated.", metavar="TAG")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Do not offer them before they are activated.")] = False,
    reason: Reason = None,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Add profiles to a pool by a list of ids, as browser products export them: all or none."""
    from poolsql.operations.importing import import_profiles, read_id_file

    ids = read_id_file(None if file is None or str(file) == "-" else file)
    with fleet_database() as database:
        done = import_profiles(
            database, ids, pool=pool, launcher=launcher, tags=tag or (), new=new, who=me(who), reason=reason
        )
    if as_json:
        output.print_json(done)
    else:
        there = f", {done.already_there} were there already" if done.already_there else ""
        output.say(f"{done.added} {'profile was' if done.added == 1 else 'profiles were'} added to pool {pool}{there}")


def _change(profile: str, action: str, *, who: str | None, reason: str | None, as_json: bool) -> None:
    from poolsql.operations.profiles import change_profile

    with fleet_database() as database:
        done = change_profile(database, profile, action, who=me(who), reason=reason)
    if as_json:
        values = {"id": done.profile.id, "profile": str(done.profile), "state": done.state, "changed": done.changed}
        output.print_json(values)
    else:
        output.say(f"profile {done.profile} is {done.state}{'' if done.changed else ' already'}")
