"""Keeping the tables small: what nobody needs is forgotten, and hot tables are vacuumed once many rows are dead.

The checkout rate stays flat only if dead rows are cleared every few seconds once there are many; autovacuum looks once
a minute, and its pause between two looks is no setting of a table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import psycopg
from sqlalchemy import Connection, text

from poolsql.database.engine import Database
from poolsql.database.locks import Lock, try_session_lock, try_transaction_lock, unlock_session
from poolsql.database.prepared import Row
from poolsql.database.sessions import keeps_its_session
from poolsql.database.statements import Parameters, Statement

log = logging.getLogger(__name__)

FORGET = Statement.load("poolsql.scheduling", "forget")
FORGET_HISTORY = Statement.load("poolsql.scheduling", "forget_history")
MAY_FORGET = Statement(
    "may_forget",
    "SELECT bool_and(has_table_privilege(name, 'DELETE')) AS may "
    "FROM unnest(ARRAY['poolsql.misses', 'poolsql.refused_reports']) AS name",
)
DEAD_ROWS = Statement.load("poolsql.scheduling", "dead_rows")

ENOUGH_DEAD = 1000
"""Dead rows of a table that are worth a vacuum; a table that has fewer is left to autovacuum."""

BATCH = 1000
"""Rows of each kind that one round forgets, so that none takes long."""

KEEP = {"keep": timedelta(days=30), "keep_keys": timedelta(days=90), "batch": BATCH}
"""For how long misses, refused reports and workers that have ended are kept; and sticky keys since their last use."""


@dataclass(slots=True)
class Housekeeping:
    """Forgets, and vacuums the hot tables of one fleet; of any number of daemons one at a time does."""

    database: Database
    """Best without a connection pooler: then the vacuums run under the lock too."""
    enough_dead: int = ENOUGH_DEAD
    told: set[str] = field(default_factory=set)
    """What was said already about why it can't."""

    def run_once(self) -> list[str]:
        """Forget a batch, and vacuum what has enough dead rows; returns the tables that were vacuumed.

        Raises:
            DatabaseError: The database failed.
        """
        with self.database.connect() as connection:
            if keeps_its_session(cast("psycopg.Connection[Any]", connection.connection.driver_connection)):
                return self._under_session_lock(connection)
        # Through a pooler such a lock would be anybody's. That of a transaction is ours, but no vacuum runs in one: the
        # vacuums go without, and each skips a table that somebody else is at.
        with self.database.transaction() as connection:
            if not try_transaction_lock(connection, Lock.HOUSEKEEPING):
                return []  # another daemon is at it
            self._forget(lambda statement, given: connection.exec_driver_sql(statement.query, dict(given)).all())
        with self.database.connect() as connection:
            return self._vacuum_what_is_due(connection)

    def _under_session_lock(self, connection: Connection) -> list[str]:
        if not try_session_lock(connection, Lock.HOUSEKEEPING):
            return []  # another daemon is at it
        try:
            self._forget(self.database.run)
            done = self._vacuum_what_is_due(connection)
        except BaseException as error:
            connection.invalidate(error)  # the lock ends with its connection
            raise
        unlock_session(connection, Lock.HOUSEKEEPING)
        return done

    def _vacuum_what_is_due(self, connection: Connection) -> list[str]:
        done = []
        for row in self.database.run(DEAD_ROWS, {"enough": self.enough_dead}):
            if row.may:
                _vacuum(connection, row.name)
                done.append(row.name)
            else:
                self._tell(
                    f"this user may not vacuum poolsql.{row.name}; let the tables' owner run the daemon, or "
                    "(PostgreSQL 17 and newer) run: poolsql db grant ROLE"
                )
        return done

    def _forget(self, run: Callable[[Statement, Parameters], Sequence[Row]]) -> None:
        run(FORGET, KEEP)
        (row,) = run(MAY_FORGET, {})
        if row.may:
            run(FORGET_HISTORY, KEEP)
        else:
            self._tell("this user may not delete old misses and refused reports; run: poolsql db grant ROLE")

    def _tell(self, reason: str) -> None:
        if reason not in self.told:
            self.told.add(reason)
            log.warning("upkeep is off, so tables grow and the checkout rate sinks: %s", reason)


def _vacuum(connection: Connection, table: str) -> None:
    quoted = connection.dialect.identifier_preparer.quote(table)
    # Not truncated: that would lock out everybody for the pages that the next release needs again.
    connection.execute(text(f"VACUUM (SKIP_LOCKED, TRUNCATE false) poolsql.{quoted}"))
    log.debug("vacuumed poolsql.%s", table)
