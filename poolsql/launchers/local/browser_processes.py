"""Which processes of this machine belong to the browser of one profile.

Measured with Chromium 156 on Linux: zygotes, GPU, utility and renderer processes stay in the session of the process
that was started and repeat its ``--user-data-dir`` (their environment is overwritten by their title); the crash
handlers leave the session and name no directory, but keep the environment. When the main process dies, stopped
(SIGSTOP) renderers and with them the crash handlers survive it. So a browser is only gone when no process of any of
these kinds is left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum, auto

from poolsql.launchers.processes import LivingProcess, ProcessIdentity, identify, is_alive, living_processes

DIRECTORY_FLAG = "--user-data-dir="
MARK_VARIABLE = "POOLSQL_BROWSER"
"""Set to the user data directory in the environment of each browser, and so of what the browser starts."""


DISPLAY_KEY = "poolsql-display.key"
"""In the directory of a browser that has a display of its own: who can read this file may use that display."""


class _Role(Enum):
    MAIN = auto()
    HELPER = auto()
    DISPLAY = auto()


@dataclass(frozen=True, slots=True)
class BrowserProcesses:
    """What was found alive: `mains` answer CDP and signals, `helpers` are what they started.

    `displays` are what a browser with windows was given to show them on: nothing that could use its directory.
    """

    mains: tuple[ProcessIdentity, ...]
    helpers: tuple[ProcessIdentity, ...]
    displays: tuple[ProcessIdentity, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all())

    def all(self) -> tuple[ProcessIdentity, ...]:
        """All of them, those first whose end takes others with it."""
        return (*self.mains, *self.helpers, *self.displays)

    def uses_directory(self) -> bool:
        """Whether any of them can read and write the profile."""
        return bool(self.mains or self.helpers)

    def pids(self) -> str:
        """The process ids, for messages."""
        return ", ".join(str(process.pid) for process in self.all())


def find_browser(directory: str, leader: ProcessIdentity | None) -> BrowserProcesses:
    """Look for what is alive of one browser.

    Args:
        directory: Its user data directory.
        leader: The process that was started for it, leader of its own session. None when that is not known: then
            any browser on the directory is meant. With a leader, a later browser on the same directory is not.
    """
    leader_lives = leader is not None and is_alive(leader)
    # The system gives a process id away again only after the last member of the session of that number is gone.
    session = leader.pid if leader is not None and identify(leader.pid) in {leader, None} else None
    found: dict[_Role, list[ProcessIdentity]] = {role: [] for role in _Role}
    strays: dict[_Role, list[ProcessIdentity]] = {role: [] for role in _Role}
    for process in living_processes():
        is_leader = process.identity == leader
        member = session is not None and process.session == session
        role = _Role.MAIN if is_leader else _role(process, directory)
        if role is None and member and leader_lives:
            role = _Role.HELPER
        if role is not None:
            belongs = leader is None or is_leader or member
            (found if belongs else strays)[role].append(process.identity)
    if not strays[_Role.MAIN]:
        # Otherwise another browser uses the directory by now, and nothing tells whose helpers these are.
        found[_Role.HELPER] += strays[_Role.HELPER]
    return BrowserProcesses(
        mains=tuple(found[_Role.MAIN]), helpers=tuple(found[_Role.HELPER]), displays=tuple(found[_Role.DISPLAY])
    )


def _role(process: LivingProcess, directory: str) -> _Role | None:
    arguments = process.arguments()
    flag = f"{DIRECTORY_FLAG}{directory}"
    if any(argument.startswith("--type=") for argument in arguments):
        # A helper's title is one text: a directory with blanks in its name ends where the next flag begins.
        named = flag in arguments or f" {flag} -" in f" {' '.join(arguments)} -"
        return _Role.HELPER if named or _is_marked(process, directory) else None
    if flag in arguments:
        return _Role.MAIN
    if any(os.path.basename(argument) == DISPLAY_KEY for argument in arguments):  # noqa: PTH119 - may be no path
        return _Role.DISPLAY if _is_marked(process, directory) else None
    return _Role.HELPER if _is_marked(process, directory) else None


def _is_marked(process: LivingProcess, directory: str) -> bool:
    return process.environment().get(MARK_VARIABLE) == directory
