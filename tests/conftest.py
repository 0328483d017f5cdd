"""Fixtures of all tests; they live in modules by subject."""

from __future__ import annotations

import os

# What the caller's shell sets for a fleet of its own must not reach a test.
for name in [name for name in os.environ if name.startswith("POOLSQL_")]:
    if name not in {"POOLSQL_TEST_DATABASE_URL", "POOLSQL_CHROMIUM", "POOLSQL_CYCLES"}:
        del os.environ[name]

pytest_plugins = [
    "tests.fixtures.databases",
    "tests.fixtures.fleets",
    "tests.fixtures.browsers",
    "tests.fixtures.clocks",
    "tests.fixtures.real_pages",
]
