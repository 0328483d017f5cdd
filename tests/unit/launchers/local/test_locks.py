from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from poolsql.launchers.local.locks import LockOwner, read_lock, remove_stale_lock, take_unused

pytestmark = pytest.mark.skipif(os.name != "posix", reason="symbolic links")
HOST = socket.gethostname()


def lock(directory: Path, target: str) -> Path:
    """Leave a lock behind as a killed browser does, and return the directory of its socket."""
    folder = directory / "tmp/org.chromium.Chromium.AbCdEf"
    folder.mkdir(parents=True)
    (folder / "SingletonSocket").touch()
    (folder / "SingletonCookie").symlink_to("123")
    (directory / "SingletonLock").symlink_to(target)
    (directory / "SingletonSocket").symlink_to(folder / "SingletonSocket")
    (directory / "SingletonCookie").symlink_to("123")
    return folder


@pytest.mark.parametrize(
    ("target", "owner"),
    [
        ("host-7", LockOwner("host", 7)),
        ("my-long-host-7", LockOwner("my-long-host", 7)),
        ("host", None),
        ("host-", None),
        ("-7", None),
        ("host-seven", None),
    ],
)
def test_a_lock_names_host_and_process(tmp_path: Path, target: str, owner: LockOwner | None) -> None:
    lock(tmp_path, target)
    assert read_lock(tmp_path) == owner


def test_no_lock_names_nobody(tmp_path: Path) -> None:
    assert read_lock(tmp_path) is None
    take_unused(tmp_path)
    remove_stale_lock(tmp_path)


@pytest.mark.parametrize(
    "target",
    ["another-host-7", f"{HOST}-4194305", f"{HOST}-{os.getpid()}", "nonsense"],
    ids=["another host", "dead process", "process that is no browser", "nonsense"],
)
def test_before_a_start_a_lock_that_nobody_answers_is_taken_away(tmp_path: Path, target: str) -> None:
    folder = lock(tmp_path, target)
    take_unused(tmp_path)
    assert not list(tmp_path.glob("Singleton*"))
    assert not folder.exists()


def test_after_a_stop_only_the_lock_of_a_dead_browser_here_is_taken_away(tmp_path: Path) -> None:
    for name, target, stays in [
        ("dead", f"{HOST}-4194305", False),
        ("alive", f"{HOST}-{os.getpid()}", True),
        ("foreign", "another-host-7", True),
    ]:
        folder = lock(tmp_path / name, target)
        remove_stale_lock(tmp_path / name)
        assert (tmp_path / name / "SingletonLock").is_symlink() is stays
        assert folder.exists() is stays


def test_a_directory_that_is_no_browsers_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "SingletonSocket").touch()
    (tmp_path / "SingletonLock").symlink_to("another-host-7")
    (tmp_path / "SingletonSocket").symlink_to(precious / "SingletonSocket")
    take_unused(tmp_path)
    assert (precious / "SingletonSocket").exists()
