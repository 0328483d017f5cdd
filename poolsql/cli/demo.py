"""``poolsql demo``."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    urls: Annotated[
        Path | None,
        typer.Option(help="Visit the http(s) addresses in this file, one a line, instead of the demo's own shop."),
    ] = None,
    stay: Annotated[bool, typer.Option("--stay", help="Keep the database up at the end, until Ctrl-C.")] = False,
) -> None:
    """Show the pool at work: two workers, real browsers, and a kill -9 in the middle."""
    from rich.console import Console

    from poolsql.demo.play import play

    play(Console(), urls=urls, stay=stay)
