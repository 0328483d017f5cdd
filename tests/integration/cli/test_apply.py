"""``poolsql apply`` and ``poolsql config show``."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from rich.console import Console
from sqlalchemy import text

from poolsql.cli import output
from poolsql.database.embedded import default_directory, stop_embedded_server
from poolsql.database.engine import Database
from tests.integration.cli.calls import Calls

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

FILE = """\
[pools.shop]
ttl = "90s"
[launchers.chromium]
[proxies.isp1]
server = "http://198.51.100.7:8000"
secret = "env:PROXY_OF_TESTS"
[[profiles]]
pool = "shop"
launcher = "chromium"
id = "a"
proxy = "isp1"
"""
WRONG = FILE.replace("ttl", "ttll") + '[hosts."a b"]\n[[profiles]]\npool = "shpo"\nlauncher = "chromium"\nid = "b"\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: Database) -> Path:
    """A fleet.toml in the current directory, and a database without a fleet."""
    with database.connect() as connection:
        connection.execute(text("TRUNCATE poolsql.pools, poolsql.launchers, poolsql.proxies, poolsql.hosts CASCADE"))
    monkeypatch.setenv("PROXY_OF_TESTS", "secret-of-tests-4")
    written = tmp_path / "fleet.toml"
    written.write_text(FILE)
    return written


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """Where the embedded server of one test lives."""
    directory = Path(tempfile.gettempdir()) / f"poolsql-tests-{uuid4().hex[:12]}"
    yield directory
    stop_embedded_server(default_directory(directory))
    shutil.rmtree(directory)


def test_a_file_is_applied_once(calls: Calls, file: Path, database: Database) -> None:
    planned = calls("apply", "--dry-run")
    assert (planned.code, planned.errors) == (0, "")
    assert planned.out.splitlines() == [
        "+ pool shop",
        "+ launcher chromium",
        "+ proxy isp1",
        "+ profile chromium/a",
        "4 to add",
    ]
    done = calls("apply", file, "--reason", "first")
    assert (done.code, done.out.splitlines()[-1]) == (0, "4 added")
    assert calls("apply").line == "nothing to change"
    with database.connect() as connection:
        query = text("SELECT who, reason FROM poolsql.audit WHERE action = 'apply' ORDER BY id DESC LIMIT 1")
        assert tuple(connection.execute(query).one()) == ("ann@here", "first")


def test_what_changed_is_told_to_programs(calls: Calls, file: Path) -> None:
    assert calls("apply", "--json").json["counts"] == {"add": 4}
    file.write_text(
        FILE.replace("90s", "2m").replace("[launchers.chromium]\n", "[launchers.chromium]\nheadless = true\n")
    )
    assert calls("apply", "--dry-run", "--json").json == {
        "applied": False,
        "changes": [
            {
                "action": "change",
                "kind": "pool",
                "name": "shop",
                "changes": {"ttl": {"before": 90, "after": 120}},
                "note": None,
            },
            {
                "action": "change",
                "kind": "launcher",
                "name": "chromium",
                "changes": {"headless": {"before": None, "after": True}},
                "note": None,
            },
        ],
        "counts": {"change": 2},
        "notes": [],
    }


def test_what_is_gone_is_listed_and_pruned_on_demand(calls: Calls, file: Path) -> None:
    calls("apply")
    file.write_text("")
    listed = calls("apply")
    assert listed.out.splitlines()[0] == "- profile chromium/a (not in the file; --prune retires it)"
    assert listed.out.splitlines()[-1] == "nothing to change; 4 not in the file"
    pruned = calls("apply", "--prune")
    assert pruned.out.splitlines()[0] == "- profile chromium/a (retired)"
    assert pruned.out.splitlines()[-1] == "4 removed"


def test_only_a_terminal_gets_colours(calls: Calls, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in calls("apply", "--dry-run").out
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    monkeypatch.setattr(output, "console", lambda: Console(force_terminal=True, color_system="standard", width=80))
    assert calls("apply", "--dry-run").out.splitlines()[0] == "\x1b[32m+ pool shop\x1b[0m"
    calls("apply")
    file.write_text("[pools.shop]\nttl = 60\n")
    lines = calls("apply", "--dry-run").out.splitlines()
    assert lines[0] == "\x1b[33m~ pool shop: ttl 1m30s → 1m, renew 30s → 20s\x1b[0m"
    assert lines[1].startswith("\x1b[31m- profile chromium/a (not in the file")


def test_all_that_is_wrong_is_told_a_line_each(calls: Calls, file: Path) -> None:
    file.write_text(WRONG)
    refused = calls("apply", "fleet.toml")
    assert (refused.code, refused.out) == (2, "")
    *problems, last = refused.errors.splitlines()
    assert [problem.split(" ")[0] for problem in problems] == ["fleet.toml:2:", "fleet.toml:12:", "fleet.toml:14:"]
    assert "unknown key; did you mean 'ttl'?" in problems[0]
    assert last == "3 things are wrong; nothing was changed"
    told = calls("apply", "--json")
    assert told.code == 2
    assert [problem["line"] for problem in json.loads(told.out)["problems"]] == [2, 12, 14]


def test_a_file_that_is_not_there_or_no_toml_is_told(calls: Calls, file: Path) -> None:
    assert calls("apply", "other.toml").errors.startswith("other.toml:1: cannot read the file (No such file")
    file.write_text("a =")
    refused = calls("apply")
    assert (refused.code, refused.errors.startswith("fleet.toml:1: broken TOML: invalid value")) == (2, True)


def test_without_a_database_a_wrong_file_is_told_and_a_right_one_is_not_blamed(
    calls: Calls, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLSQL_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    away = calls("apply")
    assert (away.code, away.out) == (3, "")
    assert "fleet.toml" not in away.errors
    file.write_text(WRONG)
    refused = calls("apply")
    assert (refused.code, refused.errors.splitlines()[-1]) == (2, "2 things are wrong; nothing was changed")


def test_the_embedded_server_is_brought_up_and_written_to(
    calls: Calls, file: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POOLSQL_DATABASE_URL")
    monkeypatch.setenv("POOLSQL_DATA_DIR", str(data_dir))
    assert calls("apply", file).out.splitlines()[-1] == "4 added"
    assert calls("apply", file).out == "nothing to change\n"


def test_a_fleet_can_be_written_down_and_applied(calls: Calls, file: Path) -> None:
    calls("apply")
    written = calls("config", "show", "--fleet").out
    assert 'secret = "env:PROXY_OF_TESTS"' in written
    assert "secret-of-tests-4" not in written
    file.write_text(written)
    assert calls("apply", "--prune").line == "nothing to change"


def test_settings_are_told_without_passwords_and_with_their_sources(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POOLSQL_DATABASE_URL", "postgresql://ann:hunter2@db.test/fleet?password=hunter3")
    (tmp_path / "my.env").write_text("POOLSQL_LOG_LEVEL=warning\n")
    monkeypatch.setenv("POOLSQL_ENV_FILE", "my.env")
    shown = calls("config", "show")
    assert "hunter" not in shown.out
    rows = {row[0]: row[1:] for row in shown.table}
    assert rows["POOLSQL_DATABASE_URL"] == ["postgresql://ann@db.test/fleet", "environment"]
    assert rows["POOLSQL_MACHINE"] == ["here", "environment"]
    assert rows["POOLSQL_LOG_LEVEL"] == ["WARNING", "my.env"]
    assert rows["POOLSQL_LOCK_TIMEOUT"] == ["5.0", "default"]
    assert rows["POOLSQL_CHROMIUM"] == ["-", "default"]
    by_name = {row["name"]: row for row in calls("config", "show", "--json").json}
    assert by_name["POOLSQL_LOCK_TIMEOUT"] == {"name": "POOLSQL_LOCK_TIMEOUT", "value": 5.0, "source": "default"}


def test_the_fleet_is_toml_and_nothing_else(calls: Calls) -> None:
    assert calls("config", "show", "--fleet", "--json").refusal == "--fleet writes TOML; leave --json out"
