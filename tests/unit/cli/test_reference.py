"""The page about the command line is the program's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import poolsql
from poolsql.cli import reference
from poolsql.cli.lazy import COMMANDS, load_command

PAGE = Path(poolsql.__file__).parents[1] / "docs" / "cli.md"


@pytest.mark.parametrize("columns", ["30", "200"])
def test_the_page_is_what_the_program_says_whatever_the_terminal(
    columns: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {"COLUMNS": columns, "TERM": "dumb", "FORCE_COLOR": "1", "POOLSQL_MACHINE": "other"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    assert reference.reference() == PAGE.read_text(encoding="utf-8"), "run: make docs"


def test_every_command_and_option_is_on_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for told in ("## poolsql apply", "### poolsql lease revoke", "`--all`: All that there are.", "- `--for TIME`: "):
        assert told in page
    assert "130 interrupted" in page
    assert max(map(len, page.splitlines())) <= 120


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_of_a_command_what_it_says_of_itself(name: str) -> None:
    said = " ".join((load_command(name).help or "").split("\n\n")[0].split())
    assert COMMANDS[name].help == said


def test_help_loads_no_command() -> None:
    program = (
        "import sys; from poolsql.cli.main import run; assert run(['--help']) == 0; "
        "heavy = {'sqlalchemy', 'psycopg', 'alembic', 'playwright', 'pydantic', 'poolsql.cli.pool'}; "
        "sys.exit(str(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["profile", "list"], ["pool", "status"], ["job", "list"], ["run", "list"]])
def test_looking_brings_neither_alembic_nor_a_browser_driver(arguments: list[str], tmp_path: Path) -> None:
    program = (
        f"import sys; from poolsql.cli.main import run; code = run({arguments}); "
        "heavy = {'alembic', 'playwright', 'apscheduler'}; "
        "sys.exit(str(heavy & sys.modules.keys()) if heavy & sys.modules.keys() else code)"
    )
    # No server is there: everything has been imported by then.
    environment = {**os.environ, "POOLSQL_DATABASE_URL": "postgresql://127.0.0.1:1/fleet", "POOLSQL_ENV_FILE": ""}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert (done.returncode, "cannot be reached" in done.stderr) == (3, True), done.stderr
