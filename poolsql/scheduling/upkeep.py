"""What a daemon puts in order besides: runs that are over, tasks of cancelled runs, processes that have died."""

from __future__ import annotations

import logging

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.launchers.processes import ProcessIdentity, is_alive
from poolsql.leasing.worker import sign_off, signed_on
from poolsql.scraping.tasks import end_runs

log = logging.getLogger(__name__)

CANCEL_TASKS = Statement.load("poolsql.scheduling", "cancel_tasks")
FORGET_STAMPS = Statement.load("poolsql.scheduling", "forget_stamps")


def tidy(database: Database, machine: str) -> None:
    """One round.

    Raises:
        DatabaseError: The database failed; what was done stays done.
    """
    for run_id, state in end_runs(database):
        log.info("run %d has ended: %s", run_id, state, extra={"run": run_id})
    database.run(CANCEL_TASKS, {})
    for worker in signed_on(database, machine):
        if not is_alive(ProcessIdentity(worker.pid, worker.process_started)):
            sign_off(database, worker)
    database.run(FORGET_STAMPS, {})
