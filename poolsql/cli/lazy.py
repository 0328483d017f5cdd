"""Commands whose modules are imported when they are called: a command starts as fast as what it needs itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command is: a module, its group or function, and what help says of it."""

    module: str
    attribute: str
    help: str


COMMANDS: Mapping[str, Place] = {
    "apply": Place(
        "poolsql.cli.apply",
        "apply_command",
        "Make the database say what a fleet.toml says; all that is wrong with the file is told first, by its lines.",
    ),
    "config": Place("poolsql.cli.apply", "config_app", "Settings of this process, and the fleet as a file."),
    "pool": Place("poolsql.cli.pool", "app", "How pools stand; pausing and draining them."),
    "profile": Place("poolsql.cli.profile", "app", "Profiles: why they are not offered; taking them out and in."),
    "lease": Place("poolsql.cli.lease", "app", "Who has which profile; taking leases back."),
    "host": Place("poolsql.cli.host", "app", "Target sites: pausing and stopping what is loaded from them."),
    "job": Place("poolsql.cli.job", "app", "What is scraped when: firing, pausing and resuming jobs."),
    "run": Place("poolsql.cli.run", "app", "The firings of jobs: watching, cancelling and retrying them."),
    "result": Place("poolsql.cli.result", "app", "What runs found."),
    "attempt": Place("poolsql.cli.attempt", "app", "How leases ended."),
    "worker": Place("poolsql.cli.worker", "app", "The processes that hold leases."),
    "daemon": Place(
        "poolsql.cli.daemon",
        "daemon",
        "Fire jobs, work on their runs, take leases back from the dead, retire profiles; until Ctrl-C or SIGTERM.",
    ),
    "healthcheck": Place("poolsql.cli.daemon", "healthcheck", "Say whether the daemons of this machine are well."),
    "db": Place("poolsql.cli.db", "app", "The tables and who may use them."),
    "demo": Place(
        "poolsql.cli.demo", "demo", "Show the pool at work: two workers, real browsers, and a kill -9 in the middle."
    ),
}
"""All commands, in the order in which help lists them."""


class LazyGroup(TyperGroup):
    """A group that knows the names of its commands, and loads one when it is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._loaded = dict(self.commands)
        # Names nearly right are looked for among these.
        placeholders = {name: TyperCommand(name, help=place.help) for name, place in COMMANDS.items()}
        self.commands = {**placeholders, **self._loaded}
        self._listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order in which help lists them."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; None when there is none of that name. To list it, its name and help will do."""
        if self._listing:
            return self.commands.get(cmd_name)
        if cmd_name not in self._loaded and cmd_name in COMMANDS:
            self._loaded[cmd_name] = load_command(cmd_name)
        return self._loaded.get(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, without loading what is listed."""
        self._listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self._listing = False


def load_command(name: str) -> Any:
    """Import a command of `COMMANDS` and make it what Typer runs."""
    place = COMMANDS[name]
    found = getattr(import_module(place.module), place.attribute)
    if isinstance(found, typer.Typer):
        command: Any = typer.main.get_group(found)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(found)
        command = typer.main.get_command(alone)
    command.name = name
    return command
