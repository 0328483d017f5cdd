"""How much memory this process may use: the machine's, or what its container leaves of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import psutil

CONTROL_GROUPS = Path("/sys/fs/cgroup")

_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat"),
)
"""Files of a container's limit, use and its kinds, in version 2 and 1 of Linux's control groups."""

_CACHE = re.compile(r"^(?:total_)?inactive_file (\d+)$", re.MULTILINE)
"""Cached files that the kernel drops when memory is wanted; they count as used all the same."""


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes."""

    total: int
    available: int


def memory(control_groups: Path = CONTROL_GROUPS) -> Memory:
    """Look at the memory now.

    psutil knows the machine only, and a container with a limit is killed long before the machine is full.
    """
    machine = psutil.virtual_memory()
    total, available = int(machine.total), int(machine.available)
    for files in _FILES:
        limit, used, kinds = (_content(control_groups / name) for name in files)
        if limit.isdecimal() and used.isdecimal():  # without a limit it says "max"
            cached = max((int(found) for found in _CACHE.findall(kinds)), default=0)
            total, available = min(total, int(limit)), min(available, max(0, int(limit) - int(used) + cached))
    return Memory(total, available)


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
