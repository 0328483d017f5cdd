"""``poolsql db``: the tables and who may use them."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, Reason, Who, fleet_database, me

if TYPE_CHECKING:
    from poolsql.database.engine import Database

app = typer.Typer(help="The tables and who may use them.", no_args_is_help=True)


@app.command()
def upgrade(
    wait: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for a server that is not up yet, such as 60s.")
    ] = "0s",
    as_json: AsJson = False,
) -> None:
    """Bring the tables to this version; one process at a time, safe to repeat."""
    from poolsql.database import migration
    from poolsql.durations import parse_duration

    patience = parse_duration(wait, name="--wait").total_seconds()
    with _direct_database(patience=patience) as database:
        before, after = migration.upgrade(database)
    if as_json:
        output.print_json({"database": database.address, "before": before, "after": after})
    elif before == after:
        output.say(f"{database.address}: the tables are at revision {after} already")
    else:
        output.say(f"{database.address}: tables brought from {before or 'nothing'} to revision {after}")


@app.command()
def grant(
    role: Annotated[str, typer.Argument(help="Its name as Postgres has it.", metavar="ROLE")], as_json: AsJson = False
) -> None:
    """Let a role run a fleet without owning the tables; safe to repeat."""
    from poolsql.database.rights import grant_runtime_rights

    with _direct_database() as database:
        granted = grant_runtime_rights(database, role)
    if as_json:
        output.print_json({"role": role, "tables": granted.tables, "upkeep": granted.upkeep})
        return
    output.say(f"{database.address}: role {role!r} may use {granted.tables} tables and views now")
    if not granted.upkeep:
        output.say("It may not vacuum them: before PostgreSQL 17 only their owner can.")


@app.command()
def settings(
    role: Annotated[
        str | None,
        typer.Argument(
            help="Its name as Postgres has it; default: the role of the database's address.", metavar="ROLE"
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print the statements.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a role the settings that sessions behind a connection pooler need; safe to repeat.

    Without a pooler every session is told them as it starts.
    """
    from poolsql.database.opening import open_database
    from poolsql.database.role_settings import RECONNECT, set_role_settings
    from poolsql.settings import process_settings

    # A role may change its own settings, through a pooler too; those of another one need its owner or a superuser.
    with open_database(process_settings(), direct=role is not None) as database:
        database.patience = 0.0
        done = set_role_settings(database, process_settings(), role, dry_run=dry_run)
    if as_json:
        output.print_json({**asdict(done), "done": not dry_run})
        return
    if dry_run:
        for statement in done.statements:
            output.say(f"{statement};")
        return
    output.say(
        f"{database.address}: sessions of the role {done.role!r} in {done.database!r} have our settings from now on"
    )
    output.say(f"Behind a pooler, {RECONNECT}; sessions that are open keep what they have.")


@app.command()
def fence(reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Take all leases away from their holders, after a restore or a failover; the reaper ends them."""
    from poolsql.leasing.fencing import fence as fence_leases

    with fleet_database() as database:
        count = fence_leases(database, who=me(who), reason=reason)
    if as_json:
        output.print_json({"fenced": count})
    else:
        output.say(f"{database.address}: {count} {'lease was' if count == 1 else 'leases were'} fenced")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql on the database; further arguments are psql's own, such as -c "SELECT …"."""
    import os
    import signal
    import subprocess

    from poolsql.database.addresses import address_and_password
    from poolsql.database.embedded.binaries import psql_program
    from poolsql.errors import BadInputError

    with _direct_database() as database:
        address, password = address_and_password(database.url)
        environment = os.environ if password is None else {**os.environ, "PGPASSWORD": password}
        command = [psql_program(), "--dbname", address, *context.args]
        # Ctrl-C in psql ends a query, not psql: it is psql's alone.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            done = subprocess.run(command, env=environment, check=False)  # noqa: S603 - what the user asked for
        except FileNotFoundError as error:
            raise BadInputError("there is no psql on this machine; apt install postgresql-client") from error
        finally:
            signal.signal(signal.SIGINT, before)
    raise typer.Exit(done.returncode)


@app.command()
def stop(as_json: AsJson = False) -> None:
    """Stop the embedded server if nobody uses it: one whose last user was killed is still there."""
    from poolsql.database.embedded import default_directory, stop_embedded_server
    from poolsql.errors import ConflictError
    from poolsql.settings import process_settings

    directory = default_directory(process_settings().data_dir)
    if not stop_embedded_server(directory):
        raise ConflictError(f"the embedded server in {directory} is in use; its last user will stop it")
    if as_json:
        output.print_json({"directory": str(directory), "running": False})
    else:
        output.say(f"no server runs in {directory}")


@contextmanager
def _direct_database(*, patience: float = 0.0) -> Iterator[Database]:
    """The process's database past any pooler, whatever tables it has; a server that is down is told at once."""
    from poolsql.database.opening import open_database
    from poolsql.settings import process_settings

    with open_database(process_settings(), direct=True) as database:
        database.patience = patience
        yield database
