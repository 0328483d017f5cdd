"""``poolsql db``: the tables and who may use them."""

from __future__ import annotations

import getpass
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from poolsql.database import migration
from poolsql.database.addresses import address_and_password
from poolsql.database.embedded import default_directory, stop_embedded_server
from poolsql.database.embedded.binaries import psql_program
from poolsql.database.engine import Database
from poolsql.database.opening import open_database
from poolsql.database.rights import grant_runtime_rights
from poolsql.database.schema import check_schema
from poolsql.durations import parse_duration
from poolsql.errors import BadInputError, ConflictError
from poolsql.leasing.fencing import fence as fence_leases
from poolsql.settings import Settings, process_settings

app = typer.Typer(help="The tables and who may use them.", no_args_is_help=True)


@app.command()
def upgrade(
    wait: Annotated[
        str, typer.Option(metavar="TIME", help="How long to wait for a server that is not up yet, such as 60s.")
    ] = "0s",
) -> None:
    """Bring the tables to this version; one process at a time, safe to repeat."""
    patience = parse_duration(wait, name="--wait").total_seconds()
    with _open(process_settings(), patience=patience) as database:
        before, after = migration.upgrade(database)
        if before == after:
            typer.echo(f"{database.address}: the tables are at revision {after} already")
        else:
            typer.echo(f"{database.address}: tables brought from {before or 'nothing'} to revision {after}")


@app.command()
def grant(role: Annotated[str, typer.Argument(help="Its name as Postgres has it.", metavar="ROLE")]) -> None:
    """Let a role run a fleet without owning the tables; safe to repeat."""
    with _open(process_settings()) as database:
        granted = grant_runtime_rights(database, role)
        typer.echo(f"{database.address}: role {role!r} may use {granted.tables} tables and views now")
        if not granted.upkeep:
            typer.echo("It may not vacuum them: before PostgreSQL 17 only their owner can.")


@app.command()
def fence(
    reason: Annotated[str | None, typer.Option(help="Why, for the history.", metavar="TEXT")] = None,
) -> None:
    """Take all leases away from their holders, after a restore or a failover; the reaper ends them."""
    settings = process_settings()
    with _open(settings) as database:
        check_schema(database)
        count = fence_leases(database, who=_me(settings), reason=reason)
        typer.echo(f"{database.address}: {count} {'lease was' if count == 1 else 'leases were'} fenced")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def psql(context: typer.Context) -> None:
    """Open psql on the database; further arguments are psql's own, such as -c "SELECT …"."""
    with _open(process_settings()) as database:
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
def stop() -> None:
    """Stop the embedded server if nobody uses it: one whose last user was killed is still there."""
    directory = default_directory(process_settings().data_dir)
    if not stop_embedded_server(directory):
        raise ConflictError(f"the embedded server in {directory} is in use; its last user will stop it")
    typer.echo(f"no server runs in {directory}")


@contextmanager
def _open(settings: Settings, *, patience: float = 0.0) -> Iterator[Database]:
    """The process's database; a server that is down is told at once, where a worker would try again for a while."""
    with open_database(settings, direct=True) as database:
        database.patience = patience
        yield database


def _me(settings: Settings) -> str:
    """Who does it, for the audit."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        user = f"user {os.getuid()}"
    return f"{user}@{settings.machine}"
