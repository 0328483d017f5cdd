"""Fixtures of all tests; they live in modules by subject."""

from __future__ import annotations

import os
import signal

# What the caller's shell sets for a fleet of its own must not reach a test.
for name in [name for name in os.environ if name.startswith("POOLSQL_")]:
    if name not in {"POOLSQL_TEST_DATABASE_URL", "POOLSQL_CHROMIUM", "POOLSQL_CYCLES"}:
        del os.environ[name]

# A shell ignores SIGINT for what it runs in the background, and every program that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "tests.fixtures.databases",
    "tests.fixtures.fleets",
    "tests.fixtures.browsers",
    "tests.fixtures.clocks",
    "tests.fixtures.real_pages",
    "tests.fixtures.poolers",
]
