"""Real browsers, a site on this machine, and the promise that a test leaves nothing behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Playwright, sync_playwright

from tests.fixtures.browsers import processes_that_mention

pytest.register_assert_rewrite("tests.integration.launchers.conformance", "tests.integration.launchers.support")

from .support import Site, children_that_are_zombies, seen_within  # noqa: E402 - its asserts are to be rewritten


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    # Not for the session: while it is there, this thread counts as running a loop, and no other can run in it.
    with sync_playwright() as driver:
        yield driver


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


@pytest.fixture
def temporary_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the test's browsers put temporary files. A short path: Chromium's socket must fit in 107 bytes."""
    directory = Path(tempfile.mkdtemp(prefix="poolsql-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(directory))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def data_dir(tmp_path: Path, temporary_files: Path) -> Iterator[Path]:
    """A data directory whose browsers, zombies and temporary files must be gone when the test ends."""
    directory = tmp_path / "data"
    yield directory
    left = processes_that_mention(str(tmp_path))
    for process in left:
        process.kill()
    assert not left, "the test left processes running"
    assert seen_within(3, lambda: not children_that_are_zombies()), children_that_are_zombies()
    assert not list(temporary_files.iterdir()), "the test left temporary files"
