"""``poolsql pool``: how pools stand; pausing and draining them."""

# ruff: noqa: PLC0415 - what a command needs is imported when it runs, so that help and the others start fast

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from poolsql.cli import output
from poolsql.cli.asking import AsJson, PoolName, Reason, Who, Yes, confirm, fleet_database, me

if TYPE_CHECKING:
    from poolsql.database.engine import Database
    from poolsql.operations.pools import LeasesLeft, PoolLine

LOOK_EVERY = 0.5
"""Seconds between two looks at a pool that is being drained."""

app = typer.Typer(help="How pools stand; pausing and draining them.", no_args_is_help=True)


@app.command()
def status(
    pool: Annotated[str | None, typer.Argument(help="Its name; default: all pools.", metavar="[POOL]")] = None,
    as_json: AsJson = False,
) -> None:
    """Count the profiles that are available, and the others by the reason why they are not."""
    from poolsql.operations.pools import list_pools

    with fleet_database() as database:
        lines = list_pools(database, pool)
    if as_json:
        output.print_json(lines)
        return
    for told in [_described(line) for line in lines] or ["no pool is defined yet"]:
        output.say(told)


@app.command()
def pause(pool: PoolName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Offer no profile of a pool until it is resumed; leases that are out go on."""
    from poolsql.operations.pools import pause_pool

    with fleet_database() as database:
        changed = pause_pool(database, pool, who=me(who), reason=reason)
    _tell(pool, "paused" if changed else "paused already", changed=changed, as_json=as_json)


@app.command()
def resume(pool: PoolName, reason: Reason = None, who: Who = None, as_json: AsJson = False) -> None:
    """Offer a paused pool's profiles again."""
    from poolsql.operations.pools import resume_pool

    with fleet_database() as database:
        changed = resume_pool(database, pool, who=me(who), reason=reason)
    _tell(pool, "resumed" if changed else "offered already: it is not paused", changed=changed, as_json=as_json)


@app.command()
def drain(
    pool: PoolName,
    *,
    wait: Annotated[
        str, typer.Option(help="How long to wait until no lease is held, such as 10m.", metavar="TIME")
    ] = "10m",
    reason: Reason = None,
    who: Who = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Pause a pool, then wait until nobody holds a lease of it; exit code 1 when that takes too long."""
    from poolsql.durations import format_duration, parse_duration
    from poolsql.operations.pools import leases_left, pause_pool

    patience = parse_duration(wait, name="--wait")
    with fleet_database() as database:
        leases_left(database, pool)  # that it exists is known before anything is asked
        confirm(f"Pause pool {pool} and wait until its leases have ended?", yes=yes)
        changed = pause_pool(database, pool, who=me(who), reason=reason)
        left = _wait(database, pool, patience.total_seconds())
    if as_json:
        output.print_json({"pool": pool, "changed": changed, "held": left.held, "reclaiming": left.reclaiming})
    elif left.held:
        output.say(f"pool {pool} is paused, but {_leases(left.held)} still held after {format_duration(patience)}")
    else:
        reclaiming = f"; {_leases(left.reclaiming)} being reclaimed" if left.reclaiming else ""
        output.say(f"pool {pool} is {'' if changed else 'already '}paused, and drained{reclaiming}")
    if left.held:
        raise typer.Exit(1)


def _wait(database: Database, pool: str, seconds: float) -> LeasesLeft:
    from rich.console import Console
    from rich.text import Text

    from poolsql.clocks import elapsed_clock
    from poolsql.operations.pools import leases_left

    give_up_at = elapsed_clock() + seconds
    told = None
    console = Console(stderr=True, highlight=False)
    with ExitStack() as stack:
        status = stack.enter_context(console.status("")) if console.is_terminal else None
        while (left := leases_left(database, pool)).held and elapsed_clock() < give_up_at:
            line = f"pool {pool}: {_leases(left.held)} still held"
            if status is not None:
                status.update(Text(output.shown(line)))
            elif line != told:
                output.note(line)
            told = line
            time.sleep(min(LOOK_EVERY, max(0.0, give_up_at - elapsed_clock())))
    return left


def _leases(number: int) -> str:
    return "1 lease is" if number == 1 else f"{number} leases are"


def _tell(pool: str, state: str, *, changed: bool, as_json: bool) -> None:
    if as_json:
        output.print_json({"pool": pool, "changed": changed})
    else:
        output.say(f"pool {pool} is {state}")


def _described(line: PoolLine) -> str:
    """One line of text on a pool."""
    from poolsql.durations import format_duration

    counts = [f"{number} {reason.replace('_', ' ')}" for reason, number in sorted(line.counts.items(), key=_order)]
    told = f"{line.name}: {', '.join(counts) or 'no profiles'}"
    if line.next_free_at is not None and not line.counts.get("available"):
        told += f"; next back in {format_duration(max(timedelta(), line.next_free_at - line.now))}"
    if line.short:
        told += f"; {line.short} short of {line.target_size}"
    if line.paused_at is not None:
        told += f"; paused {format_duration(line.now - line.paused_at)} ago"
        told += f": {line.pause_reason}" if line.pause_reason else ""
    return told


def _order(counted: tuple[str, int]) -> tuple[bool, str]:
    reason, _ = counted
    return reason != "available", reason
