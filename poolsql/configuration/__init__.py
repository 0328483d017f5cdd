"""fleet.toml: read, checked as a whole, compared with the database, and written to it."""

from __future__ import annotations
