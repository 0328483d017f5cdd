"""What poolsql's modules see on Windows: ``python windows.py import`` and ``python windows.py run ARGUMENT …``.

Only poolsql's own imports are changed, since its dependencies are written for the system that they run on.
"""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import sys
import traceback
from types import ModuleType
from typing import Any

ABSENT = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
"""Modules that Windows does not have."""
LACKING = {
    "os": {
        "chown", "chroot", "fchmod", "fchown", "fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups",
        "getloadavg", "getpgid", "getpgrp", "getsid", "getuid", "initgroups", "killpg", "lchown", "mkfifo",
        "nice", "pidfd_open", "posix_fallocate", "posix_spawn", "pread", "pwrite", "register_at_fork",
        "sched_getaffinity", "set_blocking", "setegid", "seteuid", "setgid", "setgroups", "setpgid", "setpriority",
        "setsid", "setuid", "statvfs", "sysconf", "tcgetpgrp", "uname", "wait", "waitid", "WEXITSTATUS", "WIFEXITED",
        "WIFSIGNALED", "WNOHANG", "WTERMSIG", "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK",
    },
    "signal": {
        "SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGSTOP", "SIGTSTP", "SIGUSR1",
        "SIGUSR2", "SIGWINCH", "SIGXFSZ", "alarm", "pause", "pidfd_send_signal", "pthread_kill", "pthread_sigmask",
        "setitimer", "siginterrupt", "sigwait",
    },
    "socket": {"AF_UNIX"},
    "time": {"CLOCK_BOOTTIME", "clock_gettime"},
}  # fmt: skip
INSTEAD: dict[str, dict[str, Any]] = {"os": {"name": "nt"}, "sys": {"platform": "win32"}}


class Seen(ModuleType):
    """A module without some of its names, and with others instead."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__)
        self._real = real

    def __getattr__(self, name: str) -> Any:
        own = self._real.__name__
        if name in LACKING.get(own, ()):
            raise AttributeError(f"module {own!r} has no attribute {name!r} on Windows")
        return INSTEAD.get(own, {}).get(name, getattr(self._real, name))


_import = builtins.__import__
_seen: dict[str, Seen] = {}


def _import_as_on_windows(
    name: str,
    globals: Any = None,  # noqa: A002 - these are the names of the function that it stands for
    locals: Any = None,  # noqa: A002
    fromlist: Any = (),
    level: int = 0,
) -> ModuleType:
    module = _import(name, globals, locals, fromlist, level)
    if not str((globals or {}).get("__name__", "")).startswith("poolsql"):
        return module
    if name.partition(".")[0] in ABSENT:
        raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)
    if module.__name__ in LACKING or module.__name__ in INSTEAD:
        return _seen.setdefault(module.__name__, Seen(module))
    return module


def import_everything() -> int:
    """Import each module of poolsql; print what fails, and how many there are."""
    package = importlib.import_module("poolsql")
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "poolsql.")]
    failed = 0
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - each of them is to be told
            failed += 1
            sys.stderr.write(f"{name}: {traceback.format_exc()}\n")
    sys.stdout.write(f"{len(names)} modules\n")
    return 1 if failed else 0


def run_program(arguments: list[str]) -> int:
    """Run ``poolsql ARGUMENT …``."""
    sys.argv = ["poolsql", *arguments]
    code: int = importlib.import_module("poolsql.cli.main").run()
    return code


if __name__ == "__main__":
    builtins.__import__ = _import_as_on_windows
    sys.exit(import_everything() if sys.argv[1] == "import" else run_program(sys.argv[2:]))
