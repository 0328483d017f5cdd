"""The program as people run it: exit codes, and one line on standard error that names the place and the remedy."""

from __future__ import annotations

import os
import shutil
import signal
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.embedded import default_directory, open_embedded_server
from poolsql.database.embedded.binaries import psql_program
from poolsql.database.engine import Database
from poolsql.database.locks import Lock, try_session_lock, unlock_session
from poolsql.database.schema import head_revision
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk
from tests.integration.cli.programs import ROOT, Done, Program, address

# How it is called


def test_the_version_and_nothing_else(program: Program) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert program.run("--version") == Done(0, f"{declared}\n", "")


def test_help_tells_commands_and_exit_codes_on_a_narrow_terminal_too(program: Program) -> None:
    done = program.run("--help", COLUMNS="40")
    assert (done.code, done.errors) == (0, "")
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 40
    words = " ".join(done.out.split())
    for told in ("demo", "db", "0 done", "1 failed", "2 bad input", "3 database unavailable", "130 interrupted"):
        assert told in words


def test_a_groups_name_alone_shows_its_help(program: Program) -> None:
    done = program.run("db")
    assert (done.code, done.errors) == (2, "")
    assert {"upgrade", "grant", "fence"} <= set(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["feed"], "No such command 'feed'; see: poolsql --help"),
        (["db", "upgrade", "--wait", "soon"], "--wait: 'soon' is not a duration"),
        (["demo", "--urls", "no\x1b[2Jfile"], "no [2Jfile: cannot read the file (No such file or directory)"),
    ],
)
def test_what_cannot_be_understood_is_bad_input(program: Program, arguments: list[str], line: str) -> None:
    done = program.run(*arguments)
    assert done.code == 2
    assert done.line.startswith(line)


# Settings


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        (
            {"POOLSQL_DATABASE_URL": "postgresql//hunter2"},
            "POOLSQL_DATABASE_URL is not a database address; write postgresql://",
        ),
        ({"POOLSQL_DATABASE_URL": "sqlite:///x.db"}, "POOLSQL_DATABASE_URL names the database kind 'sqlite'"),
        (
            {"POOLSQL_LOG": "xml", "POOLSQL_CONNECT_TIMEOUT": "0"},
            "settings: POOLSQL_LOG: Input should be 'text' or 'json'; POOLSQL_CONNECT_TIMEOUT: Input should be",
        ),
    ],
)
def test_settings_that_cannot_be_right_are_named(program: Program, settings: Mapping[str, str], line: str) -> None:
    done = program.run("db", "upgrade", **settings)
    assert done.code == 2
    assert done.line.startswith(line)
    assert "hunter2" not in done.line


# Databases


def test_an_unreachable_database(program: Program) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/fleet"
    done = program.run("db", "upgrade", POOLSQL_DATABASE_URL=url)
    assert done.code == 3
    assert done.line.startswith("database postgresql://me@127.0.0.1:1/fleet cannot be reached: ")
    assert done.line.endswith("; check the address and that the server runs")


def test_waiting_for_a_database_that_is_not_up(program: Program) -> None:
    began = time.monotonic()
    done = program.run("db", "upgrade", "--wait", "1s", POOLSQL_DATABASE_URL="postgresql://127.0.0.1:1/fleet")
    assert time.monotonic() - began > 1
    assert done.code == 3
    assert done.errors.splitlines()[-1].startswith("poolsql: database ")


def test_a_wrong_password(program: Program, cluster_url: URL) -> None:
    wrong = address(cluster_url.set(password="hunter2"))
    done = program.run("db", "upgrade", POOLSQL_DATABASE_URL=wrong)
    assert done.code == 3
    assert 'password authentication failed for user "boss"; check user, password' in done.line
    assert "hunter2" not in done.line


def test_tables_are_brought_up_to_date_once(program: Program, empty_database: Callable[[], URL]) -> None:
    program.settings["POOLSQL_DATABASE_URL"] = address(empty_database())
    done = program.run("db", "grant", "somebody")
    assert done.code == 3
    assert done.line.endswith("has no poolsql tables; run: poolsql db upgrade")
    first, second = program.run("db", "upgrade"), program.run("db", "upgrade")
    assert (first.code, first.errors) == (second.code, second.errors) == (0, "")
    assert first.out.endswith(f"tables brought from nothing to revision {head_revision()}\n")
    assert second.out.endswith(f"the tables are at revision {head_revision()} already\n")


@pytest.mark.parametrize(
    ("revision", "line"),
    [
        (
            "0000_older",
            f"has poolsql tables of revision 0000_older, this code needs {head_revision()}; run: poolsql db",
        ),
        (
            "9999_newer",
            f"tables of revision 9999_newer, this code knows only {head_revision()}; install a newer poolsql",
        ),
    ],
)
def test_tables_of_another_version(on_database: Program, database: Database, revision: str, line: str) -> None:
    set_revision = text("UPDATE poolsql.alembic_version SET version_num = :revision")
    newest = text("UPDATE poolsql.schema_information SET compatible_from = :revision")
    with database.connect() as connection:
        before = connection.execute(text("SELECT compatible_from FROM poolsql.schema_information")).scalar_one()
        connection.execute(set_revision, {"revision": revision})
        connection.execute(newest, {"revision": revision})
    try:
        done = on_database.run("db", "fence")
    finally:
        with database.connect() as connection:
            connection.execute(set_revision, {"revision": head_revision()})
            connection.execute(newest, {"revision": before})
    assert done.code == 3
    assert line in done.line


def test_granting_to_a_role(on_database: Program, database: Database) -> None:
    role = f"worker_{uuid4().hex[:8]}"
    done = on_database.run("db", "grant", role)
    assert done.code == 2
    assert done.line.startswith(f"there is no role '{role}'; create it first")
    with database.connect() as connection:
        connection.execute(text(f"CREATE ROLE {role}"))
        try:
            done = on_database.run("db", "grant", role)
            may = connection.execute(
                text("SELECT has_table_privilege(:role, 'poolsql.leases', 'UPDATE')"), {"role": role}
            ).scalar_one()
        finally:
            connection.execute(text(f"DROP OWNED BY {role}"))
            connection.execute(text(f"DROP ROLE {role}"))
    assert (done.code, done.errors) == (0, "")
    assert f"role '{role}' may use" in done.out
    assert may


def test_psql_opens_on_the_database_and_gets_what_follows(on_database: Program) -> None:
    if shutil.which(psql_program()) is None:
        pytest.skip("there is no psql: apt install postgresql-client")
    done = on_database.run("db", "psql", "-Atc", "SELECT count(*) FROM poolsql.outcomes")
    assert (done.code, done.out.strip()) == (0, "18")
    assert on_database.run("db", "psql", "-v", "ON_ERROR_STOP=1", "-c", "SELECT 1/0").code == 1


def test_psql_is_told_a_password_where_no_process_list_shows_it(program: Program, tmp_path: Path) -> None:
    shown = tmp_path / "psql"
    shown.write_text('#!/bin/sh\necho "$PGPASSWORD" "$@"\n', encoding="utf-8")
    shown.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = program.run("db", "psql", POOLSQL_DATABASE_URL="postgres://me:geheim@127.0.0.1:1/d", PATH=path)
    assert done.out == "geheim --dbname postgresql://me@127.0.0.1:1/d\n"


def test_fencing_takes_all_leases_away(on_database: Program, desk: Desk) -> None:
    granted = desk.granted()
    done = on_database.run("db", "fence", "--reason", "restored from yesterday")
    assert (done.code, done.errors) == (0, "")
    assert done.out.endswith("1 lease was fenced\n")
    assert desk.lease_row(granted.lease_id).state == "reclaiming"
    (entry,) = desk.all("SELECT * FROM poolsql.audit")
    assert (entry.action, entry.reason) == ("fence", "restored from yesterday")
    assert entry.who.endswith("@here")
    desk.reaper().run_once()


def test_an_interrupt_ends_it_with_its_own_code(
    program: Program, empty_database: Callable[[], URL], opened: Callable[[URL], Database]
) -> None:
    url = empty_database()
    program.settings["POOLSQL_DATABASE_URL"] = address(url)
    with opened(url).connect() as connection:
        assert try_session_lock(connection, Lock.UPGRADE)
        waiting = text(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name = 'poolsql' AND pid <> pg_backend_pid() AND query LIKE '%advisory%'"
        )
        with program.start("db", "upgrade") as process:
            until(lambda: connection.execute(waiting).scalar_one())
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=20)
        unlock_session(connection, Lock.UPGRADE)
    assert Done(process.returncode, out, errors) == Done(130, "", "poolsql: interrupted\n")


def test_a_database_error_that_nobody_foresaw_is_one_line_too(on_database: Program, database: Database) -> None:
    with database.connect() as connection:
        connection.execute(text("ALTER TABLE poolsql.audit RENAME TO audits"))
        try:
            done = on_database.run("db", "fence")
        finally:
            connection.execute(text("ALTER TABLE poolsql.audits RENAME TO audit"))
    assert done.code == 1
    assert 'relation "poolsql.audit" does not exist' in done.line


# The demo


def test_the_demo_tells_what_is_wrong_with_a_list_of_pages(program: Program, tmp_path: Path) -> None:
    (tmp_path / "pages.txt").write_text("https://a.example/\n\nftp://b.example/\nhttp://[c.example/\n")
    done = program.run("demo", "--urls", "pages.txt")
    assert done.code == 2
    assert done.line.startswith("pages.txt: 2 lines are wrong: line 3: ")
    assert "line 4: " in done.line


def test_the_demo_needs_a_browser(program: Program) -> None:
    done = program.run("demo", POOLSQL_CHROMIUM="/nonexistent")
    assert done.code == 2
    assert done.line == "browser /nonexistent: no such file; correct the path (POOLSQL_CHROMIUM)"


# The data directory of the embedded server


def test_a_data_directory_that_cannot_be_made(program: Program, data_dir: Path) -> None:
    data_dir.touch()
    done = program.run("db", "upgrade", POOLSQL_DATA_DIR=str(data_dir))
    assert done.code == 2
    assert str(data_dir) in done.line


def test_a_data_directory_that_is_open_to_others(program: Program, data_dir: Path) -> None:
    server = data_dir / "postgres"
    server.mkdir(parents=True)
    for directory, mode in ((data_dir, 0o755), (server, 0o777)):
        directory.chmod(mode)
    done = program.run("db", "upgrade", POOLSQL_DATA_DIR=str(data_dir))
    assert done.code == 2
    assert str(server) in done.line
    assert "chmod" in done.line
    assert list(server.iterdir()) == []


# What nobody foresaw


def test_the_embedded_server_is_stopped_only_when_nobody_uses_it(program: Program, data_dir: Path) -> None:
    with open_embedded_server(default_directory(data_dir)):
        used = program.run("db", "stop", POOLSQL_DATA_DIR=str(data_dir))
    assert (used.code, "is in use" in used.line) == (2, True)
    unused = program.run("db", "stop", POOLSQL_DATA_DIR=str(data_dir))
    assert (unused.code, unused.errors) == (0, "")
    assert "no server runs" in unused.out


def test_an_error_that_nobody_foresaw_is_traced_without_its_secrets(program: Program, tmp_path: Path) -> None:
    # A sitecustomize is how a surprise gets into the real program.
    (tmp_path / "sitecustomize.py").write_text(
        "import poolsql.database.opening as opening\n"
        "def surprise(*_, **__):\n"
        "    raise RuntimeError('password=hunter2 for postgresql://me:hunter2@host/x')\n"
        "opening.open_database = surprise\n"
    )
    done = program.run("db", "upgrade", PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.code == 1
    assert done.out == ""
    first, *_, last = done.errors.splitlines()
    assert first == "Traceback (most recent call last):"
    assert last.startswith("poolsql: unexpected RuntimeError: password=[hidden]")
    assert "hunter2 for" not in done.errors.replace("raise RuntimeError('password=hunter2 for", "")
