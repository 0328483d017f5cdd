from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from poolsql.errors import BadInputError, LaunchFailedError, LaunchFault
from poolsql.launchers.contract import Proxy
from poolsql.launchers.local import command
from poolsql.launchers.local.command import LocalOptions, browser_command, browser_environment, read_options
from poolsql.launchers.local.launcher import LocalLauncher

DIRECTORY = Path("/data/profiles/local/shop")


def command_line(proxy: Proxy | None = None, **options: Any) -> list[str]:
    return browser_command(Path("/usr/bin/chromium"), DIRECTORY, read_options(options), proxy)


def test_the_defaults() -> None:
    line = command_line()
    assert line[0] == "/usr/bin/chromium"
    assert f"--user-data-dir={DIRECTORY}" in line
    assert "--remote-debugging-port=0" in line
    assert "--remote-debugging-address=127.0.0.1" in line
    assert "--headless=new" in line
    assert line[-1] == "about:blank"
    assert not [flag for flag in line if flag.startswith(("--proxy", "--host-resolver"))]
    assert len(line) == len(set(line))


def test_options_become_flags() -> None:
    line = command_line(headless=False, resolver_rules="MAP * ~NOTFOUND", args=["--lang=de", "--mute-audio"])
    assert "--headless=new" not in line
    assert "--host-resolver-rules=MAP * ~NOTFOUND" in line
    assert line[-3:] == ["--lang=de", "--mute-audio", "about:blank"]


@pytest.mark.parametrize(
    ("root", "asked", "sandboxed"),
    [(True, None, False), (False, None, True), (False, False, False), (True, True, True)],
)
def test_only_root_goes_without_sandbox_unasked(
    root: bool, asked: bool | None, sandboxed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "_is_root", lambda: root)
    assert ("--no-sandbox" not in command_line(sandbox=asked)) is sandboxed


@pytest.mark.parametrize("small", [True, False])
def test_small_shared_memory_is_not_used(small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_has_small_shared_memory", lambda: small)
    assert ("--disable-dev-shm-usage" in command_line()) is small


@pytest.mark.parametrize(
    "flag",
    [
        "--user-data-dir=/tmp/mine",
        "--remote-debugging-port=9222",
        "--Remote-Debugging-Port=9222",
        "---user-data-dir=/tmp/mine",
        "--headless",
        "--no-sandbox",
        "--proxy-server=http://127.0.0.1:1",
        "--proxy-bypass-list=*",
        "--incognito",
        "https://shop.example/",
        "-x",
        "--",
        "--=x",
    ],
)
def test_flags_that_are_not_the_users_to_give_are_refused(flag: str) -> None:
    with pytest.raises(BadInputError, match="args"):
        read_options({"args": [flag]})


def test_all_mistakes_are_told_at_once() -> None:
    mistakes = {
        "headles": True,
        "headless": "yes",
        "sandbox": 1,
        "resolver_rules": 3,
        "args": "--mute-audio",
        "environment": ["PGPASSWORD", 3],
    }
    with pytest.raises(BadInputError) as error:
        read_options(mistakes)
    for word in ("headles: unknown (known: headless,", "headless: must", "sandbox", "resolver_rules", "args: must"):
        assert word in str(error.value)
    with pytest.raises(BadInputError, match="headles"):
        LocalLauncher("local", "machine", Path("/data"), options={"headles": True})


def test_a_proxy_becomes_a_flag() -> None:
    assert "--proxy-server=http://198.51.100.7:8000" in command_line(Proxy("isp1", "http://198.51.100.7:8000"))
    assert "--proxy-server=http://198.51.100.7:8000" in command_line(Proxy("isp1", "198.51.100.7:8000"))
    assert "--proxy-server=socks5://[2001:db8::7]:1080" in command_line(Proxy("isp1", "socks5://[2001:db8::7]:1080"))


@pytest.mark.parametrize(
    "proxy",
    [
        Proxy("isp1", "http://198.51.100.7:8000", username="me"),
        Proxy("isp1", "http://198.51.100.7:8000", secret="env:PROXY_PASSWORD"),
        Proxy("isp1", "http://me:hunter2@198.51.100.7:8000"),
        Proxy("isp1", "http://me:hunter2@[198.51.100.7:8000"),
        Proxy("isp1", "me:hunter2@198.51.100.7:8000"),
    ],
)
def test_a_proxy_with_a_login_is_refused_and_the_login_not_repeated(proxy: Proxy) -> None:
    with pytest.raises(LaunchFailedError, match=r"proxy isp1: needs a login.*command line") as refused:
        command_line(proxy)
    assert refused.value.fault is LaunchFault.PROFILE
    assert "hunter2" not in str(refused.value)
    assert "PROXY_PASSWORD" not in str(refused.value)


@pytest.mark.parametrize(
    "server", ["", "http://", "http://198.51.100.7", "ftp://198.51.100.7:21", "http://x:99999", "a b"]
)
def test_a_proxy_that_cannot_be_one_is_refused(server: str) -> None:
    with pytest.raises(LaunchFailedError, match="scheme://host:port"):
        command_line(Proxy("isp1", server))


def test_the_environment_is_what_a_browser_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("POOLSQL_DATABASE_URL", "POOLSQL_BROWSER", "PGPASSWORD", "VENDOR_TOKEN", "CHROMIUM_FLAGS", "EXTRA"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    environment = browser_environment(DIRECTORY, LocalOptions(environment=("EXTRA",)))
    assert environment["POOLSQL_BROWSER"] == str(DIRECTORY)
    assert environment["PATH"] == os.environ["PATH"]
    assert environment["LC_ALL"] == "C.UTF-8"
    assert [name for name, value in environment.items() if value == "hunter2"] == ["EXTRA"]


@pytest.mark.parametrize("name", ["POOLSQL_DATABASE_URL", "PGPASSWORD", "pgpassfile", "DATABASE_URL"])
def test_the_databases_variables_are_never_passed_on(name: str) -> None:
    with pytest.raises(BadInputError, match=name):
        read_options({"environment": [name]})


def test_only_a_profile_has_a_directory(tmp_path: Path) -> None:
    own = {"directory": str(tmp_path / "brought")}
    assert read_options(own, of_profile=True).directory == tmp_path / "brought"
    with pytest.raises(BadInputError, match=r"^options of a local launcher: directory: belongs to one profile; [^;]*$"):
        read_options(own)
    launcher = LocalLauncher("chromium", "here", tmp_path)
    launcher.check_options(own)
    with pytest.raises(BadInputError, match="belongs to one profile"):
        launcher.check_options(own, of_start=True)
    with pytest.raises(BadInputError, match="belongs to one profile"):
        LocalLauncher("chromium", "here", tmp_path, options=own)


@pytest.mark.parametrize("directory", ["", "d", "./d", "~/d", "/d/../e", "/", "/d\0", 7, ["/d"]])
def test_a_directory_is_a_full_path(directory: object) -> None:
    with pytest.raises(BadInputError, match="directory: must be the full path"):
        read_options({"directory": directory}, of_profile=True)
