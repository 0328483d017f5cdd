"""The README's own example, run as it stands there; only the site is one of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolsql.database.embedded import default_directory, stop_embedded_server
from poolsql.demo.shop import ShopSite

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def data_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="poolsql-readme-") as directory:
        yield Path(directory)
        server = default_directory(Path(directory))
        assert stop_embedded_server(server)
        subprocess.run(["rm", "-rf", str(server)], check=True)


def test_the_example_leases_a_profile_and_shows_a_page(data_directory: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    with ShopSite() as shop:
        code = examples[0].replace("https://example.com/", shop.url)
        environment = {**os.environ, "POOLSQL_DATA_DIR": str(data_directory), "POOLSQL_LOG_LEVEL": "WARNING"}
        ran = [
            subprocess.run(
                [sys.executable, "-c", code],
                cwd=data_directory,
                env=environment,
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
            for _ in range(2)
        ]
    assert [each.stderr for each in ran] == ["", ""]
    # As often as one likes: the second time the profile comes that has been available for longest.
    shown = [each.stdout for each in ran]
    assert shown == [f"{name} The desk shop\n{{'available': 3}}\n" for name in ("anna", "ben")]
