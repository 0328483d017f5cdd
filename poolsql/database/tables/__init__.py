"""The tables of schema ``poolsql``, equal to what the migrations build (``alembic check``)."""

from __future__ import annotations

from poolsql.database.tables.definitions import SCHEMA, metadata
from poolsql.database.tables.fleet import launchers, outcomes, pools, profile_tags, profiles, proxies
from poolsql.database.tables.history import attempts, audit, misses, refused_reports, visits
from poolsql.database.tables.leasing import cooldowns, leases, sticky_keys, waiters, workers
from poolsql.database.tables.operations import loop_stamps, schema_information
from poolsql.database.tables.scraping import hosts, jobs, robots, runs, tasks

__all__ = [
    "SCHEMA",
    "attempts",
    "audit",
    "cooldowns",
    "hosts",
    "jobs",
    "launchers",
    "leases",
    "loop_stamps",
    "metadata",
    "misses",
    "outcomes",
    "pools",
    "profile_tags",
    "profiles",
    "proxies",
    "refused_reports",
    "robots",
    "runs",
    "schema_information",
    "sticky_keys",
    "tasks",
    "visits",
    "waiters",
    "workers",
]
