"""The demo: six profiles, two workers, a small shop, and a kill -9 in the middle."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from poolsql.demo import report
from poolsql.demo.events import Events
from poolsql.demo.shop import ShopSite
from poolsql.demo.stage import Stage, open_stage
from poolsql.durations import format_duration
from poolsql.errors import PoolsqlError
from poolsql.fleet.pool import Pool
from poolsql.launchers.local.executable import find_executable
from poolsql.scraping import tasks
from poolsql.scraping.targets import Target, is_loopback, parse_target, read_url_file

PROFILES = 6
WORKERS = 2
SECONDS = 80.0
"""After which the shop's demo ends whatever is left; pages of the user's own get `SECONDS_PER_PAGE` each on top."""

SECONDS_PER_PAGE = 5.0
LOOK_EVERY = 0.25
PLAIN_LINE_EVERY = 5.0

# Short, so that everything comes back while one watches. For real sites the defaults are far longer.
POLICY = {
    "ttl": "6s",
    "renew": "2s",
    "max_lease": "60s",
    "failure_cooldown": "6s",
    "failure_cooldown_cap": "60s",
    "lost_cooldown": "4s",
    "hold": "3s",
    "block_pause": "5s",
    "rate_pause": "3s",
}

# Nothing but pages of this machine is looked up while the demo shows its own shop.
ONLY_LOCAL = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE [::1]"


class DemoIncompleteError(PoolsqlError):
    """The demo's time was up before its run was over."""


def play(console: Console, *, urls: Path | None, stay: bool) -> None:
    """Show the pool at work, on the demo's shop or on pages of the user's own.

    Args:
        urls: A file with one http(s) address a line, to visit instead of the shop.
        stay: Keep database and shop up at the end until Ctrl-C.

    Raises:
        BadInputError: The file holds something else, or no Chromium was found.
        DatabaseUnavailableError: There is no database.
        DemoIncompleteError: Time was up.
    """
    find_executable(None)
    own = read_url_file(urls) if urls is not None else None
    with ExitStack() as stack:
        targets, handler = own, "pages"
        if targets is None:
            shop = stack.enter_context(ShopSite())
            targets, handler = _shop_targets(shop), "shop"
        console.print("Setting up: database, tables, profiles …")
        stage = stack.enter_context(open_stage())
        pool, run_id = _set_up(console, stage, targets)
        with _watching(console, stage, run_id, len(targets)) as watch:
            _run(watch, stage, pool, run_id, handler, limit=SECONDS if own is None else _limit(own))
        _show_end(console, stage, pool, run_id)
        progress = tasks.run_progress(stage.fleet.database, run_id)
        if stay:
            _stay(console)
        if not progress.over:
            raise DemoIncompleteError(
                f"time was up with {progress.pending + progress.running} of {progress.total} pages left; "
                f"the workers' logs were in {stage.directory}"
            )


def _shop_targets(shop: ShopSite) -> list[Target]:
    # A part of the products is enough to watch; the special pages come early, so that their pauses end in time.
    pages = shop.urls()
    return [parse_target(url) for url in [*pages[:8], *pages[8:26]]]


def _limit(targets: list[Target]) -> float:
    return SECONDS + SECONDS_PER_PAGE * len(targets)


def _set_up(console: Console, stage: Stage, targets: list[Target]) -> tuple[Pool, int]:
    fleet = stage.fleet
    local = all(is_loopback(target.host) for target in targets)
    fleet.define_launcher("demo", **({"resolver_rules": ONLY_LOCAL} if local else {}))
    pool = fleet.define_pool("demo", **POLICY)
    taken = sum(pool.status().counts.values())
    for number in range(taken + 1, PROFILES + 1):
        pool.add_profile(f"profile-{number}", launcher="demo", tags=["demo"])
    run_id = tasks.create_run(fleet.database, "demo", pool.id, targets)
    policy = pool.policy
    console.print(
        f"{PROFILES} profiles in pool [bold]demo[/], {len(targets)} pages on {len({t.host for t in targets})} hosts, "
        f"{WORKERS} worker processes."
    )
    console.print(
        f"Short times, to watch: a lease lives {format_duration(policy.ttl)} unless renewed; a lost profile cools "
        f"{format_duration(policy.lost_cooldown)}, a blamed one {format_duration(policy.failure_cooldown)}; a host "
        f"pauses {format_duration(policy.block_pause)} after a captcha, or as long as it says."
    )
    return pool, run_id


class _Watch:
    """Shows how far the run is: a live bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, stage: Stage, run_id: int, total: int) -> None:
        self._console = console
        self._stage = stage
        self._run_id = run_id
        self._events = Events(stage.fleet.database)
        self._said_at = 0.0
        self._progress = Progress(
            TextColumn("pages"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[holders]}"),
            console=console,
        )
        self._bar = self._progress.add_task("pages", total=total, holders="")

    @property
    def bar(self) -> Progress:
        """What is shown live."""
        return self._progress

    def look(self) -> tasks.Progress:
        """Look at the tables, and show what is new."""
        progress = tasks.run_progress(self._stage.fleet.database, self._run_id)
        ended = progress.done + progress.failed
        holders = f"{progress.running} leased, {progress.pending} waiting"
        self._progress.update(self._bar, completed=ended, holders=holders)
        for line in self._events.news():
            self.say(line)
        if not self._console.is_terminal and time.monotonic() - self._said_at > PLAIN_LINE_EVERY:
            self.say(f"{ended}/{progress.total} pages, {holders}")
        return progress

    def say(self, line: str) -> None:
        """Print a line above what is live."""
        self._said_at = time.monotonic()
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {line}", highlight=False)


@contextmanager
def _watching(console: Console, stage: Stage, run_id: int, total: int) -> Iterator[_Watch]:
    watch = _Watch(console, stage, run_id, total)
    if console.is_terminal:
        with Live(watch.bar, console=console, refresh_per_second=8):
            yield watch
    else:
        yield watch


def _run(watch: _Watch, stage: Stage, pool: Pool, run_id: int, handler: str, *, limit: float) -> None:
    workers = [stage.start_worker(str(run_id), pool.name, handler, "1") for _ in range(WORKERS)]
    victim, killed = workers[-1], False
    ends_at = time.monotonic() + limit
    while time.monotonic() < ends_at:
        progress = watch.look()
        if progress.over:
            break
        if not killed and progress.done + progress.failed >= progress.total // 4:
            killed = _kill(watch, stage, victim)
        if all(worker.poll() is not None for worker in workers):
            # Only when both have failed: the one that was killed leaves its work to the other.
            watch.say(f"both workers have ended; see {stage.log_of(1)}")
            break
        time.sleep(LOOK_EVERY)
    stage.stop_workers()
    _wait_for_profiles(watch, pool)


def _kill(watch: _Watch, stage: Stage, victim: subprocess.Popen[bytes]) -> bool:
    """End the worker with kill -9 while its browser runs; False when it holds no browser just now."""
    held = stage.holding(victim.pid)
    if held is None:
        return False
    lease_id, key = held
    victim.kill()
    victim.wait()
    watch.say(
        f"[bold]kill -9[/] {victim.pid}: worker 2 dies in the middle of lease {lease_id} on {key}. "
        "Nobody cleans up after it; watch the profile."
    )
    return True


def _wait_for_profiles(watch: _Watch, pool: Pool) -> None:
    """Let the short cooldowns end, so that the closing table shows everything back."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        watch.look()
        counts = pool.status().counts
        if counts.get("available", 0) == sum(counts.values()):
            watch.say(f"all {sum(counts.values())} profiles are available again")
            return
        time.sleep(LOOK_EVERY)


def _show_end(console: Console, stage: Stage, pool: Pool, run_id: int) -> None:
    database = stage.fleet.database
    console.print()
    report.show_results(console, database, run_id)
    report.show_query(console, database, "Attempts by outcome (poolsql.attempts)", report.ATTEMPTS)
    report.show_query(console, database, "The pool now (poolsql.profiles)", report.PROFILES, pool=pool.name)
    report.show_query(console, database, "What failed, where, and whom it blames (poolsql.visits)", report.EXPLAIN)
    console.print("The SQL of the last table:", style="bold")
    console.print(report.EXPLAIN.strip(), highlight=False, markup=False)
    console.print()
    command = f"{shlex.quote(stage.psql)} {shlex.quote(stage.url)}"
    where = "while this runs" if os.environ.get("POOLSQL_DATABASE_URL") is None else "any time"
    console.print(f"To look further ({where}; --stay keeps it up):", style="bold")
    console.print(f"  {command}", highlight=False, markup=False, soft_wrap=True)


def _stay(console: Console) -> None:
    console.print("Staying up until Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        console.print("Taking everything down.")
