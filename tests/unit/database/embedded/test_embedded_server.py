"""What needs no running server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

from poolsql.database.embedded import default_directory, open_embedded_server, stop_embedded_server
from poolsql.database.embedded.cluster import last_lines
from poolsql.database.embedded.layout import Layout
from poolsql.database.embedded.postmaster import PostmasterFile, log_end, server_url
from poolsql.errors import BadInputError


def test_windows_is_sent_to_a_server_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert default_directory(tmp_path) == tmp_path / "postgres"
    for call in (open_embedded_server, stop_embedded_server):
        with pytest.raises(BadInputError, match="POOLSQL_DATABASE_URL"):
            call(tmp_path / "server")
    assert not list(tmp_path.iterdir())


def test_a_normal_users_server_lives_in_its_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    assert default_directory(tmp_path / "data") == tmp_path / "data" / "postgres"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("timeout", [0, -1.0])
def test_a_time_out_that_cannot_work_is_refused(tmp_path: Path, timeout: float) -> None:
    with pytest.raises(BadInputError, match="time-out"):
        open_embedded_server(tmp_path / "server", timeout=timeout)
    assert not list(tmp_path.iterdir())


def test_a_name_that_postgres_cannot_write_down_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="control character"):
        open_embedded_server(tmp_path / "two\nlines")
    assert not list(tmp_path.iterdir())


def test_a_layout_is_absolute_and_knows_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert Layout.of(Path("link/server")).data == tmp_path / "real" / "server" / "data"


@pytest.mark.parametrize("directory", ["/tmp/poolsql-a1", "/tmp/with space/100 % & ä?/x"])
def test_libpq_reads_the_address_back(directory: str) -> None:
    assert conninfo_to_dict(server_url(directory)) == {
        "user": "poolsql",
        "dbname": "poolsql",
        "host": directory,
        "port": "5432",
    }


def test_the_postmasters_file_is_read_at_every_stage_of_being_written(tmp_path: Path) -> None:
    assert PostmasterFile.read(tmp_path) is None
    file = tmp_path / "postmaster.pid"
    file.touch()
    assert PostmasterFile.read(tmp_path) is None
    file.write_text("41\n/data\n1700000000\n5432\n\n")
    assert PostmasterFile.read(tmp_path) == PostmasterFile(41, "", ready=False)
    file.write_text("41\n/data\n1700000000\n5432\n/söcket\n\n  1 2\nstarting\n")
    assert PostmasterFile.read(tmp_path) == PostmasterFile(41, "/söcket", ready=False)
    file.write_text("41\n/data\n1700000000\n5432\n/söcket\n\n  1 2\nready   \n")
    assert PostmasterFile.read(tmp_path) == PostmasterFile(41, "/söcket", ready=True)
    file.write_text("-41\n/data\n")
    assert PostmasterFile.read(tmp_path) == PostmasterFile(41, "", ready=False)


def test_only_the_end_of_a_log_is_quoted(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert log_end(layout) == "there is no log"
    layout.log.write_text("older\n" + "".join(f"line {number}\n" for number in range(2000)))
    assert log_end(layout) == " | ".join(f"line {number}" for number in range(1992, 2000))
    assert log_end(layout, layout.log.stat().st_size) == "it said nothing"
    assert last_lines("one\n  two\n\n") == "one | two"
