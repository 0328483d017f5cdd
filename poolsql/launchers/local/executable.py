"""Find the browser: the configured one, or the first Chromium, Chrome or Edge of this machine.

``python -m poolsql.launchers.local.executable`` prints its path; setup scripts ask so. This module needs nothing but
the standard library and our errors.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from poolsql.errors import BrowserMissingError

VARIABLE = "POOLSQL_CHROMIUM"
_COMMANDS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
    "microsoft-edge-stable",
)
_MAC_APPLICATIONS = ("Chromium", "Google Chrome", "Microsoft Edge")
_WINDOWS_PROGRAMS = (
    r"Chromium\Application\chrome.exe",
    r"Google\Chrome\Application\chrome.exe",
    r"Microsoft\Edge\Application\msedge.exe",
)
_WINDOWS_ROOTS = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")
# Not Playwright's headless shell: it does not lock its user data directory.
_PLAYWRIGHT_PROGRAMS = (
    "chrome-linux*/chrome",
    "chrome-mac*/*.app/Contents/MacOS/Chromium",
    "chrome-mac*/*.app/Contents/MacOS/Google Chrome for Testing",
    "chrome-win*/chrome.exe",
)
_WRAPPER_BYTES = 65536


def find_executable(configured: Path | str | None = None, environment: Mapping[str, str] = os.environ) -> Path:
    """Say which browser a `local` launcher starts.

    Args:
        configured: Path or command that was asked for; it is used or refused, never replaced. Without it the
            variable POOLSQL_CHROMIUM counts as asked for, and without that the machine is searched.
        environment: Where variables such as PATH are read.

    Raises:
        BrowserMissingError: What was asked for is no program, or the machine has no browser.
    """
    asked = str(configured or "") or environment.get(VARIABLE, "")
    if asked:
        return _asked_for(asked, environment)
    snaps = []
    for path in _candidates(environment):
        if not _is_program(path):
            continue
        if not _is_snap(path):
            return path
        snaps.append(path)
    if snaps:
        return snaps[0]
    raise BrowserMissingError(
        "no Chromium, Chrome or Edge found: install one (Debian: apt install chromium; elsewhere: "
        f"playwright install chromium) or set {VARIABLE} to its path"
    )


def _asked_for(asked: str, environment: Mapping[str, str]) -> Path:
    path = Path(asked).expanduser()
    if path.parent == Path() and not path.exists():
        found = shutil.which(asked, path=environment.get("PATH"))
        if found is None:
            raise BrowserMissingError(f"browser {asked}: no such command on PATH; give its full path ({VARIABLE})")
        path = Path(found)
    if not path.exists():
        raise BrowserMissingError(f"browser {path}: no such file; correct the path ({VARIABLE})")
    if not _is_program(path):
        raise BrowserMissingError(f"browser {path}: not an executable file; name the program itself ({VARIABLE})")
    return path.absolute()


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    for command in _COMMANDS:
        found = shutil.which(command, path=environment.get("PATH"))
        if found is not None:
            yield Path(found).absolute()
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or Path.home())
    if sys.platform == "darwin":
        for applications in (Path("/Applications"), home / "Applications"):
            for name in _MAC_APPLICATIONS:
                yield applications / f"{name}.app/Contents/MacOS/{name}"
    for root in _WINDOWS_ROOTS:
        if environment.get(root):
            for program in _WINDOWS_PROGRAMS:
                yield Path(environment[root], *program.split("\\"))
    for folder in _playwright_folders(environment, home):
        yield from _newest_of_playwright(folder)


def _playwright_folders(environment: Mapping[str, str], home: Path) -> Iterator[Path]:
    chosen = environment.get("PLAYWRIGHT_BROWSERS_PATH", "")
    if chosen == "0":  # Playwright's word for "inside its own package"
        package = importlib.util.find_spec("playwright")
        if package is not None and package.origin is not None:
            yield Path(package.origin).parent / "driver/package/.local-browsers"
    elif chosen:
        yield Path(chosen)
    else:
        yield home / ".cache/ms-playwright"
        yield home / "Library/Caches/ms-playwright"
        yield home / "AppData/Local/ms-playwright"


def _newest_of_playwright(folder: Path) -> Iterator[Path]:
    revisions = [
        (int(match[1]), child)
        for child in (folder.iterdir() if folder.is_dir() else ())
        if (match := re.fullmatch(r"chromium-(\d+)", child.name))
    ]
    for _, child in sorted(revisions, reverse=True):
        for pattern in _PLAYWRIGHT_PROGRAMS:
            yield from sorted(child.glob(pattern))


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_snap(path: Path) -> bool:
    """A snap may not write to hidden directories of the home, where profiles live by default: the last choice."""
    target = path.resolve()
    if "snap" in target.parts or target.name == "snap":
        return True
    if target.stat().st_size > _WRAPPER_BYTES:
        return False
    with target.open("rb") as file:
        return b"/snap/bin" in file.read(_WRAPPER_BYTES)


def main() -> int:
    """Print the browser's path; exit code 2 and one line that says how to get one if there is none."""
    try:
        path = find_executable()
    except BrowserMissingError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
