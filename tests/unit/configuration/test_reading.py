"""What is wrong in a fleet.toml is found, all of it, each with its line.

In wrong_files.txt a mark ``#!`` tells what the line that it ends is blamed for.
"""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from poolsql.configuration.entries import FleetFile
from poolsql.configuration.problems import FleetFileError, Problem
from poolsql.configuration.reading import load_fleet_file, read_fleet_file
from poolsql.configuration.toml_writing import toml_key, toml_value
from poolsql.settings import load_settings

GOOD = """
[pools.shop]
ttl = "2m"
retire_after = "off"
[launchers.chromium]
headless = true
machines = ["here", "there"]
[launchers.vendor]
preset = "justbrowser"
token = "env:TOKEN_OF_TESTS"
[proxies.isp1]
server = "http://198.51.100.7:8000"
username = "ann"
secret = "env:TOKEN_OF_TESTS"
[[profiles]]
pool = "shop"
launcher = "chromium"
id = "a"
proxy = "isp1"
tags = ["win11", "de", "win11"]
seed = "7"
state = "new"
headless = false
[[profiles]]
pool = "shop"
launcher = "chromium"
ids = ["b", "c"]
[hosts."Shop.Example"]
delay = "2s"
[hosts."127.0.0.1:8080"]
[jobs.prices]
pool = "shop"
schedule = "0 */6 * * *"
zone = "Europe/Berlin"
misfire = "all"
misfire_grace = "1h"
targets = { list = [
    "https://shop.example/p/1",
    { url = "http://127.0.0.1:8080/", profile = "a", parameters = { at = 2026-01-01 } },
] }
extract = { title = "h1" }
[jobs.by_hand]
pool = "shop"
targets = { file = "urls.txt" }
extract = { title = "h1" }
"""


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Reads texts as a fleet.toml of one folder."""
    monkeypatch.setenv("TOKEN_OF_TESTS", "secret-of-tests-1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "urls.txt").write_text("https://shop.example/1\n")
    (tmp_path / "other_urls.txt").write_text(
        "https://shop.example/1\nhttps://a.test/\nhttps://a.test/2\nhttps://b.test/"
    )
    (tmp_path / "bad_urls.txt").write_text("https://shop.example/1\nftp://a.test/\n")
    (tmp_path / "handlers_of_tests.py").write_text(
        "async def handle(session, task): return {}\ndef plain(a, b): pass\n"
    )
    return Reader(tmp_path / "fleet.toml")


class Reader:
    """Reads texts as if they stood in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._settings = load_settings(machine="here", data_dir=path.parent / "data")

    def __call__(self, text: str | bytes) -> FleetFile:
        self.path.write_bytes(text.encode() if isinstance(text, str) else text)
        return read_fleet_file(self.path, self._settings)

    def load(self, text: str) -> FleetFile:
        self.path.write_text(text)
        return load_fleet_file(self.path, self._settings)

    def problems(self, text: str) -> list[Problem]:
        try:
            return list(self(text).problems)
        except FleetFileError as error:
            return list(error.problems)


def test_a_good_file_is_read_whole(read: Reader) -> None:
    file = read.load(GOOD)
    assert file.pools["shop"].policy.ttl == timedelta(minutes=2)
    assert file.pools["shop"].policy.retire_after is None
    local, vendor = file.launchers["chromium"], file.launchers["vendor"]
    assert (local.kind, local.pins_machine, local.options) == ("local", True, {"headless": True})
    assert local.machines == ("here", "there")
    assert (vendor.kind, vendor.pins_machine, vendor.machines) == ("rest", False, None)
    proxy = file.proxies["isp1"]
    assert (proxy.username, proxy.secret, proxy.shared) == ("ann", "env:TOKEN_OF_TESTS", False)
    first, second, third = file.profiles
    assert (first.key, first.proxy, first.tags, first.seed, first.new) == ("a", "isp1", ["de", "win11"], "7", True)
    assert first.options == {"headless": False}
    assert [(one.key, one.new, one.proxy) for one in (second, third)] == [("b", False, None), ("c", False, None)]
    assert {name: host.delay for name, host in file.hosts.items()} == {
        "shop.example": timedelta(seconds=2),
        "127.0.0.1:8080": None,
    }
    job = file.jobs["prices"]
    assert (job.pool, job.misfire, job.misfire_grace, job.overlap) == ("shop", "all", timedelta(hours=1), False)
    assert job.schedule is not None
    assert job.schedule.to_json() == {"cron": "0 */6 * * *", "zone": "Europe/Berlin"}
    assert job.definition["targets"]["list"][1]["parameters"] == {"at": "2026-01-01"}
    assert [profile for _, profile in job.wanted_profiles] == ["a"]
    assert file.jobs["by_hand"].schedule is None
    assert file.jobs["by_hand"].definition["targets"] == {"file": str(read.path.parent / "urls.txt")}


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(read: Reader) -> None:
    plain = read(GOOD)
    other = read(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert other.problems == plain.problems == []
    assert (other.pools, other.profiles, other.hosts) == (plain.pools, plain.profiles, plain.hosts)
    assert other.launchers == plain.launchers


def test_an_empty_file_declares_nothing(read: Reader) -> None:
    file = read.load("")
    assert (file.pools, file.launchers, file.proxies, file.profiles, file.hosts, file.jobs) == ({}, {}, {}, [], {}, {})


WRONG = dict(
    case.split("\n", maxsplit=1)
    for case in re.split(r"^=== ", (Path(__file__).parent / "wrong_files.txt").read_text(), flags=re.MULTILINE)[1:]
)
"""Files by what is wrong with them."""


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG.keys())
def test_each_thing_that_is_wrong_is_told_with_its_line(read: Reader, text: str) -> None:
    expected = [
        (number, mark.strip()) for number, line in enumerate(text.split("\n"), start=1) for mark in line.split("#!")[1:]
    ]
    found = read.problems(text)
    told = "\n".join(f"{problem.line}: {problem}" for problem in found)
    assert len(found) == len(expected), told
    for line, mark in expected:
        assert any(problem.line == line and mark in str(problem) for problem in found), f"{line}: {mark}\n{told}"


def test_all_of_it_is_told_at_once_and_in_order(read: Reader) -> None:
    text = '[pools.shop]\nttll = 1\n[pool.x]\n[proxies.p]\n[[profiles]]\npool = "shop"\nid = "a"\n'
    with pytest.raises(FleetFileError) as caught:
        read.load(text)
    assert [problem.line for problem in caught.value.problems] == [2, 3, 4, 5]
    assert caught.value.lines()[0].startswith(f"{read.path}:2: [pools.shop.ttll] unknown key; did you mean 'ttl'?")
    assert str(caught.value).startswith(f"{read.path}: 4 things are wrong: {read.path}:2: ")


def test_a_file_that_cannot_be_read_is_told(read: Reader) -> None:
    with pytest.raises(FleetFileError, match=r"fleet.toml:1: cannot read the file \(No such file"):
        load_fleet_file(read.path, load_settings())
    with pytest.raises(FleetFileError, match=r"fleet.toml:2: not a text in UTF-8 \(byte 5\)"):
        read(b"a=1\n#\xff")


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5000], ids=["depth", "digits"])
def test_a_monstrous_file_is_refused(read: Reader, text: str) -> None:
    with pytest.raises(FleetFileError, match="broken TOML"):
        read(text)


def test_a_secret_is_never_repeated(read: Reader) -> None:
    text = GOOD.replace('username = "ann"', "username = 7").replace('"env:TOKEN_OF_TESTS"', '"hunter2-of-tests"', 2)
    with pytest.raises(FleetFileError) as caught:
        read.load(text)
    assert "hunter2-of-tests" not in str(caught.value)
    assert any("secret" in line for line in caught.value.lines())


STRANGE: list[Any] = [7, True, "", "é ]", [], [7], ["x"], {}, {"x": {}}, date(2026, 1, 1)]


def test_whatever_stands_where_is_a_problem_with_a_line_and_never_a_crash(read: Reader) -> None:
    document = tomllib.loads(GOOD)
    refused = 0
    for path in _paths(document):
        for value in STRANGE:
            text = "\n".join(
                f"{toml_key(key)} = {toml_value(inner)}" for key, inner in _with(document, path, value).items()
            )
            problems = read.problems(text)
            assert all(1 <= problem.line <= text.count("\n") + 1 and problem.message for problem in problems)
            refused += bool(problems)
    assert refused > 200


def _paths(value: Any) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (key,)
        yield from ((key, *path) for path in _paths(item))


def _with(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed
