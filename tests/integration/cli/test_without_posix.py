"""The daemon as modules see it on Windows, with a database that is elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from tests.fixtures.conditions import until

ROOT = Path(__file__).parents[3]
WINDOWS = ROOT / "tests" / "unit" / "windows.py"


@pytest.fixture
def environment(database_url: URL, tmp_path: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "POOLSQL_DATABASE_URL": database_url.render_as_string(hide_password=False),
        "POOLSQL_DATA_DIR": str(tmp_path),
        "POOLSQL_MACHINE": "windows",
        "POOLSQL_ENV_FILE": "",
    }


@pytest.fixture
def daemon(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, str(WINDOWS), "run", "daemon"], env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def test_the_daemon_runs_and_stops(daemon: subprocess.Popen[str], environment: dict[str, str]) -> None:
    def is_well() -> bool:
        assert daemon.poll() is None, daemon.communicate()
        asked = subprocess.run(
            [sys.executable, str(WINDOWS), "run", "healthcheck"], env=environment, cwd=ROOT, timeout=60, check=False
        )
        return asked.returncode == 0

    assert until(is_well, seconds=60)
    daemon.send_signal(signal.SIGINT)
    _, said = daemon.communicate(timeout=60)
    assert daemon.returncode == 0, said
    assert "Traceback" not in said
