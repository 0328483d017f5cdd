"""What ``import poolsql`` brings, and what it leaves for later."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import poolsql

ROOT = Path(poolsql.__file__).parents[1]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with warnings as errors."""
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = """
import sys
before = set(sys.modules)
import poolsql
assert set(poolsql.__all__) <= set(dir(poolsql))
brought = {name.partition(".")[0] for name in set(sys.modules) - before}
foreign = brought - sys.stdlib_module_names - {"poolsql"}
assert not foreign, foreign
assert sorted(name for name in sys.modules if name.startswith("poolsql")) == ["poolsql"]
"""
    done = run("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_errors_can_be_caught_without_a_database_or_browser_library() -> None:
    code = """
import sys
from poolsql import LeaseLostError, PoolsqlError
heavy = {"sqlalchemy", "psycopg", "playwright", "alembic"} & set(sys.modules)
assert not heavy, heavy
"""
    done = run("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_asking_for_the_browser_runs_without_a_warning() -> None:
    done = run("-m", "poolsql.launchers.local.executable")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).is_file()


@pytest.mark.parametrize("name", poolsql.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(poolsql, name)
    assert value.__name__ == name
    assert value.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'poolsql' has no attribute 'Foo'"):
        _ = poolsql.Foo
    with pytest.raises(ImportError):
        exec("from poolsql import Foo")


def test_everything_can_be_imported_at_once() -> None:
    names: dict[str, object] = {}
    exec("from poolsql import *", names)
    assert set(poolsql.__all__) <= set(names)
