"""Browsers with windows on a machine without a screen, with a real Xvfb."""

from __future__ import annotations

import json
import shutil
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Playwright

from poolsql.errors import LaunchFailedError, LaunchFault
from poolsql.launchers.contract import BrowserHandle, LaunchRequest, StopRung
from poolsql.launchers.local.launcher import LocalLauncher
from tests.fixtures.browsers import processes_that_mention

from .conformance import START_SECONDS, STOP_SECONDS
from .support import OFFLINE, ROOT, page_of, seen_within

MACHINE = "this-machine"

WORKER = """
import json, sys, time
from pathlib import Path
from poolsql.launchers.contract import LaunchRequest
from poolsql.launchers.local.launcher import LocalLauncher
executable = Path(sys.argv[3]) if sys.argv[3] else None
launcher = LocalLauncher("chromium", "this-machine", Path(sys.argv[1]), executable=executable,
                         options={"resolver_rules": sys.argv[2], "headless": False})
request = LaunchRequest(lease_id=1, profile_id=1, profile_key="shop")
handle = launcher.prepare(request)
print(json.dumps(handle.to_json()), flush=True)
print(json.dumps(launcher.start(request, handle, timeout=60).to_json()), flush=True)
time.sleep(600)
"""

needs_xvfb = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="there is no Xvfb here; apt install xvfb")


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"):
        monkeypatch.delenv(name, raising=False)


def launcher_of(data_dir: Path, executable: Path | None = None, **options: object) -> LocalLauncher:
    given = {"resolver_rules": OFFLINE, "headless": False, **options}
    return LocalLauncher("chromium", MACHINE, data_dir, executable=executable, options=given)


def request() -> LaunchRequest:
    return LaunchRequest(lease_id=1, profile_id=1, profile_key="shop")


def start(launcher: LocalLauncher) -> BrowserHandle:
    return launcher.start(request(), launcher.prepare(request()), timeout=START_SECONDS)


def displays(data_dir: Path) -> list[psutil.Process]:
    return processes_that_mention(str(data_dir), name="Xvfb")


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], Path]:
    """Write a shell script that stands in for a program."""

    def write(text: str) -> Path:
        path = tmp_path / "program"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


@needs_xvfb
def test_a_browser_with_windows_gets_a_display_that_ends_with_it(data_dir: Path, playwright: Playwright) -> None:
    launcher = launcher_of(data_dir)
    handle = start(launcher)
    with page_of(playwright, handle.cdp_url) as page:
        assert "Headless" not in page.evaluate("navigator.userAgent")
        assert page.evaluate("[screen.width, screen.height]") == [1920, 1080]
    (display,) = displays(data_dir)
    assert handle.directory is not None
    key = Path(handle.directory, "poolsql-display.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.name in " ".join(display.cmdline())

    report = launcher.stop(handle, timeout=STOP_SECONDS)

    assert report.rung is StopRung.CLOSED
    assert not displays(data_dir)
    assert not launcher.is_running(handle)


@needs_xvfb
def test_a_display_is_only_for_those_who_can_read_its_key(data_dir: Path) -> None:
    launcher = launcher_of(data_dir)
    handle = start(launcher)
    assert handle.pid is not None
    environment = psutil.Process(handle.pid).environ()
    assert not _lets_in(environment["DISPLAY"])
    key = Path(environment["XAUTHORITY"]).read_bytes()[-16:]
    assert _lets_in(environment["DISPLAY"], key)
    launcher.stop(handle, timeout=STOP_SECONDS)


@needs_xvfb
def test_a_display_ends_with_a_browser_that_crashes(data_dir: Path) -> None:
    launcher = launcher_of(data_dir)
    handle = start(launcher)
    assert handle.pid is not None
    psutil.Process(handle.pid).kill()
    assert seen_within(20, lambda: not displays(data_dir))
    launcher.stop(handle, timeout=STOP_SECONDS)


@needs_xvfb
def test_what_a_killed_worker_leaves_is_stopped_by_the_handle_it_recorded(data_dir: Path) -> None:
    with _worker(data_dir) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        handle = BrowserHandle.from_json(json.loads(worker.stdout.readline()))
        worker.kill()
    assert displays(data_dir)
    assert launcher_of(data_dir).stop(handle, timeout=STOP_SECONDS).rung is StopRung.CLOSED
    assert not processes_that_mention(str(data_dir))


@needs_xvfb
def test_a_worker_killed_while_the_browser_comes_up_leaves_nothing(
    data_dir: Path, script: Callable[[str], Path]
) -> None:
    with _worker(data_dir, script("sleep 600 & wait")) as worker:
        assert worker.stdout is not None
        handle = BrowserHandle.from_json(json.loads(worker.stdout.readline()))
        assert seen_within(START_SECONDS, lambda: bool(displays(data_dir)))
        worker.kill()
    launcher = launcher_of(data_dir)
    assert handle.pid is None
    launcher.stop(handle, timeout=STOP_SECONDS)
    assert not processes_that_mention(str(data_dir))
    assert not launcher.is_running(handle)


@needs_xvfb
def test_a_browser_that_does_not_come_up_takes_its_display_with_it(
    data_dir: Path, script: Callable[[str], Path]
) -> None:
    launcher = launcher_of(data_dir, executable=script("echo out of order >&2; exit 3"))
    handle = launcher.prepare(request())
    with pytest.raises(LaunchFailedError, match=r"exit code 3 before it was ready.*out of order"):
        launcher.start(request(), handle, timeout=START_SECONDS)
    assert not displays(data_dir)


def test_a_display_server_that_does_not_start_is_told(data_dir: Path, script: Callable[[str], Path]) -> None:
    launcher = launcher_of(data_dir, xvfb=str(script("echo no room for a screen >&2; exit 1")))
    handle = launcher.prepare(request())
    with pytest.raises(LaunchFailedError, match=r"display server .*/program did not start: no room for a screen"):
        launcher.start(request(), handle, timeout=START_SECONDS)
    assert not processes_that_mention(str(data_dir))


def test_without_display_and_server_the_remedy_is_named(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = launcher_of(data_dir, executable=Path(sys.executable))
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LaunchFailedError, match="apt install xvfb") as told:
        launcher.prepare(request())
    assert told.value.fault is LaunchFault.LAUNCHER


def _worker(data_dir: Path, executable: Path | str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(data_dir), OFFLINE, str(executable)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _lets_in(display: str, key: bytes = b"") -> bool:
    """Whether the display accepts a client that shows this key."""
    name = b"MIT-MAGIC-COOKIE-1" if key else b""
    padding = b"\0" * (-len(name) % 4)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5)
        client.connect(f"/tmp/.X11-unix/X{display.removeprefix(':')}")
        client.sendall(struct.pack("<BxHHHHxx", ord("l"), 11, 0, len(name), len(key)) + name + padding + key)
        return client.recv(1) == b"\1"
