"""What is killed and what heals it: workers with real browsers, a daemon, and a product that other machines reach."""

from __future__ import annotations

import logging
import multiprocessing
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import text

from benchmarks.fleets import DIRECTORY, address
from poolsql import Fleet, connect
from poolsql.scheduling.daemon import Daemon
from tests.fixtures.browsers import OFFLINE
from tests.fixtures.conditions import until
from tests.fixtures.justbrowser import TOKEN, JustBrowser

START_SECONDS = 120.0
"""For workers that all start at a time, on two cores."""

TOKEN_VARIABLE = "BENCHMARK_PRODUCT_TOKEN"  # noqa: S105 - where the token is

HERE, THERE = "here", "there"
"""The daemon's machine, and another one."""

REAPS = "SELECT FROM poolsql.loop_stamps WHERE loop = 'reap' AND stamped_at > clock_timestamp() - interval '5 seconds'"


@dataclass(frozen=True)
class Victim:
    """A worker that holds a browser and waits to be killed."""

    process: BaseProcess
    key: str
    """Its profile's."""
    profile_id: int

    def kill(self) -> None:
        """``kill -9``; of the process alone."""
        self.process.kill()


class ReachableProduct(JustBrowser):
    """A product on this machine under an address that, as far as poolsql can tell, every machine reaches."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir)
        self.base_url = _reachable(self.base_url)

    def start(self, key: str) -> str | None:
        """Start a profile's browser; None when it runs already."""
        started = super().start(key)
        return None if started is None else _reachable(started)


def _reachable(url: str) -> str:
    # Means this machine too, but is no address of the loopback, whose browsers are stopped by their machine only.
    return url.replace("127.0.0.1", "0.0.0.0", 1)  # noqa: S104 - nothing is bound to it


@contextmanager
def place_for_browsers() -> Iterator[Path]:
    """A directory for profiles and temporary files of everything that is started meanwhile; nothing of it is left."""
    with tempfile.TemporaryDirectory(prefix="crash-", dir=DIRECTORY, ignore_cleanup_errors=True) as name:
        place = Path(name)
        (place / "tmp").mkdir()
        before = {variable: os.environ.get(variable) for variable in ("TMPDIR", TOKEN_VARIABLE)}
        os.environ |= {"TMPDIR": str(place / "tmp"), TOKEN_VARIABLE: TOKEN}
        try:
            yield place
        finally:
            for variable, value in before.items():
                if value is None:
                    del os.environ[variable]
                else:
                    os.environ[variable] = value


@contextmanager
def launcher_of_this_machine(fleet: Fleet, _: Path) -> Iterator[str]:
    """Chromium, on the machine of whoever starts it."""
    fleet.define_launcher("crash-local", resolver_rules=OFFLINE)
    yield "crash-local"


@contextmanager
def launcher_of_all_machines(fleet: Fleet, place: Path) -> Iterator[str]:
    """A product's API."""
    with ReachableProduct(place / "product") as product:
        fleet.define_launcher(
            "crash-product",
            kind="rest",
            preset="justbrowser",
            token=f"env:{TOKEN_VARIABLE}",
            base_url=product.base_url,
        )
        yield "crash-product"


@contextmanager
def daemon(fleet: Fleet, place: Path) -> Iterator[None]:
    """A daemon on the machine `HERE`, as ``poolsql daemon`` runs it."""
    process = multiprocessing.get_context("spawn").Process(target=_daemon, args=(address(fleet), place))
    process.start()
    try:
        until(lambda: _rows(fleet, REAPS), seconds=START_SECONDS)
        yield
    finally:
        process.terminate()
        process.join(timeout=60)
        process.kill()


def victims(fleet: Fleet, pool: str, place: Path, *, machine: str, count: int) -> list[Victim]:
    """Start so many workers, and wait until each holds a browser with a page."""
    spawn = multiprocessing.get_context("spawn")
    started: list[tuple[BaseProcess, Connection]] = []
    for _ in range(count):
        ours, theirs = spawn.Pipe()
        process: BaseProcess = spawn.Process(target=_hold, args=(theirs, address(fleet), pool, place, machine))
        process.start()
        theirs.close()
        started.append((process, ours))
    try:
        return [Victim(process, *_told(told)) for process, told in started]
    except BaseException:
        for process, _ in started:
            process.kill()
        raise


def browser_processes(place: Path, key: str) -> list[int]:
    """Living processes, of whatever kind, of a browser on the directory of a profile."""
    found = []
    for process in psutil.process_iter():
        try:
            flags = [part for part in process.cmdline() if part.startswith(f"--user-data-dir={place}/")]
            if any(flag.endswith(f"/{key}") for flag in flags) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _told(told: Connection) -> tuple[str, int]:
    if not told.poll(START_SECONDS):
        raise RuntimeError(f"a worker has not got a browser within {START_SECONDS:g} s; is there a Chromium?")
    key, profile_id = told.recv()
    return str(key), int(profile_id)


def _hold(telling: Connection, url: str, pool: str, place: Path, machine: str) -> None:
    """A worker: borrows a browser and keeps it until it is killed."""
    _only_errors()
    with connect(url, machine=machine, data_dir=place) as fleet, fleet.pool(pool).browser() as session:
        session.page.goto("data:text/html,<title>held</title>")
        telling.send((session.profile.key, session.profile.id))
        threading.Event().wait()


def _daemon(url: str, place: Path) -> None:
    _only_errors()
    with connect(url, machine=HERE, data_dir=place) as fleet:
        Daemon(fleet).run()


def _only_errors() -> None:
    # That a worker is lost is what is wanted here.
    logging.getLogger("poolsql").setLevel(logging.ERROR)


def _rows(fleet: Fleet, query: str, **parameters: Any) -> list[Any]:
    with fleet.database.connect() as connection:
        return list(connection.execute(text(query), parameters))
