"""A Postgres server of a test's own: it wants passwords, and it can be stopped and started under its clients."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import psycopg
from sqlalchemy.engine import URL

from poolsql.database.addresses import database_address
from poolsql.database.embedded.account import run_as, server_account, start_as
from poolsql.database.embedded.binaries import find_binaries
from tests.fixtures.conditions import until

PASSWORD = "p@ss:w/o#r%d ü"


class Cluster:
    """One server in a temporary directory; its socket is there too.

    Args:
        listen: An address of this machine on whose network it takes connections as well, at `port`.
    """

    port = 5432

    def __init__(self, *, listen: str = "") -> None:
        self._listen = listen
        # Short, for the socket's path; open, because as root the server runs as somebody else.
        self.directory = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.directory.chmod(0o755)
        self._data = self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._account = server_account(self._data)
        self._binaries = find_binaries(major=None, account=self._account, copies=self.directory / "programs")

    def __enter__(self) -> Self:
        self._data.mkdir()
        if self._account is not None:
            os.chown(self._data, self._account.user, self._account.group)
        secret = self.directory / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        options = [
            f"--pgdata={self._data}",
            "--username=boss",
            f"--pwfile={secret}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        ]
        made = run_as(self._account, [self._binaries.program("initdb"), *options], timeout=60)
        assert made.returncode == 0, made.stdout
        with (self._data / "pg_hba.conf").open("a", encoding="utf-8") as rules:
            rules.write("host all all samenet scram-sha-256\n")
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.directory)

    @property
    def url(self) -> URL:
        """The superuser's address of the database postgres."""
        return database_address(f"postgresql://boss@/postgres?host={self._data}").set(password=PASSWORD)

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        program = self._binaries.program("postgres")
        places = ["-c", f"listen_addresses={self._listen}", "-c", f"unix_socket_directories={self._data}"]
        options = [*places, "-c", f"port={self.port}", "-c", "fsync=off"]
        with (self.directory / "log").open("ab") as log:
            self._process = start_as(self._account, [program, "-D", os.fspath(self._data), *options], output=log)
        until(self._answers)

    def stop(self, *, crashing: bool = False) -> None:
        """Stop the server as an administrator would, ending all sessions; or let it crash."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crashing else signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text()
        try:
            psycopg.connect(host=os.fspath(self._data), user="boss", password=PASSWORD, dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True
