"""The program on a terminal that cannot show every character."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from rich.console import Console
from poolsql.cli import main

main.app.registered_commands.clear()
main.app.command("show")(lambda: Console().print("Setting up …"))
sys.argv = ["poolsql", "show"]
sys.exit(main.run())
"""


def test_what_cannot_be_shown_is_replaced(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "POOLSQL_ENV_FILE": ""}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Setting up ?\n", "")
