"""One process of `test_exclusive_use`, in a module of its own so that it starts without pytest."""

from __future__ import annotations

import json
import random
from pathlib import Path

from poolsql import Fleet, Outcome
from poolsql.clocks import elapsed_clock
from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.settings import load_settings

OUTCOMES = [Outcome.SUCCESS, Outcome.NOT_FOUND, Outcome.TASK_FAILED, Outcome.SITE_ERROR, Outcome.CANCELLED]
"""None of them keeps a profile from being offered at once."""


def borrow(url: str, pool: str, cycles: int, journal: Path) -> None:
    """One process: borrow any profile, keep it for a moment, give it back, again and again."""
    settings = load_settings(machine="here", data_dir=journal.parent)
    database = Database(database_address(url), settings, pool_size=2)
    chance = random.Random(journal.name)
    with Fleet(database, settings) as fleet, journal.open("w", encoding="utf-8") as lines:
        waiting = fleet.pool(pool)
        for _ in range(cycles):
            lease = waiting.checkout(wait=120)
            began = elapsed_clock()
            if chance.random() < 0.1:
                lease.renew()
            ended = elapsed_clock()
            lease.release(chance.choice(OUTCOMES))
            lines.write(json.dumps([lease.id, lease.profile.id, began, ended]) + "\n")
    database.close()
