from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from poolsql.launchers.local.browser_processes import DISPLAY_KEY, MARK_VARIABLE, find_browser
from poolsql.launchers.processes import ProcessIdentity, identify

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sessions")

Spawn = Callable[..., ProcessIdentity]


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Start processes that look like parts of a browser."""
    with ExitStack() as stack:

        def start(*arguments: str, mark: str | None = None, session: bool = True) -> ProcessIdentity:
            process = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", "print(flush=True); input()", *arguments],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=session,
                    env={**os.environ, **({} if mark is None else {MARK_VARIABLE: mark})},
                )
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
            identity = identify(process.pid)
            assert identity is not None
            return identity

        yield start


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "profile")


def flag(directory: str) -> str:
    return f"--user-data-dir={directory}"


def test_without_a_leader_all_of_the_directory_is_found(spawn: Spawn, directory: str) -> None:
    main = spawn(flag(directory))
    renderer = spawn("--type=renderer", flag(directory))
    crash_handler = spawn("--monitor-self", mark=directory)
    found = find_browser(directory, None)
    assert found.mains == (main,)
    assert set(found.helpers) == {renderer, crash_handler}
    assert str(main.pid) in found.pids()


def test_the_title_of_a_helper_is_one_text(spawn: Spawn, directory: str) -> None:
    spaced = f"{directory} of mine"
    title = f"chromium --type=renderer {flag(spaced)} --lang=en"
    with subprocess.Popen([title], executable="/bin/cat", stdin=subprocess.PIPE) as process:
        assert find_browser(spaced, None).helpers == (identify(process.pid),)
        assert not find_browser(f"{directory} of", None)
        process.communicate()


def test_a_longer_name_is_another_directory(spawn: Spawn, directory: str) -> None:
    spawn(flag(directory + "2"))
    spawn("--type=renderer", flag(directory + "2"), mark=directory + "2")
    assert not find_browser(directory, None)


def test_a_living_leader_vouches_for_its_session(spawn: Spawn, directory: str) -> None:
    leader = spawn(flag(directory))
    assert find_browser(directory, leader).mains == (leader,)
    own_session = os.getsid(0)
    assert all(os.getsid(process.pid) != own_session for process in find_browser(directory, leader).mains)


def test_with_a_dead_leader_its_marked_helpers_are_found(spawn: Spawn, directory: str) -> None:
    crash_handler = spawn("--monitor-self", mark=directory)
    dead = ProcessIdentity(crash_handler.pid, "another boot/1")
    assert find_browser(directory, dead).helpers == (crash_handler,)


def test_a_later_browser_on_the_directory_is_not_meant(spawn: Spawn, directory: str) -> None:
    later = spawn(flag(directory))
    spawn("--monitor-self", mark=directory)
    spawn("--type=renderer", flag(directory))
    assert not find_browser(directory, ProcessIdentity(later.pid, "another boot/1"))


def test_a_display_is_found_but_uses_no_directory(spawn: Spawn, directory: str) -> None:
    main = spawn(flag(directory))
    display = spawn("-auth", f"{directory}/{DISPLAY_KEY}", mark=directory, session=False)
    assert find_browser(directory, None).displays == (display,)
    # Started for another browser on the directory, as its session tells.
    assert find_browser(directory, main).displays == ()
    assert find_browser(f"{directory}2", None).displays == ()


def test_a_display_alone_cannot_touch_the_profile(spawn: Spawn, directory: str) -> None:
    spawn("-auth", f"{directory}/{DISPLAY_KEY}", mark=directory)
    found = find_browser(directory, None)
    assert found
    assert not found.uses_directory()
