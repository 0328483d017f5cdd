from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import poolsql
from poolsql.errors import BrowserMissingError
from poolsql.launchers.local.executable import find_executable

ROOT = Path(poolsql.__file__).parents[1]


def program(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A machine without any browser."""
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path / "home")}


def test_the_configured_path_is_used(tmp_path: Path, environment: dict[str, str]) -> None:
    program(tmp_path / "bin/chromium")
    mine = program(tmp_path / "mine")
    assert find_executable(mine, environment) == mine
    assert find_executable(None, {**environment, "POOLSQL_CHROMIUM": str(mine)}) == mine
    assert find_executable("chromium", environment) == tmp_path / "bin/chromium"


def test_what_was_configured_is_never_replaced(tmp_path: Path, environment: dict[str, str]) -> None:
    program(tmp_path / "bin/chromium")
    (tmp_path / "text").touch()
    mistakes: list[tuple[Path | str, str]] = [
        (tmp_path / "missing", "missing: no such file"),
        (tmp_path / "text", "text: not an executable"),
        (tmp_path, "not an executable"),
        ("chrommium", "chrommium: no such command"),
    ]
    for wrong, words in mistakes:
        with pytest.raises(BrowserMissingError, match=words):
            find_executable(wrong, environment)


def test_commands_are_tried_in_order(tmp_path: Path, environment: dict[str, str]) -> None:
    edge = program(tmp_path / "bin/microsoft-edge")
    assert find_executable(None, environment) == edge
    chrome = program(tmp_path / "bin/google-chrome")
    assert find_executable(None, environment) == chrome
    chromium = program(tmp_path / "bin/chromium")
    assert find_executable(None, environment) == chromium


def test_a_snap_is_the_last_choice(tmp_path: Path, environment: dict[str, str]) -> None:
    stub = program(tmp_path / "bin/chromium-browser", "exec /snap/bin/chromium")
    assert find_executable(None, environment) == stub
    chrome = program(tmp_path / "bin/google-chrome")
    assert find_executable(None, environment) == chrome


@pytest.mark.parametrize(
    "inside",
    [
        "chrome-linux/chrome",
        "chrome-linux64/chrome",
        "chrome-mac/Chromium.app/Contents/MacOS/Chromium",
        "chrome-mac-arm64/Google Chrome for Testing.app/Contents/MacOS/Google Chrome for Testing",
        "chrome-win64/chrome.exe",
    ],
)
def test_the_newest_browser_of_playwright_is_found(inside: str, tmp_path: Path, environment: dict[str, str]) -> None:
    program(tmp_path / "own/chromium-999" / inside)
    newest = program(tmp_path / "own/chromium-1200" / inside)
    program(tmp_path / "own/chromium_headless_shell-1300/chrome-linux/headless_shell")
    assert find_executable(None, {**environment, "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path / "own")}) == newest
    cached = program(tmp_path / "home/.cache/ms-playwright/chromium-7" / inside)
    assert find_executable(None, environment) == cached


def test_browsers_inside_playwrights_package_are_looked_for(environment: dict[str, str]) -> None:
    with pytest.raises(BrowserMissingError):
        find_executable(None, {**environment, "PLAYWRIGHT_BROWSERS_PATH": "0"})


@pytest.mark.skipif(sys.platform == "win32", reason="a path of Windows, looked for on another system")
def test_programs_of_windows_are_found(tmp_path: Path, environment: dict[str, str]) -> None:
    edge = program(tmp_path / "programs/Microsoft/Edge/Application/msedge.exe")
    assert find_executable(None, {**environment, "PROGRAMFILES(X86)": str(tmp_path / "programs")}) == edge


def run_module(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Ask as tools/set_up.sh does."""
    return subprocess.run(
        [sys.executable, "-m", "poolsql.launchers.local.executable"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_setup_script_can_ask(tmp_path: Path, environment: dict[str, str]) -> None:
    chromium = program(tmp_path / "bin/chromium")
    done = run_module(environment)
    assert (done.returncode, done.stdout) == (0, f"{chromium}\n")


def test_a_machine_without_browser_is_told_how_to_get_one(environment: dict[str, str]) -> None:
    done = run_module(environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "apt install chromium" in done.stderr.splitlines()[-1]


def test_the_search_itself_needs_nothing_that_must_be_installed(tmp_path: Path, environment: dict[str, str]) -> None:
    chromium = program(tmp_path / "bin/chromium")
    code = f"""
import runpy, sys, types
sys.modules["poolsql"] = types.ModuleType("poolsql")  # what the package's front door imports is not the question
sys.modules["poolsql"].__path__ = [{str(ROOT / "poolsql")!r}]
runpy.run_module("poolsql.launchers.local.executable", run_name="__main__")
"""
    command = [sys.executable, "-S", "-c", code]  # -S: without site-packages
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{chromium}\n", "")


def test_the_launcher_can_be_imported_where_posix_modules_are_missing() -> None:
    code = """
import sys
import psutil, requests, websockets.sync.client  # they know by themselves where they are
for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
import poolsql.launchers.local.launcher
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
