"""Where the embedded server lives: the files in its directory, and what must hold for that directory."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from poolsql.database.embedded.account import Account, server_account
from poolsql.errors import BadInputError

_ROOTS_HOME = Path("/Library/Application Support/poolsql" if sys.platform == "darwin" else "/var/lib/poolsql")
"""For root, whose own home directory is closed to the user that the server runs as."""

_STRANGERS_WELCOME = {"lost+found"}
"""What a fresh file system already holds where it is mounted."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one embedded server. All but `data` and `socket` belong to the user of this process."""

    directory: Path
    """Absolute, without symbolic links."""

    @classmethod
    def of(cls, directory: Path) -> Layout:
        """The layout of a directory that may be relative and need not exist.

        Raises:
            BadInputError: Its name cannot be written into the files of Postgres.
        """
        resolved = directory.absolute().resolve()
        if re.search(r"[\x00-\x1f]", os.fspath(resolved)):
            raise BadInputError(f"{os.fspath(resolved)!r} holds a control character; choose another directory")
        return cls(resolved)

    @property
    def data(self) -> Path:
        """Postgres's data directory; exists only whole."""
        return self.directory / "data"

    @property
    def unfinished_data(self) -> Path:
        """Where `data` is made before it gets its name; left behind by a crash."""
        return self.directory / "data.new"

    @property
    def start_lock(self) -> Path:
        """Locked by whoever looks whether the server runs, starts it or stops it."""
        return self.directory / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Locked, shared, by every user of the server."""
        return self.directory / "users.lock"

    @property
    def server_lock(self) -> Path:
        """Locked by the processes of the server themselves: free means that not one of them is left."""
        return self.directory / "server.lock"

    @property
    def log(self) -> Path:
        """What the server has to say."""
        return self.directory / "server.log"

    @property
    def socket(self) -> Path:
        """Directory of the server's socket, where its path is short enough for that."""
        return self.directory / "socket"

    @property
    def programs(self) -> Path:
        """Copy of the server's programs, where the user that it runs as cannot reach the installed ones."""
        return self.directory / "programs"

    def in_use(self) -> bool:
        """Whether a server of ours was ever opened here."""
        return self.start_lock.exists()


def default_directory(data_dir: Path) -> Path:
    """Where the embedded server of a process with this ``POOLSQL_DATA_DIR`` lives.

    That is ``postgres`` below `data_dir`, except for root when the unprivileged user that the server runs as cannot
    get there (root's home is closed to others): then a directory below ``/var/lib/poolsql``, another one for each
    `data_dir`. Changes nothing.

    Raises:
        BadInputError: The process is root, and there is no user to run the server as.
        DatabaseUnavailableError: The process is root but may not become another user.
    """
    wished = data_dir.absolute().resolve() / "postgres"
    if sys.platform == "win32":
        return wished
    account = server_account(wished / "data")
    nearest = _nearest_existing(wished)
    # A file in the way is no reason to go elsewhere: it is told when the directory is made.
    if account is None or not nearest.is_dir() or account.first_unreachable(nearest) is None:
        return wished
    readable = re.sub(r"[^A-Za-z0-9]+", "-", os.fspath(wished.parent)).strip("-")[-40:]
    digest = hashlib.sha256(os.fsencode(wished.parent)).hexdigest()[:8]
    return _ROOTS_HOME / f"{readable}-{digest}"


def check_directory(layout: Layout, account: Account | None) -> None:
    """See that the server can live there; changes nothing.

    Raises:
        BadInputError: It cannot; the message names the place and the remedy.
    """
    directory = layout.directory
    if account is not None:
        closed = account.first_unreachable(_nearest_existing(directory.parent))
        if closed is not None:
            raise BadInputError(
                f"{directory} cannot hold the embedded server: as root it runs as the user {account.name}, who may "
                f"not enter {closed}; choose a directory that others can reach (such as one below {_ROOTS_HOME}), run "
                "as a normal user, or set POOLSQL_DATABASE_URL"
            )
    if not os.path.lexists(directory):
        _check_can_be_made(directory)
        return
    if not directory.is_dir():
        raise BadInputError(f"{directory} is no directory; move it away, or set POOLSQL_DATA_DIR to another place")
    _check_private(directory, os.geteuid(), allowed=0o710 if account else 0o700)
    if not os.access(directory, os.W_OK | os.X_OK):
        raise BadInputError(f"{directory} is not writable; repair it: chmod u+rwx '{directory}' (or a read-only mount)")
    if not layout.in_use():
        strangers = {entry.name for entry in directory.iterdir()} - _STRANGERS_WELCOME
        # Another process may have begun here since we looked, so look once more before accusing anybody.
        if strangers and not layout.in_use():
            raise BadInputError(
                f"{directory} holds other files ({', '.join(sorted(strangers)[:3])}); the embedded server needs a "
                "directory of its own, empty or missing"
            )
    if layout.data.exists():
        _check_private(layout.data, account.user if account else os.geteuid(), allowed=0o700)


def make_directory(layout: Layout, account: Account | None) -> None:
    """Make what is missing of the directory; it was checked. Existing directories above it are left as they are."""
    for parent in reversed(layout.directory.parents):
        try:
            parent.mkdir()
        except FileExistsError:
            continue
        if account is not None:
            parent.chmod(0o755)  # our umask may have closed it to the user that the server runs as
    layout.directory.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        # That user may pass through, to its own `data` and `socket`, but neither list nor change anything here.
        os.chown(layout.directory, -1, account.group)
        layout.directory.chmod(0o710)


def make_private(directory: Path, account: Account | None) -> None:
    """Make a directory, when missing, that only the server's user may enter."""
    directory.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        os.chown(directory, account.user, account.group)


def _nearest_existing(directory: Path) -> Path:
    # os.path.exists, unlike Path.exists, takes a closed directory on the way for an answer.
    return next(place for place in (directory, *directory.parents) if os.path.exists(place))  # noqa: PTH110 - as said


def _check_can_be_made(directory: Path) -> None:
    above = _nearest_existing(directory)
    if not (above.is_dir() and os.access(above, os.W_OK | os.X_OK)):
        raise BadInputError(
            f"{directory} cannot be made: {above} is not writable for this user; make it yourself (mkdir -p -m 700), "
            "or set POOLSQL_DATA_DIR to another place"
        )


def _check_private(directory: Path, owner: int, *, allowed: int) -> None:
    found = directory.stat()
    if found.st_uid != owner:
        raise BadInputError(
            f"{directory} belongs to another user (id {found.st_uid}, not {owner}); run as that user, or set "
            "POOLSQL_DATA_DIR to another place"
        )
    mode = stat.S_IMODE(found.st_mode)
    if mode & 0o077 & ~allowed:
        raise BadInputError(
            f"{directory} is open to other users (mode {mode:04o}), who could read or become the database; close it: "
            f"chmod 700 '{directory}'"
        )
