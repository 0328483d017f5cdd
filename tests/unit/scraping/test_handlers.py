"""Handlers of the user's own, in a folder that only the current directory leads to."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from poolsql.errors import BadInputError
from poolsql.scraping.handlers import load_handler

GOOD = """
async def handler(session, task, more=None):
    return {"session": session, "task": task}

async def with_keyword(session, task, *, must): ...
async def alone(session): ...
def plain(session, task): ...
class Kind:
    def __init__(self, session, task): ...
number = 5
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    package = tmp_path / "shop_of_tests"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner" / "__init__.py").touch()
    (package / "inner" / "handlers.py").write_text(GOOD)
    (package / "needs.py").write_text("import a_module_that_nobody_has\n")
    (package / "fails.py").write_text("raise RuntimeError('two\\nlines')\n")
    (package / "leaves.py").write_text("raise SystemExit(3)\n")
    (package / "broken.py").write_text("def f(:\n")
    (tmp_path / "single_of_tests.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0].endswith("_of_tests")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "path",
    [
        "shop_of_tests.inner.handlers:handler",
        "shop_of_tests.inner.handlers.handler",
        "single_of_tests:handler",
        "single_of_tests.handler",
    ],
)
def test_a_handler_is_found_from_the_current_directory(path: str) -> None:
    handler: Any = load_handler(path)
    assert asyncio.run(handler("session", "task")) == {"session": "session", "task": "task"}


def test_the_current_directory_takes_no_installed_module_s_place(folder: Path) -> None:
    (folder / "json.py").write_text("raise RuntimeError('the wrong one')")
    load_handler("single_of_tests:handler")
    assert sys.path[-1] == str(folder)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "write it as package.module:function"),
        ("handler", "write it as package.module:function"),
        ("shop_of_tests/inner.py:handler", "write it as package.module:function"),
        ("shop_of_tests:a:b", "write it as package.module:function"),
        ("single_of_test:handler", "no module 'single_of_test', neither .* did you mean 'single_of_tests'"),
        ("shop_of_tests.innr.handlers:handler", "no module 'shop_of_tests.innr' in shop_of_tests .*mean 'inner'"),
        ("shop_of_tests.inner.handler:handler", "no module 'shop_of_tests.inner.handler' in .*mean 'handlers'"),
        ("single_of_tests.inner:handler", "single_of_tests .* is no package and has no module 'inner'"),
        ("single_of_tests:handlr", "has no 'handlr'; did you mean 'handler'"),
        ("shop_of_tests.needs:handler", "importing 'shop_of_tests.needs' failed: ModuleNotFoundError: No module named"),
        ("shop_of_tests.fails:handler", "importing 'shop_of_tests.fails' failed: RuntimeError: two lines$"),
        ("shop_of_tests.leaves:handler", "importing 'shop_of_tests.leaves' failed: SystemExit: 3"),
        ("shop_of_tests.broken:handler", "importing 'shop_of_tests.broken' failed: SyntaxError: .*line 1"),
        ("single_of_tests:number", "is no function but 'int'"),
        ("single_of_tests:plain", "is not async; write async def"),
        ("single_of_tests:Kind", "is a class; write async def"),
        ("single_of_tests:alone", "takes \\(session\\) and is called with two arguments"),
        ("single_of_tests:with_keyword", "takes \\(session, task, \\*, must\\)"),
    ],
)
def test_what_is_wrong_with_a_handler_is_told_in_one_line(path: str, told: str) -> None:
    with pytest.raises(BadInputError, match=told) as raised:
        load_handler(path)
    assert "\n" not in str(raised.value)
