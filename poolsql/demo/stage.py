"""What the demo needs around it, and takes away again: directories, a database, worker processes."""

from __future__ import annotations

import os
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
from types import FrameType
from uuid import uuid4

from sqlalchemy import text

from poolsql.database.embedded import open_embedded_server
from poolsql.database.embedded.binaries import psql_program
from poolsql.database.migration import upgrade
from poolsql.database.opening import open_database
from poolsql.fleet.fleet import Fleet, connect
from poolsql.settings import load_settings, process_settings

WORKER_STOP_SECONDS = 25.0
"""For stopping their browsers cleanly."""


@dataclass
class Stage:
    """A fleet in places of its own."""

    fleet: Fleet
    url: str
    """Address of the database, for psql and the workers."""
    psql: str
    """The psql program to use with it."""
    directory: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start_worker(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a worker process; what it logs goes to a file in the stage's directory."""
        environment = {**os.environ, "POOLSQL_DATABASE_URL": self.url}
        environment |= {"POOLSQL_DATA_DIR": str(self.directory), "POOLSQL_MACHINE": self.fleet.settings.machine}
        with self.log_of(len(self.workers) + 1).open("wb") as log:
            worker = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "poolsql.demo.worker", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for us; the workers are told by SIGTERM, once.
                start_new_session=True,
            )
        self.workers.append(worker)
        return worker

    def log_of(self, number: int) -> Path:
        """Where worker `number` (from 1) logs."""
        return self.directory / f"worker-{number}.log"

    def holding(self, pid: int) -> tuple[int, str] | None:
        """A lease under which the worker with this process id visits a page: its id and the profile's key."""
        query = text("""
            SELECT leases.id, profiles.key
            FROM poolsql.leases
            JOIN poolsql.workers ON workers.id = leases.worker_id
            JOIN poolsql.profiles ON profiles.id = leases.profile_id
            JOIN poolsql.tasks ON tasks.lease_id = leases.id
            WHERE workers.pid = :pid AND leases.state = 'held'
        """)
        with self.fleet.database.connect() as connection:
            row = connection.execute(query, {"pid": pid}).first()
        return (row.id, row.key) if row is not None else None

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


@contextmanager
def open_stage() -> Iterator[Stage]:
    """Set the stage: the database of ``POOLSQL_DATABASE_URL``, else an embedded server in a temporary directory.

    At the end all that was started is stopped, and what is temporary is removed.

    Raises:
        PoolsqlError: As `connect`.
    """
    given = process_settings()
    with ExitStack() as stack:
        stack.enter_context(_terminated_as_interrupt())
        directory = Path(tempfile.mkdtemp(prefix="poolsql-demo-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        if given.database_url is not None:
            url = given.database_url.get_secret_value()
        else:
            # Not inside `directory`: root's server runs as another user, who could not get there.
            server_directory = Path(tempfile.gettempdir()) / f"poolsql-demo-postgres-{uuid4().hex[:8]}"
            stack.callback(shutil.rmtree, server_directory, ignore_errors=True)
            url = stack.enter_context(open_embedded_server(server_directory)).url
            with open_database(load_settings(database_url=url)) as database:
                upgrade(database)
        stage = Stage(stack.enter_context(connect(url, data_dir=directory)), url, psql_program(), directory)
        stack.callback(_reap_all, stage)
        stack.callback(stage.stop_workers)
        yield stage


def _reap_all(stage: Stage) -> None:
    """Stop the browsers of workers that did not end by themselves."""
    stage.fleet.reap()


@contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: with everything stopped."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
