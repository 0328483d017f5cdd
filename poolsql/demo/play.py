"""The demo: six profiles, two workers, a small shop, and a kill -9 in the middle."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy import text

from poolsql.demo import report
from poolsql.demo.events import Events
from poolsql.demo.interrupts import Interrupts
from poolsql.demo.names import Names
from poolsql.demo.report import Killed
from poolsql.demo.shop import ShopSite
from poolsql.demo.stage import Stage, open_stage
from poolsql.durations import format_duration
from poolsql.errors import PoolsqlError
from poolsql.fleet.pool import Pool
from poolsql.hosts import is_loopback
from poolsql.launchers.local.executable import find_executable
from poolsql.scraping import tasks
from poolsql.settings import process_settings
from poolsql.targets import Target, parse_target, read_url_file

PROFILES = 6
WORKERS = 2
SECONDS = 70.0
"""After set-up; then the demo ends whatever is left, for which it takes up to 20 s more. Pages of the user's own get
`SECONDS_PER_PAGE` each on top."""

SECONDS_PER_PAGE = 5.0
MANY_PAGES = 20
"""From so many pages of the user's own on each worker has two browsers."""

LOOK_EVERY = 0.25
LOOK_FOR_VISIT_EVERY = 0.02
"""While the kill is due: a visit of a page on this machine may take no more than a few hundredths of a second."""

PLAIN_LINE_EVERY = 5.0
PLAIN_WIDTH = 120
"""Columns where the output is no terminal and COLUMNS says nothing."""

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
    """The demo ended before its run was over."""


@dataclass(frozen=True, slots=True)
class _Program:
    """What is shown."""

    targets: list[Target]
    handler: str
    """What the workers read from the pages: ``shop`` or ``pages``."""
    browsers: int
    """Of each worker at a time."""
    limit: float
    """Seconds after which whatever is left is ended."""
    names: Names
    sites: list[str]
    """What there is to visit, a line each."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A run on the stage."""

    stage: Stage
    pool: Pool
    id: int
    program: _Program


def play(console: Console, *, urls: Path | None, stay: bool) -> None:
    """Show the pool at work, on the demo's shop or on pages of the user's own.

    Args:
        console: Where to show it.
        urls: A file with one http(s) address a line, to visit instead of the shop.
        stay: Keep database and shop up at the end until Ctrl-C.

    Raises:
        BadInputError: The file holds something else, or no Chromium was found.
        DatabaseUnavailableError: There is no database.
        DemoIncompleteError: Time was up, or the workers have failed.
        KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP; everything was taken down first.
    """
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    settings = process_settings()
    find_executable(settings.chromium)
    own = read_url_file(urls) if urls is not None else None
    with Interrupts() as interrupts, _quiet_log(), ExitStack() as resources:
        try:
            program = _own_pages(own) if own is not None else _shop(resources.enter_context(ShopSite()))
            console.print("Setting up: database, tables, profiles …")
            stage = resources.enter_context(open_stage(interrupts))
            run = _set_up(stage, program, resources)
            _introduce(console, run)
            _show(console, run, stay=stay)
        except KeyboardInterrupt:
            interrupts.hold_for_good()
            console.print("Interrupted: taking everything down.")
            raise
        finally:
            interrupts.hold_for_good()


@contextmanager
def _quiet_log() -> Iterator[None]:
    """What the demo says is its log; that a server was started is for those who ask for it."""
    logger = logging.getLogger("poolsql")
    before = logger.level
    if "log_level" not in process_settings().model_fields_set:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)


def _shop(shop: ShopSite) -> _Program:
    # A part of the products is enough to watch; the special pages come early, so that their pauses end in time.
    targets = [parse_target(url) for url in shop.urls()[:26]]
    sites = {
        shop.url: ("shop", "products, a slow page, one that sets a cookie, one that robots.txt forbids"),
        shop.limited_url: ("offers", "answers 429 with Retry-After at first"),
        shop.captcha_url: ("members", "shows nothing but a captcha, which nobody solves here"),
    }
    hosts = {parse_target(url).host: name for url, (name, _) in sites.items()}
    lines = [f"{name:<8} http://{parse_target(url).host}/  {about}" for url, (name, about) in sites.items()]
    return _Program(targets, "shop", 1, SECONDS, Names(hosts), lines)


def _own_pages(targets: list[Target]) -> _Program:
    hosts = {target.host for target in targets}
    count = "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"
    pace = "at full speed" if all(is_loopback(host) for host in hosts) else "one load a second for each"
    line = f"{len(targets)} pages of your own on {count}, {pace}; the title and the first heading of each are read"
    browsers = 1 if len(targets) < MANY_PAGES else 2
    return _Program(targets, "pages", browsers, SECONDS + SECONDS_PER_PAGE * len(targets), Names(), [line])


def _set_up(stage: Stage, program: _Program, resources: ExitStack) -> _Run:
    fleet = stage.fleet
    # In a database that stays, each demo has a pool of its own, and leaves the others alone.
    name = "demo" if stage.temporary else f"demo-{uuid4().hex[:6]}"
    local = all(is_loopback(target.host) for target in program.targets)
    fleet.define_launcher(name, **({"resolver_rules": ONLY_LOCAL} if local else {}))
    pool = fleet.define_pool(name, **POLICY)
    for number in range(1, PROFILES + 1):
        profile_id = pool.add_profile(f"profile-{number}", launcher=name, tags=["demo"])
        if not stage.temporary:
            resources.callback(_retire, stage, profile_id)
    # The registered retirements have to come after the end of the leases.
    resources.callback(stage.close)
    _forget_sites(stage, program)
    return _Run(stage, pool, tasks.create_run(fleet.database, name, pool.id, program.targets), program)


def _retire(stage: Stage, profile_id: int) -> None:
    try:
        stage.fleet.change_profile(profile_id, "retire", who="demo", reason="its demo is over")
    except PoolsqlError as error:
        logging.getLogger(__name__).warning("profile %d could not be retired: %s", profile_id, error)


def _forget_sites(stage: Stage, program: _Program) -> None:
    """A port of this machine that was another site's in an earlier demo starts without that one's pauses."""
    hosts = list(program.names.hosts)
    with stage.fleet.database.connect() as connection:
        connection.execute(
            text("UPDATE poolsql.robots SET expires_at = clock_timestamp() WHERE origin = ANY (:origins)"),
            {"origins": [f"http://{host}" for host in hosts]},
        )
        connection.execute(
            text("UPDATE poolsql.hosts SET paused_until = NULL, next_slot_at = NULL WHERE name = ANY (:hosts)"),
            {"hosts": hosts},
        )


def _introduce(console: Console, run: _Run) -> None:
    policy, plain = run.pool.policy, not console.is_terminal
    for line in run.program.sites:
        console.print(f"  {escape(line)}", highlight=False, soft_wrap=True)
    browsers = "one browser" if run.program.browsers == 1 else f"{run.program.browsers} browsers"
    console.print(
        f"{PROFILES} browser profiles in pool [bold]{run.pool.name}[/], {len(run.program.targets)} pages, {WORKERS} "
        f"worker processes with {browsers} each at a time. One of them gets kill -9 in the middle of a visit.",
        highlight=False,
        soft_wrap=plain,
    )
    console.print(
        f"Short times, to watch: a lease lives {format_duration(policy.ttl)} unless renewed; a lost profile cools "
        f"{format_duration(policy.lost_cooldown)}, a blamed one {format_duration(policy.failure_cooldown)}; a host "
        f"pauses {format_duration(policy.block_pause)} after a captcha, or as long as it says.",
        highlight=False,
        soft_wrap=plain,
    )
    console.print("Look in from another terminal while it runs:", highlight=False)
    _print_psql(console, run.stage)
    console.print()


def _print_psql(console: Console, stage: Stage) -> None:
    console.print(f"  {stage.psql_command()}", highlight=False, markup=False, soft_wrap=True)


def _show(console: Console, run: _Run, *, stay: bool) -> None:
    database = run.stage.fleet.database
    with _watching(console, run) as watch:
        killed = _work(watch, run)
    _show_tables(console, run, killed)
    progress = tasks.run_progress(database, run.id)
    _show_way_on(console, run, stay=stay)
    if stay:
        _stay(console, run.stage.interrupts)
    if not progress.over:
        left = progress.pending + progress.running
        raise DemoIncompleteError(
            f"{left} of {progress.total} pages were left; the last that a worker said: {run.stage.last_words()}"
        )


class _Watch:
    """Shows how far the run is: a live bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console, run: _Run) -> None:
        self._console = console
        self._run = run
        self._database = run.stage.fleet.database
        self._events = Events(self._database, pool_id=run.pool.id, run_id=run.id, names=run.program.names)
        self._said_at = 0.0
        self.bar = Progress(
            TextColumn("pages"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[holders]}"),
            console=console,
        )
        """What is shown live."""
        self._task = self.bar.add_task("pages", total=len(run.program.targets), holders="")

    def look(self) -> tasks.Progress:
        """Look at the tables, and show what is new."""
        progress = tasks.run_progress(self._database, self._run.id)
        ended = progress.done + progress.failed
        holders = f"{progress.running} in work, {progress.pending} waiting"
        self.bar.update(self._task, completed=ended, holders=holders)
        for line in self._events.news():
            self.say(escape(line))
        if not self._console.is_terminal and time.monotonic() - self._said_at > PLAIN_LINE_EVERY:
            self.say(f"{ended}/{progress.total} pages, {holders}")
        return progress

    def say(self, line: str) -> None:
        """Print a line above what is live."""
        self._said_at = time.monotonic()
        wrap = not self._console.is_terminal
        self._console.print(f"[dim]{time.strftime('%H:%M:%S')}[/] {line}", highlight=False, soft_wrap=wrap)


@contextmanager
def _watching(console: Console, run: _Run) -> Iterator[_Watch]:
    watch = _Watch(console, run)
    if console.is_terminal:
        with Live(watch.bar, console=console, refresh_per_second=8):
            yield watch
    else:
        yield watch


def _work(watch: _Watch, run: _Run) -> Killed | None:
    """Let the workers do the run, and kill one of them; returns what that hit."""
    stage, program = run.stage, run.program
    workers = [
        stage.start_worker(str(run.id), run.pool.name, program.handler, str(program.browsers)) for _ in range(WORKERS)
    ]
    killed = None
    began = time.monotonic()
    while time.monotonic() - began < program.limit:
        progress = watch.look()
        if progress.over:
            break
        if all(worker.poll() is not None for worker in workers):
            # Only when both have failed: the one that was killed leaves its work to the other.
            watch.say(f"both workers have ended: {escape(stage.last_words())}")
            break
        if killed is None and (progress.done + progress.failed) * 4 >= progress.total:
            killed = _kill(watch, run, until=time.monotonic() + LOOK_EVERY)
        else:
            time.sleep(LOOK_EVERY)
    stage.stop_workers()
    _wait_for_profiles(watch, run.pool, until=began + program.limit + 10)
    return killed


def _kill(watch: _Watch, run: _Run, *, until: float) -> Killed | None:
    """End a worker with kill -9 as soon as it is in the middle of a visit; None when no one was, up to `until`."""
    stage = run.stage
    while time.monotonic() < until:
        for number, worker in enumerate(stage.workers, start=1):
            held = stage.kill_in_visit(worker, run.pool.id)
            if held is not None:
                with stage.fleet.database.connect() as connection:
                    at = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
                watch.say(
                    f"[bold red]kill -9[/] {worker.pid}: worker {number} dies in the middle of "
                    f"{escape(run.program.names.page(held.url))}, lease {held.lease_id} on {held.profile}. "
                    "Nobody cleans up after it; watch the profile."
                )
                return Killed(held.lease_id, held.url, at, worker.pid)
        time.sleep(LOOK_FOR_VISIT_EVERY)
    return None


def _wait_for_profiles(watch: _Watch, pool: Pool, *, until: float) -> None:
    """Let the short cooldowns end, so that the closing table shows everything back."""
    deadline = min(time.monotonic() + 10.0, until)
    while True:
        watch.look()
        counts = pool.status().counts
        if counts.get("available", 0) == sum(counts.values()):
            watch.say(f"all {sum(counts.values())} profiles are available again")
            return
        if time.monotonic() >= deadline:
            return
        time.sleep(LOOK_EVERY)


def _show_tables(console: Console, run: _Run, killed: Killed | None) -> None:
    database, pool = run.stage.fleet.database, run.pool.id
    console.print()
    report.show_results(console, database, run.id, run.program.names)
    report.show_query(console, database, "Attempts by outcome (poolsql.attempts)", report.ATTEMPTS, pool=pool)
    report.show_query(console, database, "The pool now (poolsql.profiles)", report.PROFILES, pool=pool)
    if killed is not None:
        report.show_story(console, database, run.id, killed, run.program.names)
    else:
        console.print("No worker was killed: none was in the middle of a visit for long enough.")
    report.show_query(
        console, database, "What failed, where, and whom it blames (poolsql.visits)", report.EXPLAIN, pool=pool
    )


def _show_way_on(console: Console, run: _Run, *, stay: bool) -> None:
    console.print("The SQL of the last table, to ask the same about a pool of your own:", style="bold")
    sql = report.with_values(report.EXPLAIN, pool=run.pool.id)
    console.print(sql, highlight=False, markup=False, soft_wrap=True)
    console.print()
    if not run.stage.temporary:
        where = "To look further; all of it stays in your database"
    elif stay:
        where = "To look further, while this stays up"
    else:
        where = "To look further, run it with --stay: the database then stays up, at an address like this one"
    console.print(f"{where}:", style="bold")
    _print_psql(console, run.stage)


def _stay(console: Console, interrupts: Interrupts) -> None:
    console.print("\nStaying up until Ctrl-C.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        interrupts.forgive()
        console.print("Taking everything down.")
