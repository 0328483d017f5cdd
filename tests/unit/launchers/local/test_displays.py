from __future__ import annotations

import sys
from pathlib import Path

import pytest

from poolsql.errors import BadInputError, LaunchFailedError
from poolsql.launchers.local.command import LocalOptions, read_options
from poolsql.launchers.local.displays import display_wrapper

DIRECTORY = Path("/data/profiles/local/shop")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a Linux machine without a screen, but with Xvfb."""
    monkeypatch.setattr(sys, "platform", "linux")
    server = tmp_path / "Xvfb"
    server.write_text("")
    server.chmod(0o755)
    return {"PATH": str(tmp_path)}


def test_windows_without_a_screen_get_a_display(machine: dict[str, str], tmp_path: Path) -> None:
    wrapper = display_wrapper(LocalOptions(headless=False), DIRECTORY, machine)
    assert wrapper[0] == sys.executable
    assert wrapper[-2:] == [str(tmp_path / "Xvfb"), f"{DIRECTORY}/poolsql-display.key"]


def test_a_browser_without_windows_gets_none(machine: dict[str, str]) -> None:
    assert display_wrapper(LocalOptions(), DIRECTORY, machine) == []


@pytest.mark.parametrize("name", ["DISPLAY", "WAYLAND_DISPLAY"])
def test_a_screen_that_is_there_is_used(name: str, machine: dict[str, str]) -> None:
    assert display_wrapper(LocalOptions(headless=False), DIRECTORY, {**machine, name: ":1"}) == []
    assert display_wrapper(LocalOptions(headless=False), DIRECTORY, {**machine, name: ""}) != []


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_systems_with_screens_of_their_own_need_none(
    platform: str, machine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert display_wrapper(LocalOptions(headless=False), DIRECTORY, machine) == []


def test_the_named_server_is_used_or_refused(machine: dict[str, str], tmp_path: Path) -> None:
    own = tmp_path / "my-server"
    with pytest.raises(LaunchFailedError, match=f"option xvfb names {own}"):
        display_wrapper(LocalOptions(headless=False, xvfb=str(own)), DIRECTORY, machine)
    own.write_text("")
    own.chmod(0o755)
    assert str(own) in display_wrapper(LocalOptions(headless=False, xvfb=str(own)), DIRECTORY, machine)
    assert str(own) in display_wrapper(LocalOptions(headless=False, xvfb="my-server"), DIRECTORY, machine)


def test_without_a_server_the_remedy_is_named() -> None:
    with pytest.raises(LaunchFailedError, match=r"apt install xvfb.*option xvfb.*DISPLAY"):
        display_wrapper(LocalOptions(headless=False), DIRECTORY, {"PATH": "/nowhere"})


@pytest.mark.parametrize("value", ["", " ", 1, True, ["Xvfb"]])
def test_a_server_that_is_no_path_is_refused(value: object) -> None:
    with pytest.raises(BadInputError, match="xvfb"):
        read_options({"xvfb": value})
