"""What the demo needs around it, and takes away again: directories, a database, worker processes."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from sqlalchemy import text

from poolsql.database.embedded import open_embedded_server
from poolsql.database.embedded.binaries import psql_program
from poolsql.database.migration import upgrade
from poolsql.database.opening import open_database
from poolsql.demo.interrupts import Interrupts
from poolsql.errors import PoolsqlError
from poolsql.fleet.fleet import Fleet, connect
from poolsql.settings import load_settings, process_settings

log = logging.getLogger(__name__)

WORKER_STOP_SECONDS = 10.0
"""For stopping their browsers cleanly; afterwards it is done for them."""

REMOVE_SECONDS = 5.0
"""A browser that was killed may write for a moment longer."""

_LONGEST_TEMPORARY = 55
"""Bytes of a directory in which Chromium's socket still fits its 103 to 107 bytes."""

_HOLDS = text("""
    SELECT leases.id AS lease_id, profiles.key AS profile, tasks.url
    FROM poolsql.leases
    JOIN poolsql.workers ON workers.id = leases.worker_id
    JOIN poolsql.profiles ON profiles.id = leases.profile_id
    JOIN poolsql.tasks ON tasks.lease_id = leases.id AND tasks.state = 'running'
    WHERE workers.pid = :pid AND workers.machine = :machine AND leases.pool_id = :pool AND leases.state = 'held'
""")


@dataclass(frozen=True, slots=True)
class Held:
    """A lease under which a worker visits a page."""

    lease_id: int
    profile: str
    url: str


@dataclass
class Stage:
    """A fleet in places of its own."""

    fleet: Fleet
    url: str
    """Address of the database, for psql and the workers."""
    psql: str
    """The psql program to use with it."""
    directory: Path
    temporary: bool
    """The database goes when the demo goes."""
    interrupts: Interrupts
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def psql_command(self) -> str:
        """A line for a shell that opens the database, without its password."""
        parts = urlsplit(self.url)
        user, _, place = parts.netloc.rpartition("@")
        netloc = f"{user.partition(':')[0]}@{place}" if user else place
        query = "&".join(pair for pair in parts.query.split("&") if not pair.startswith("password="))
        return shlex.join([self.psql, urlunsplit(("postgresql", netloc, parts.path or "/", query, ""))])

    def start_worker(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a worker process; what it logs goes to a file in the stage's directory."""
        with self.interrupts.held(), self._log_of(len(self.workers)).open("wb") as output:
            worker = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "poolsql.demo.worker", *arguments],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Ctrl-C is for us; the workers are told by SIGTERM, once.
                start_new_session=True,
            )
            self.workers.append(worker)
        return worker

    def last_words(self) -> str:
        """The last line that any worker has logged."""
        for number in range(len(self.workers)):
            lines = self._log_of(number).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            if lines:
                return lines[-1]
        return "they have logged nothing"

    def kill_in_visit(self, worker: subprocess.Popen[bytes], pool_id: int) -> Held | None:
        """End a worker with kill -9 if it is in the middle of a visit; None, and nothing, when it is not."""
        if self._holding(worker.pid, pool_id) is None:
            return None
        # It is stopped first, so that it can't finish the visit between the look and the kill; what it had asked of
        # the database before may still be carried out, so there are two looks.
        with self.interrupts.held():
            worker.send_signal(signal.SIGSTOP)
            first = self._holding(worker.pid, pool_id)
            time.sleep(0.05)
            second = self._holding(worker.pid, pool_id)
            if first is None or first != second:
                worker.send_signal(signal.SIGCONT)
                return None
            worker.kill()
            worker.wait()
        return second

    def stop_workers(self) -> None:
        """Ask all workers to end, and end those that do not."""
        for worker in self.workers:
            if worker.poll() is None:
                worker.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + WORKER_STOP_SECONDS
        for worker in self.workers:
            try:
                worker.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()

    def close(self) -> None:
        """Stop the workers, and the browsers of those that could not do it themselves."""
        self.stop_workers()
        if not self.workers:
            return
        try:
            self.fleet.reap()
        except PoolsqlError as error:
            log.warning("browsers of the demo may be left: %s", error)

    def _holding(self, pid: int, pool_id: int) -> Held | None:
        parameters = {"pid": pid, "machine": self.fleet.settings.machine, "pool": pool_id}
        with self.fleet.database.connect() as connection:
            row = connection.execute(_HOLDS, parameters).first()
        return Held(**row._asdict()) if row is not None else None

    def _log_of(self, number: int) -> Path:
        return self.directory / f"worker-{number + 1}.log"

    def _environment(self) -> dict[str, str]:
        ours = {
            "POOLSQL_DATABASE_URL": self.url,
            "POOLSQL_DATA_DIR": str(self.directory),
            "POOLSQL_MACHINE": self.fleet.settings.machine,
        }
        # A worker that is killed leaves temporary files, and nobody but us knows where.
        if len(os.fsencode(self.directory)) <= _LONGEST_TEMPORARY:
            ours["TMPDIR"] = str(self.directory)
        return {**os.environ, **ours}


@contextmanager
def open_stage(interrupts: Interrupts) -> Iterator[Stage]:
    """Set the stage: the database of ``POOLSQL_DATABASE_URL``, else an embedded server in a temporary directory.

    At the end all that was started is stopped, and what is temporary is removed.

    Raises:
        PoolsqlError: As `connect`.
    """
    given = process_settings().database_url
    with ExitStack() as stack:
        with interrupts.held():
            directory = Path(tempfile.mkdtemp(prefix="poolsql-demo-"))
            stack.callback(_remove, directory)
        url = given.get_secret_value() if given is not None else _temporary_server(stack, interrupts)
        fleet = stack.enter_context(connect(url, data_dir=directory))
        stage = Stage(fleet, url, psql_program(), directory, given is None, interrupts)
        stack.callback(stage.close)
        yield stage


def _temporary_server(stack: ExitStack, interrupts: Interrupts) -> str:
    # Not inside the stage's directory: root's server runs as another user, who could not get there.
    directory = Path(tempfile.gettempdir()) / f"poolsql-demo-postgres-{uuid4().hex[:8]}"
    with interrupts.held():
        stack.callback(_remove, directory)
        url = stack.enter_context(open_embedded_server(directory)).url
    with open_database(load_settings(database_url=url)) as database:
        upgrade(database)
    return url


def _remove(directory: Path) -> None:
    give_up_at = time.monotonic() + REMOVE_SECONDS
    while directory.exists():
        shutil.rmtree(directory, ignore_errors=True)
        if directory.exists() and time.monotonic() > give_up_at:
            log.warning("%s could not be removed", directory)
            return
        time.sleep(0.02)
