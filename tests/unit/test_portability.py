"""The program on a system without POSIX, as far as that can be told on one that has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def as_on_windows(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run with modules as Windows has them, see windows.py."""
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "unit" / "windows.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_module_can_be_imported() -> None:
    done = as_on_windows("import")
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout.split()[0]) >= len(list((ROOT / "poolsql").rglob("*.py"))) * 0.9


def test_the_help_is_shown() -> None:
    done = as_on_windows("run", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "daemon" in done.stdout


@pytest.mark.parametrize("command", [["db", "upgrade"], ["db", "stop"], ["demo"], ["healthcheck"]])
def test_without_a_server_the_remedy_is_named(command: list[str], tmp_path: Path) -> None:
    done = as_on_windows("run", *command, POOLSQL_DATA_DIR=str(tmp_path), POOLSQL_ENV_FILE="")
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "poolsql: the embedded server needs Linux or macOS; set POOLSQL_DATABASE_URL to a Postgres server"
    )


def test_the_check_notices_what_windows_lacks(tmp_path: Path) -> None:
    package = tmp_path / "poolsql"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in {
        "module": "import fcntl",
        "attribute": "import os\nos.getuid()",
        "number": "from signal import SIGKILL",
        "inside": "import sys\nassert sys.platform == 'win32'",
    }.items():
        (package / f"{name}.py").write_text(text)
    done = as_on_windows("import", PYTHONPATH=str(tmp_path))
    failed = {line.partition(":")[0] for line in done.stderr.splitlines() if line.startswith("poolsql.")}
    assert done.returncode == 1
    assert failed == {"poolsql.module", "poolsql.attribute", "poolsql.number"}
