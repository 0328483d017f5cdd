"""Postgres: addresses, connections, tables, migrations, locks and the embedded server."""

from __future__ import annotations
