"""A daemon with `rest` launchers runs where there is no POSIX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import poolsql

ROOT = Path(poolsql.__file__).parents[1]

CODE = """
import sys
for name in ("fcntl", "pwd", "grp", "resource", "termios"):
    sys.modules[name] = None
import {module}
"""


@pytest.mark.parametrize("module", ["poolsql.launchers.rest.launcher", "poolsql.fleet.browsers"])
def test_nothing_of_posix_alone_is_imported(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(module=module)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_rest_launcher_brings_nothing_of_the_local_one() -> None:
    code = CODE.format(module="poolsql.fleet.browsers") + (
        "import poolsql.launchers.rest.launcher\n"
        "assert not [name for name in sys.modules if name.startswith('poolsql.launchers.local')]"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
