"""Browsers with windows on a machine without a screen: which of them need Xvfb, and where it is."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from poolsql.errors import LaunchFailedError
from poolsql.launchers.local import with_display
from poolsql.launchers.local.browser_processes import DISPLAY_KEY
from poolsql.launchers.local.command import LocalOptions

_PROGRAM = "Xvfb"


def display_wrapper(options: LocalOptions, directory: Path, environment: Mapping[str, str]) -> list[str]:
    """What goes before the browser's command line, so that the browser has a display; empty when it needs none.

    Windows of a browser that is not headless go to the display that DISPLAY or WAYLAND_DISPLAY names. Without one,
    on Linux and the BSDs, the browser gets a display of its own that nobody sees: it belongs to the browser's session,
    and whatever stops the browser stops it, too.

    Args:
        options: Those of the browser.
        directory: Its user data directory.
        environment: The one that the browser is started with.

    Raises:
        LaunchFailedError: It needs a display, and there is neither one nor an Xvfb.
    """
    has_display = environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")
    if options.headless or has_display or sys.platform in {"win32", "darwin"}:
        return []
    server = _find_server(options.xvfb, environment)
    # Isolated: nothing of the environment and of the current directory changes what is run.
    return [sys.executable, "-I", "-S", with_display.__file__, server, os.fspath(directory / DISPLAY_KEY)]


def _find_server(configured: str | None, environment: Mapping[str, str]) -> str:
    found = shutil.which(configured or _PROGRAM, path=environment.get("PATH"))
    if found is not None:
        return os.path.abspath(found)  # noqa: PTH100 - the link, not its target
    if configured is not None:
        raise LaunchFailedError(
            f"a browser with headless = false needs a display, and the option xvfb names {configured}, which is no "
            "program on this machine; correct it"
        )
    raise LaunchFailedError(
        "a browser with headless = false needs a display, and this machine has none: install Xvfb (Debian: apt "
        "install xvfb), name it with the option xvfb, or set DISPLAY to a display that runs"
    )
