from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Playwright

from poolsql.deadlines import Deadline
from poolsql.errors import LaunchFailedError, LaunchFault, StopNotProvenError
from poolsql.launchers.contract import BrowserHandle, Launcher, LaunchRequest, Proxy, StopReport, StopRung
from poolsql.launchers.local.exclusive import only_starter
from poolsql.launchers.local.executable import find_executable
from poolsql.launchers.local.launcher import LocalLauncher
from poolsql.launchers.processes import ProcessIdentity, is_alive
from tests.fixtures.browsers import processes_that_mention

from .conformance import START_SECONDS, STOP_SECONDS, LauncherConformance, start
from .support import (
    OFFLINE,
    ROOT,
    Site,
    recall,
    remember,
    run_elsewhere,
    seen_within,
    to_text,
)

MACHINE = "this-machine"

UNBOUNDED = 10.0
"""Seconds that only pass when a deadline is not kept at all, however loaded the machine is.

A stop that did not know its time would wait 15 s for a browser that does not answer, Chromium waits 20 s for a frozen
one, and the program that stands in for a browser runs for 600 s.
"""

STOP = """
import json, sys
from pathlib import Path
from poolsql.launchers.contract import BrowserHandle
from poolsql.launchers.local.launcher import LocalLauncher
handle = BrowserHandle.from_json(json.loads(sys.argv[2]))
report = LocalLauncher("chromium", sys.argv[3], Path(sys.argv[1])).stop(handle, timeout=10)
print(json.dumps([report.rung, report.seconds]))
"""

START_AND_WAIT = """
import json, sys, time
from pathlib import Path
from poolsql.launchers.contract import LaunchRequest
from poolsql.launchers.local.launcher import LocalLauncher
launcher = LocalLauncher("chromium", sys.argv[2], Path(sys.argv[1]), options={"resolver_rules": sys.argv[3]})
request = LaunchRequest(lease_id=1, profile_id=1, profile_key="shop")
handle = launcher.start(request, launcher.prepare(request), timeout=30)
print(json.dumps(handle.to_json()), flush=True)
time.sleep(600)
"""


class LocalBench:
    """A `local` launcher on a data directory of the test."""

    gentle_rung = StopRung.CLOSED

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.launcher: Launcher = self.launcher_with()

    def launcher_with(self, executable: Path | None = None) -> LocalLauncher:
        return LocalLauncher(
            "chromium", MACHINE, self.data_dir, executable=executable, options={"resolver_rules": OFFLINE}
        )

    def request(self, key: str) -> LaunchRequest:
        return LaunchRequest(lease_id=1, profile_id=1, profile_key=key)

    def stop_elsewhere(self, handle: BrowserHandle) -> StopReport:
        rung, seconds = json.loads(run_elsewhere(STOP, str(self.data_dir), to_text(handle.to_json()), MACHINE))
        return StopReport(rung=StopRung(rung), seconds=seconds)

    def directory(self) -> Path:
        """The directory of the profile `shop`, created."""
        directory = self.launcher.prepare(self.request("shop")).directory
        assert directory is not None
        return Path(directory)


@pytest.fixture
def bench(data_dir: Path) -> LocalBench:
    return LocalBench(data_dir)


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], Path]:
    """Write a shell script that stands in for the browser."""

    def write(text: str) -> Path:
        path = tmp_path / "browser"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return path

    return write


def main_process(handle: BrowserHandle) -> psutil.Process:
    assert handle.pid is not None
    return psutil.Process(handle.pid)


def freeze_renderers(handle: BrowserHandle) -> None:
    """Stop all renderers, once there are some: they come up a moment after the debugging port."""

    def suspended() -> bool:
        found = [
            process
            for process in main_process(handle).children(recursive=True)
            if any("--type=renderer" in argument for argument in process.cmdline())
        ]
        for renderer in found:
            renderer.suspend()
        return bool(found)

    assert seen_within(5, suspended)


class TestConformance(LauncherConformance):
    """The local launcher keeps the contract."""


class TestStopping:
    def test_a_frozen_browser_is_killed_within_the_deadline(self, bench: LocalBench) -> None:
        handle = start(bench)
        main_process(handle).suspend()
        assert bench.launcher.is_running(handle)
        began = time.monotonic()
        assert bench.launcher.stop(handle, timeout=2).rung is StopRung.KILLED
        assert time.monotonic() - began < UNBOUNDED
        assert not bench.launcher.is_running(handle)

    def test_frozen_renderers_do_not_survive(self, bench: LocalBench) -> None:
        handle = start(bench)
        freeze_renderers(handle)
        report = bench.launcher.stop(handle, timeout=STOP_SECONDS)
        assert report.rung is StopRung.CLOSED
        assert not processes_that_mention(str(handle.directory))

    def test_renderers_that_survived_their_main_process_still_run(self, bench: LocalBench) -> None:
        handle = start(bench)
        freeze_renderers(handle)
        main_process(handle).kill()
        leader = ProcessIdentity(handle.pid or 0, str(handle.process_started))
        assert seen_within(5, lambda: not is_alive(leader))
        assert bench.launcher.is_running(handle)
        assert bench.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.KILLED
        assert not bench.launcher.is_running(handle)

    def test_a_browser_that_was_killed_is_not_running(self, bench: LocalBench) -> None:
        handle = start(bench)
        main_process(handle).kill()
        assert seen_within(5, lambda: not bench.launcher.is_running(handle))
        assert bench.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING
        assert not list(Path(str(handle.directory)).glob("Singleton*"))

    def test_a_browser_that_does_not_answer_is_interrupted_and_keeps_its_cookies(
        self, bench: LocalBench, playwright: Playwright, site: Site
    ) -> None:
        handle = start(bench)
        remember(playwright, handle.cdp_url, site, "me")
        deaf = dataclasses.replace(handle, cdp_url="ws://127.0.0.1:1/devtools/browser/none")
        assert bench.launcher.stop(deaf, timeout=STOP_SECONDS).rung is StopRung.INTERRUPTED
        again = start(bench)
        try:
            assert recall(playwright, again.cdp_url, site) == ("identity=me", "me")
        finally:
            bench.launcher.stop(again, timeout=STOP_SECONDS)

    def test_a_reused_process_id_is_never_taken_for_the_browser(self, bench: LocalBench) -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
            prepared = bench.launcher.prepare(bench.request("shop"))
            handle = prepared.started(pid=stranger.pid, process_started="another boot/1", cdp_url="ws://127.0.0.1:1/")
            assert not bench.launcher.is_running(handle)
            assert bench.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING
            assert stranger.poll() is None
            stranger.communicate(b"\n")

    def test_the_browser_of_a_killed_worker_lives_until_another_process_closes_it(
        self, bench: LocalBench, playwright: Playwright, site: Site
    ) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", START_AND_WAIT, str(bench.data_dir), MACHINE, OFFLINE],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        ) as worker:
            assert worker.stdout is not None
            handle = BrowserHandle.from_json(json.loads(worker.stdout.readline()))
            worker.kill()
        assert bench.launcher.is_running(handle)
        remember(playwright, handle.cdp_url, site, "me")
        assert bench.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.CLOSED


class TestStarting:
    def test_only_this_machine_reaches_the_debugging_port(self, bench: LocalBench) -> None:
        handle = start(bench)
        try:
            addresses = {c.laddr.ip for c in main_process(handle).net_connections("tcp") if c.status == "LISTEN"}
            assert addresses == {"127.0.0.1"}
        finally:
            bench.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_secrets_and_open_files_of_the_worker_do_not_reach_the_browser(
        self, bench: LocalBench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for name in ("POOLSQL_DATABASE_URL", "PGPASSWORD", "DATABASE_URL", "VENDOR_TOKEN", "CHROMIUM_FLAGS"):
            monkeypatch.setenv(name, "hunter2")
        with (tmp_path / "open").open("w") as file:
            os.set_inheritable(file.fileno(), True)
            handle = start(bench)
        try:
            process = main_process(handle)
            environment = process.environ()
            assert "hunter2" not in " ".join(environment.values())
            assert [name for name in environment if name.startswith("POOLSQL_")] == ["POOLSQL_BROWSER"]
            assert environment["PATH"] == os.environ["PATH"]
            assert str(tmp_path / "open") not in {opened.path for opened in process.open_files()}
        finally:
            bench.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_the_directory_is_private(self, bench: LocalBench) -> None:
        directory = bench.directory()
        assert directory == bench.data_dir / "profiles/chromium/shop"
        for path in (directory, directory.parent, directory.parent.parent, bench.data_dir):
            assert path.stat().st_mode & 0o777 == 0o700

    def test_a_browser_that_ends_early_is_reported_with_its_last_words(
        self, bench: LocalBench, program: Callable[[str], Path]
    ) -> None:
        launcher = bench.launcher_with(program("echo 'libatomic.so.1: not found' >&2; exit 127"))
        request = bench.request("shop")
        with pytest.raises(LaunchFailedError, match=r"exit code 127 .*libatomic\.so\.1: not found") as failed:
            launcher.start(request, launcher.prepare(request), timeout=START_SECONDS)
        assert failed.value.fault is LaunchFault.LAUNCHER

    def test_exit_code_21_is_a_fault_of_the_profile(self, bench: LocalBench, program: Callable[[str], Path]) -> None:
        launcher = bench.launcher_with(program("exit 21"))
        request = bench.request("shop")
        with pytest.raises(LaunchFailedError, match=r"profiles/chromium/shop: .* another browser") as failed:
            launcher.start(request, launcher.prepare(request), timeout=START_SECONDS)
        assert failed.value.fault is LaunchFault.PROFILE

    def test_a_temporary_directory_that_is_missing_is_no_fault_of_the_profile(
        self, bench: LocalBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = bench.request("shop")
        monkeypatch.setenv("TMPDIR", "/nonexistent")
        with pytest.raises(LaunchFailedError, match="directory for temporary files /nonexistent") as failed:
            bench.launcher.start(request, bench.launcher.prepare(request), timeout=START_SECONDS)
        assert failed.value.fault is LaunchFault.LAUNCHER

    def test_a_browser_that_does_not_come_up_is_killed_within_the_deadline(
        self, bench: LocalBench, program: Callable[[str], Path]
    ) -> None:
        launcher = bench.launcher_with(program("setsid sleep 600 & sleep 600"))
        request = bench.request("shop")
        prepared = launcher.prepare(request)
        began = time.monotonic()
        with pytest.raises(LaunchFailedError, match="not ready after") as failed:
            launcher.start(request, prepared, timeout=2)
        assert time.monotonic() - began < UNBOUNDED
        assert failed.value.fault is LaunchFault.LAUNCHER
        assert not launcher.is_running(prepared)

    def test_a_program_that_cannot_be_run_is_reported(self, bench: LocalBench, tmp_path: Path) -> None:
        broken = tmp_path / "broken"
        broken.write_bytes(b"\x7fELF nothing")
        broken.chmod(0o755)
        launcher = bench.launcher_with(broken)
        request = bench.request("shop")
        with pytest.raises(LaunchFailedError, match="cannot be started"):
            launcher.start(request, launcher.prepare(request), timeout=START_SECONDS)

    def test_a_wrapper_that_stays_is_no_obstacle(self, bench: LocalBench, program: Callable[[str], Path]) -> None:
        launcher = bench.launcher_with(program(f'{find_executable()} "$@"\nexit $?'))
        request = bench.request("shop")
        handle = launcher.start(request, launcher.prepare(request), timeout=START_SECONDS)
        assert launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.CLOSED

    def test_ctrl_c_while_the_browser_comes_up_leaves_nothing(
        self, bench: LocalBench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def press(deadline: Deadline) -> bool:
            raise KeyboardInterrupt

        request = bench.request("shop")
        prepared = bench.launcher.prepare(request)
        monkeypatch.setattr(Deadline, "pause", press)
        with pytest.raises(KeyboardInterrupt):
            bench.launcher.start(request, prepared, timeout=START_SECONDS)
        assert not bench.launcher.is_running(prepared)

    def test_of_two_starts_at_once_one_is_refused(self, bench: LocalBench) -> None:
        request = bench.request("shop")
        prepared = bench.launcher.prepare(request)
        together = threading.Barrier(2)
        started: list[BrowserHandle] = []
        refused: list[LaunchFault] = []

        def try_to_start() -> None:
            together.wait()
            try:
                started.append(bench.launcher.start(request, prepared, timeout=START_SECONDS))
            except LaunchFailedError as error:
                refused.append(error.fault)

        threads = [threading.Thread(target=try_to_start) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (handle,) = started
        assert refused == [LaunchFault.PROFILE]
        assert bench.launcher.is_running(handle)
        bench.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_nothing_is_proven_while_a_start_is_under_way_i3(self, bench: LocalBench) -> None:
        prepared = bench.launcher.prepare(bench.request("shop"))
        with only_starter(bench.directory()), pytest.raises(StopNotProvenError, match="still starting it"):
            bench.launcher.stop(prepared, timeout=0.5)
        assert bench.launcher.stop(prepared, timeout=STOP_SECONDS).rung is StopRung.NOT_RUNNING

    def test_the_browser_of_a_profile_with_a_proxy_uses_it(
        self, bench: LocalBench, playwright: Playwright, site: Site
    ) -> None:
        proxy = Proxy(name="isp1", server=site.url.rstrip("/"))
        request = dataclasses.replace(bench.request("shop"), proxy=proxy)
        handle = bench.launcher.start(request, bench.launcher.prepare(request), timeout=START_SECONDS)
        try:
            browser = playwright.chromium.connect_over_cdp(str(handle.cdp_url))
            page = browser.contexts[0].new_page()
            page.goto("http://shop.example/")
            assert page.title() == "Site"
            browser.close()
        finally:
            bench.launcher.stop(handle, timeout=STOP_SECONDS)


class TestLocks:
    def test_the_lock_of_another_host_is_removed(self, bench: LocalBench) -> None:
        (bench.directory() / "SingletonLock").symlink_to("old-container-7")
        handle = start(bench)
        assert bench.launcher.is_running(handle)
        bench.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_a_lock_whose_process_id_belongs_to_a_stranger_is_removed(self, bench: LocalBench) -> None:
        (bench.directory() / "SingletonLock").symlink_to(f"{socket.gethostname()}-{os.getpid()}")
        handle = start(bench)
        assert bench.launcher.is_running(handle)
        bench.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_a_lock_that_answers_is_respected(self, bench: LocalBench, temporary_files: Path) -> None:
        directory = bench.directory()
        path = temporary_files / "SingletonSocket"
        (directory / "SingletonLock").symlink_to("other-container-7")
        (directory / "SingletonSocket").symlink_to(path)
        with socket.socket(socket.AF_UNIX) as owner:
            owner.bind(str(path))
            owner.listen(1)
            with pytest.raises(LaunchFailedError, match="other-container, process 7") as refused:
                start(bench)
        path.unlink()
        assert refused.value.fault is LaunchFault.PROFILE
        assert (directory / "SingletonLock").is_symlink()

    def test_the_directory_of_a_frozen_browser_is_refused_at_once(self, bench: LocalBench) -> None:
        # Chromium itself would kill the frozen browser after 20 seconds and take its directory.
        handle = start(bench)
        main_process(handle).suspend()
        began = time.monotonic()
        with pytest.raises(LaunchFailedError, match=f"process {handle.pid}") as refused:
            start(bench)
        assert time.monotonic() - began < UNBOUNDED
        assert refused.value.fault is LaunchFault.PROFILE
        main_process(handle).send_signal(signal.SIGCONT)
        assert bench.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.CLOSED


class TestDirectories:
    def test_a_directory_that_others_can_read_is_refused(self, bench: LocalBench) -> None:
        directory = bench.directory()
        directory.chmod(0o750)
        with pytest.raises(LaunchFailedError, match="chmod 700") as refused:
            start(bench)
        assert refused.value.fault is LaunchFault.PROFILE

    def test_a_directory_behind_links_is_one_directory(self, bench: LocalBench, tmp_path: Path) -> None:
        bench.data_dir.mkdir(mode=0o700)
        (tmp_path / "link").symlink_to(bench.data_dir)
        launcher = LocalLauncher("chromium", MACHINE, tmp_path / "link", options={"resolver_rules": OFFLINE})
        handle = start(bench)
        try:
            with pytest.raises(LaunchFailedError, match=f"process {handle.pid}"):
                launcher.prepare(bench.request("shop"))
        finally:
            bench.launcher.stop(handle, timeout=STOP_SECONDS)

    def test_a_profile_brings_its_own_directory(self, bench: LocalBench, tmp_path: Path) -> None:
        brought = tmp_path / "mine"
        request = dataclasses.replace(bench.request("shop"), options={"directory": str(brought)})
        with pytest.raises(LaunchFailedError, match="mine: does not exist") as refused:
            bench.launcher.prepare(request)
        assert refused.value.fault is LaunchFault.PROFILE
        brought.mkdir(mode=0o700)
        prepared = bench.launcher.prepare(request)
        assert prepared.directory == str(brought.resolve())
        handle = bench.launcher.start(request, prepared, timeout=START_SECONDS)
        assert (brought / "Default").is_dir()
        assert bench.launcher.stop(handle, timeout=STOP_SECONDS).rung is StopRung.CLOSED
        shutil.rmtree(brought)
        with pytest.raises(LaunchFailedError, match="mine: does not exist"):
            bench.launcher.start(request, prepared, timeout=START_SECONDS)
        assert not brought.exists()

    def test_a_lost_directory_starts_as_a_new_one(self, bench: LocalBench) -> None:
        shutil.rmtree(bench.directory())
        handle = start(bench)
        assert bench.launcher.is_running(handle)
        bench.launcher.stop(handle, timeout=STOP_SECONDS)
