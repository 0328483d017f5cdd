from __future__ import annotations

import os
import stat
from itertools import combinations
from pathlib import Path

import pytest

from poolsql.errors import LaunchFailedError, LaunchFault
from poolsql.launchers.local.directories import open_directory, profile_directory, safe_name

NAMES = [
    *("shop", "Shop", "SHOP", "%53hop", "shop ", " shop", "shop.", "shop/", "shop\\", "shop\n", "shop\0", "..", "."),
    *("con", "CON", "nul", "com1", "%63on", "é", "e\u0301", "profil ä", "店", "\udcff", "\U0001f600"),
    *("~", "-", "_", "a/../b"),
    *("x" * 100, "x" * 101, "x" * 102, "X" * 5000, "x" * 60 + "~" + "0" * 64, "é" * 60),
]  # fmt: skip


def test_no_two_names_meet_even_where_capitals_do_not_count() -> None:
    for one, other in combinations(NAMES, 2):
        assert safe_name(one).casefold() != safe_name(other).casefold(), (one, other)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_harmless_part_of_a_path(name: str, tmp_path: Path) -> None:
    safe = safe_name(name)
    assert safe.isascii()
    assert safe.isprintable()
    assert not set(safe) & set(' ./\\:*?"<>|')
    assert len(safe) <= 125
    assert safe not in {"con", "nul", "com1"}
    (tmp_path / safe).mkdir()


def test_plain_names_stay_as_they_are() -> None:
    assert safe_name("profile_a1-2") == "profile_a1-2"


@pytest.mark.parametrize(("launcher", "key"), [("", "a"), ("a", "")])
def test_an_empty_name_is_refused(launcher: str, key: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailedError, match="need a name"):
        profile_directory(tmp_path, launcher, key)


def test_the_launcher_is_part_of_the_path(tmp_path: Path) -> None:
    assert profile_directory(tmp_path, "a", "b") == tmp_path / "profiles/a/b"
    assert profile_directory(tmp_path, "a/b", "c") != profile_directory(tmp_path, "a", "b/c")


def test_a_directory_is_created_once_and_private(tmp_path: Path) -> None:
    directory = tmp_path / "data/profiles/local/shop"
    assert open_directory(directory) == directory
    (directory / "Cookies").touch()
    assert open_directory(directory) == directory
    assert (directory / "Cookies").exists()
    for created in (directory, *directory.parents[:3]):
        assert stat.S_IMODE(created.stat().st_mode) == 0o700


def test_links_on_the_way_do_not_make_another_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert open_directory(tmp_path / "link/shop") == tmp_path / "real/shop"


def refused(directory: Path, words: str) -> LaunchFailedError:
    with pytest.raises(LaunchFailedError, match=words) as error:
        open_directory(directory)
    assert str(directory) in str(error.value)
    return error.value


def test_a_link_instead_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir(mode=0o700)
    (tmp_path / "other").symlink_to(tmp_path / "one")
    assert refused(tmp_path / "other", "symbolic link").fault is LaunchFault.PROFILE


def test_a_file_instead_of_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert refused(tmp_path / "file", "not a directory").fault is LaunchFault.PROFILE
    assert refused(tmp_path / "file/shop", "cannot create").fault is LaunchFault.LAUNCHER


@pytest.mark.parametrize("mode", [0o750, 0o701, 0o777])
def test_a_directory_that_others_may_enter_is_refused(mode: int, tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    directory.mkdir()
    directory.chmod(mode)
    assert refused(directory, "chmod 700").fault is LaunchFault.PROFILE


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "shop"
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, 65534)
    assert refused(directory, "belongs to user 65534").fault is LaunchFault.PROFILE


@pytest.mark.parametrize("path", ["shop", "./shop", "/data/../shop", "/"])
def test_a_path_that_depends_on_something_is_refused(path: str) -> None:
    with pytest.raises(LaunchFailedError, match="absolute path"):
        open_directory(Path(path))


def test_a_place_that_cannot_be_created_is_a_fault_of_the_launcher() -> None:
    assert refused(Path("/proc/poolsql/shop"), "POOLSQL_DATA_DIR").fault is LaunchFault.LAUNCHER


def test_a_directory_that_has_to_be_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(LaunchFailedError, match="does not exist") as error:
        open_directory(tmp_path / "brought", create=False)
    assert error.value.fault is LaunchFault.PROFILE
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "brought").mkdir(mode=0o700)
    assert open_directory(tmp_path / "brought", create=False) == tmp_path / "brought"
