"""The memory of a machine, and of a container on it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from poolsql.scheduling.memory import memory

GIB = 1024**3


def test_without_a_limit_it_is_the_machines(tmp_path: Path) -> None:
    assert memory(tmp_path).total == psutil.virtual_memory().total
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("4096\n")
    assert memory(tmp_path).total == psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("limit", "use"),
    [("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")],
)
def test_a_containers_limit_counts(tmp_path: Path, limit: str, use: str) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / limit).write_text(f"{GIB // 2}\n")
    (tmp_path / use).write_text(f"{GIB // 2 - 4096}\n")
    assert (memory(tmp_path).total, memory(tmp_path).available) == (GIB // 2, 4096)
    (tmp_path / use).write_text(f"{GIB}\n")
    assert memory(tmp_path).available == 0


def test_cached_files_are_as_good_as_free(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("10000\n")
    (tmp_path / "memory.current").write_text("9000\n")
    (tmp_path / "memory.stat").write_text("anon 5000\ninactive_file 3500\nactive_file 500\n")
    assert memory(tmp_path).available == 4500


def test_a_limit_above_the_machines_memory_is_none(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{2**63}\n")
    (tmp_path / "memory.current").write_text("0\n")
    assert memory(tmp_path).total == psutil.virtual_memory().total
