"""``python -m poolsql``."""

from __future__ import annotations

from poolsql.cli.main import main

main()
