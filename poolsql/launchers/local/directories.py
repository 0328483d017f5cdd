"""The user data directory of a profile: one of its own, private to this user."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from poolsql.errors import LaunchFailedError, LaunchFault

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_")
_LONGEST = 100
_KEPT = 60
_WINDOWS_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))]
)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def profile_directory(data_dir: Path, launcher: str, profile_key: str) -> Path:
    """Where the profile `profile_key` of a launcher lives: ``<data_dir>/profiles/<launcher>/<profile_key>``.

    Two different profiles never get the same directory, whatever characters their names hold and whether or not the
    file system tells capitals from small letters.

    Raises:
        LaunchFailedError: A name is empty.
    """
    return data_dir.absolute() / "profiles" / safe_name(launcher) / safe_name(profile_key)


def safe_name(text: str) -> str:
    """Turn a name into a file name: small letters, digits, ``-``, ``_``, everything else as ``%`` and its bytes.

    Raises:
        LaunchFailedError: The name is empty.
    """
    if not text:
        raise LaunchFailedError(
            "a launcher and a profile need a name before they can have a directory", fault=LaunchFault.PROFILE
        )
    data = text.encode("utf-8", "surrogatepass")
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in data)
    if name in _WINDOWS_DEVICES:
        name = f"%{data[0]:02x}{name[1:]}"
    if len(name) > _LONGEST:
        # A tilde is in no name that was not shortened, so the two kinds never meet.
        name = f"{name[:_KEPT]}~{hashlib.sha256(data).hexdigest()}"
    return name


def open_directory(directory: Path, *, create: bool = True) -> Path:
    """Create the directory if it does not exist; refuse one that is not ours alone.

    Args:
        create: False: one that does not exist is refused, too.

    Returns:
        Its one name: absolute, without symbolic links on the way to it.

    Raises:
        LaunchFailedError: It cannot be created or written, or others could read or change it.
    """
    if not directory.is_absolute() or ".." in directory.parts or not directory.name:
        raise LaunchFailedError(
            f"profile directory {directory}: must be an absolute path without '..', or it would depend on where the "
            "worker was started",
            fault=LaunchFault.PROFILE,
        )
    # Chromium tells its helpers the name without links, and they are found by it.
    directory = directory.parent.resolve() / directory.name
    if not create and not os.path.lexists(directory):
        raise LaunchFailedError(
            f"profile directory {directory}: does not exist; the option directory names one that the profile has "
            "already, and an empty one would be another identity",
            fault=LaunchFault.PROFILE,
        )
    for missing in reversed([path for path in (directory, *directory.parents) if not path.exists()]):
        try:
            missing.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise LaunchFailedError(
                f"profile directory {directory}: cannot create {missing} ({error.strerror}); check POOLSQL_DATA_DIR "
                "and its owner, or the disk"
            ) from error
    problem = _problem(directory)
    if problem is not None:
        raise LaunchFailedError(f"profile directory {directory}: {problem}", fault=LaunchFault.PROFILE)
    return directory


def _problem(directory: Path) -> str | None:
    try:
        status = directory.lstat()
    except OSError as error:
        return f"cannot be looked at ({error.strerror}); check the disk"
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link, so two profiles could share its target; name the target itself as the directory"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory; move the file away"
    return _access_problem(directory, status) if os.name == "posix" else None


def _access_problem(directory: Path, status: os.stat_result) -> str | None:
    user = os.geteuid()
    if status.st_uid != user:
        return f"belongs to user {status.st_uid}, not to this user ({user}); run poolsql as its owner"
    if status.st_mode & _OTHERS:
        return f"is open to other users (mode {stat.S_IMODE(status.st_mode):o}) and holds logins; run: chmod 700"
    if not os.access(directory, os.W_OK | os.X_OK):
        return "cannot be written; run: chmod 700, or mount its disk read-write"
    return None
