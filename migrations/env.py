"""Alembic's entry: the database is the process's own, its address never stands in a file."""

from __future__ import annotations

from poolsql.database.migration import run_environment

run_environment()
