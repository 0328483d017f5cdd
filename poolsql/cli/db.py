"""``poolsql db``: the tables and who may use them."""

from __future__ import annotations

import typer

from poolsql.database import migration
from poolsql.database.opening import open_database
from poolsql.settings import process_settings

app = typer.Typer(help="The tables and who may use them.", no_args_is_help=True)


@app.command()
def upgrade() -> None:
    """Bring the tables to this version; one process at a time, safe to repeat."""
    with open_database(process_settings(), direct=True) as database:
        before, after = migration.upgrade(database)
        if before == after:
            typer.echo(f"{database.address}: the tables are at revision {after} already")
        else:
            typer.echo(f"{database.address}: tables brought from {before or 'nothing'} to revision {after}")
