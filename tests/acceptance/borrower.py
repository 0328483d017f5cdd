"""One process of `test_exclusive_use`, in a module of its own so that it starts without pytest."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

from poolsql.clocks import elapsed_clock
from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.leasing.checkout import Request
from poolsql.leasing.keeper import Keeper
from poolsql.leasing.lease import Lease
from poolsql.leasing.outcomes import Outcome
from poolsql.leasing.waiting import Wait
from poolsql.leasing.worker import Worker, register, sign_off
from poolsql.settings import load_settings

OUTCOMES = [Outcome.SUCCESS, Outcome.NOT_FOUND, Outcome.TASK_FAILED, Outcome.SITE_ERROR, Outcome.CANCELLED]
"""None of them keeps a profile from being offered at once."""


def borrow(url: str, pool_id: int, cycles: int, journal: Path) -> None:
    """One process: borrow any profile, keep it for a moment, give it back, again and again."""
    database = Database(database_address(url), load_settings(machine="here", data_dir=journal.parent), pool_size=2)
    worker = Worker(machine="here", pid=os.getpid(), process_started="test", version="test")
    register(database, worker)
    keeper = Keeper(database, worker)
    chance = random.Random(journal.name)
    with journal.open("w", encoding="utf-8") as lines:
        for _ in range(cycles):
            lease = wait_for_one(database, worker, keeper, pool_id)
            began = elapsed_clock()
            if chance.random() < 0.1:
                lease.renew()
            ended = elapsed_clock()
            lease.release(chance.choice(OUTCOMES))
            lines.write(json.dumps([lease.id, lease.profile.id, began, ended]) + "\n")
    keeper.close()
    sign_off(database, worker)
    database.close()


def wait_for_one(database: Database, worker: Worker, keeper: Keeper, pool_id: int) -> Lease:
    """A lease, after as many tries as it takes."""
    wait = Wait(database, worker, Request(pool_id=pool_id), pool="p", wait=120)
    while (granted := wait.try_once()) is None:
        pause = wait.pause()
        if pause is None:
            raise wait.give_up()
        # Shorter than a caller would pause: twelve processes are to press on four profiles all the time.
        time.sleep(pause / 20)
    return Lease(database, worker, keeper, granted, host=None)
