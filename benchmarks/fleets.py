"""A fleet to measure on: the embedded server with its own settings (durable), and pools filled in bulk."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from sqlalchemy import Connection, text

import poolsql
from poolsql import Fleet, Pool

# Below the path of a socket, which is short.
DIRECTORY = "/tmp"  # noqa: S108 - holds a directory with a random name

FILL = """
INSERT INTO poolsql.profiles (pool_id, launcher_id, key, available_at, uses)
SELECT :pool, launchers.id, :name || '-' || number, clock_timestamp() - make_interval(secs => number), 1000
FROM poolsql.launchers, generate_series(1, :profiles) AS number
WHERE launchers.name = 'benchmark'
"""

BUSY = """
WITH busy AS (
    SELECT id FROM poolsql.profiles WHERE pool_id = :pool ORDER BY available_at LIMIT :busy
),
leased AS (
    INSERT INTO poolsql.leases (
        token, request_id, profile_id, pool_id, worker_id, ttl, acquired_at, expires_at, deadline_at
    )
    SELECT gen_random_uuid(), gen_random_uuid(), busy.id, :pool, :worker, interval '1 hour', clock_timestamp(),
        clock_timestamp() + interval '1 hour', clock_timestamp() + interval '1 hour'
    FROM busy
    RETURNING profile_id
)
UPDATE poolsql.profiles SET available_at = NULL FROM leased WHERE profiles.id = leased.profile_id
"""


CHANGED_IN_BULK = "poolsql.profiles, poolsql.leases, poolsql.profile_tags, poolsql.cooldowns"


@contextmanager
def fresh_fleet() -> Iterator[Fleet]:
    """A fleet of its own, on a server of its own; nothing of it is left."""
    with (
        tempfile.TemporaryDirectory(prefix="poolsql-", dir=DIRECTORY) as place,
        poolsql.connect(data_dir=Path(place), machine="here", database_url=None) as fleet,
    ):
        fleet.define_launcher("benchmark")
        with fleet.database.connect() as connection:
            data = Path(connection.execute(text("SHOW data_directory")).scalar_one())
        yield fleet
    # For root the server has its files elsewhere, in a directory of this one alone.
    shutil.rmtree(data.parent, ignore_errors=True)


def filled_pool(fleet: Fleet, *, profiles: int, busy: int) -> Pool:
    """A pool with so many profiles, of which so many are leased to somebody else."""
    name = f"p{uuid4().hex[:8]}"
    pool = fleet.define_pool(name, ttl="1h", renew="10m", max_lease="2h")
    with in_bulk(fleet) as connection:
        connection.execute(text(FILL), {"pool": pool.id, "name": name, "profiles": profiles})
        connection.execute(text(BUSY), {"pool": pool.id, "busy": busy, "worker": uuid4()})
    return pool


@contextmanager
def in_bulk(fleet: Fleet) -> Iterator[Connection]:
    """A connection for changing much at once; then the tables are vacuumed, as those of an old database are."""
    with fleet.database.connect() as connection:
        # A million rows take longer than any statement of a worker may.
        connection.execute(text("SET statement_timeout = 0"))
        yield connection
        connection.execute(text(f"VACUUM (ANALYZE) {CHANGED_IN_BULK}"))
        connection.execute(text("RESET statement_timeout"))


def address(fleet: Fleet) -> str:
    """The server's address, for processes of their own."""
    return fleet.database.url.render_as_string(hide_password=False)
