"""The unprivileged user that the server runs as when poolsql runs as root, since Postgres refuses to run as root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from poolsql.errors import BadInputError, DatabaseUnavailableError

_WISHED_NAMES = ("poolsql", "postgres", "nobody")
"""Best first: an account made for this, one made for Postgres, and the one that nearly every system has."""

_FIRST_UNREACHABLE = 'for place do cd "$place" 2>/dev/null || { printf %s "$place"; exit 1; }; done'


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this system other than root."""

    name: str
    user: int
    group: int

    def first_unreachable(self, place: Path) -> Path | None:
        """The topmost directory on the way to `place`, itself included, that this user may not enter; None: all fine.

        A shell that runs as that user tries it, so whatever the system judges by (access lists, mounts) counts.

        Raises:
            DatabaseUnavailableError: This process is root but may not become another user.
        """
        way = [*reversed(place.parents), place]
        try:
            trial = run_as(self, ["/bin/sh", "-c", _FIRST_UNREACHABLE, "sh", *map(os.fspath, way)])
        except OSError as error:
            raise DatabaseUnavailableError(
                f"the embedded server cannot run as the user {self.name} ({error.strerror}): this process is root "
                "but may not become another user; run it as a normal user, or set POOLSQL_DATABASE_URL"
            ) from error
        return Path(trial.stdout) if trial.stdout else None


def server_account(data: Path) -> Account | None:
    """Whom the server of the data directory `data` runs as; None: as the user of this process.

    Only root needs somebody else. Who owns an existing data directory stays its user, whatever accounts came later.

    Raises:
        BadInputError: There is no user whom Postgres would run as.
    """
    import pwd  # noqa: PLC0415 - absent on Windows

    user = os.geteuid()
    if user != 0:
        try:
            pwd.getpwuid(user)
        except KeyError:
            raise BadInputError(
                f"this process runs as the user id {user}, which has no name here, and Postgres needs one; add it to "
                "/etc/passwd, or set POOLSQL_DATABASE_URL"
            ) from None
        return None
    if data.exists():
        owner = data.stat().st_uid
        try:
            entry = pwd.getpwuid(owner)
        except KeyError:
            entry = None
        if entry is None or owner == 0:
            raise BadInputError(
                f"{data} belongs to {entry.pw_name if entry else f'the unknown user id {owner}'}, whom Postgres does "
                f"not run as; give it to another user: chown -R nobody: '{data}'"
            )
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    for name in _WISHED_NAMES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise BadInputError(
        "Postgres refuses to run as root, and this system has none of the users "
        f"{', '.join(_WISHED_NAMES)}; make one (useradd --system poolsql), or set POOLSQL_DATABASE_URL"
    )


def start_as(
    account: Account | None,
    arguments: Sequence[str],
    *,
    output: int | IO[bytes],
    inherited: Sequence[int] = (),
    variables: dict[str, str] | None = None,
    own_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program as that user, with private files, without our environment: that may hold secrets.

    Args:
        account: None: the user of this process.
        arguments: The program, by its absolute path, and what it is told.
        output: Where its standard output and error go.
        inherited: Descriptors that it keeps open, locks above all.
        variables: Added to its environment.
        own_session: So that Ctrl-C at our terminal does not reach it.

    Raises:
        OSError: The program is missing, or that user may not run it.
    """
    passed_on = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return subprocess.Popen(  # noqa: S603 - a program that we found, without a shell
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # English messages, whatever LANG says, and even where its locale is not installed.
        env={**passed_on, "LC_ALL": "C", "TZ": "UTC", **(variables or {})},
        # Our own directory may be one that the other user cannot enter.
        cwd="/",
        user=account.user if account else None,
        group=account.group if account else None,
        extra_groups=[] if account else None,
        umask=0o077,
        pass_fds=inherited,
        start_new_session=own_session,
    )


def run_as(
    account: Account | None, arguments: Sequence[str], *, inherited: Sequence[int] = (), timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program like `start_as` to its end; `stdout` holds all that it printed.

    Args:
        account: None: the user of this process.
        arguments: The program, by its absolute path, and what it is told.
        inherited: Descriptors that it keeps open.
        timeout: Seconds after which it is killed.

    Raises:
        OSError: The program is missing, or that user may not run it.
        subprocess.TimeoutExpired: It was killed.
    """
    with start_as(account, arguments, output=subprocess.PIPE, inherited=inherited) as process:
        try:
            printed, _ = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(list(arguments), process.returncode, os.fsdecode(printed))
