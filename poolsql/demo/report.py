"""The demo's closing tables, each with nothing in it that a user could not query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table
from sqlalchemy import text

from poolsql.database.engine import Database
from poolsql.demo.names import Names

RESULTS = """
SELECT tasks.url, tasks.state, tasks.outcome, tasks.tries, tasks.result, tasks.detail
FROM poolsql.tasks
WHERE tasks.run_id = :run
ORDER BY tasks.state DESC, tasks.id
"""

ATTEMPTS = """
SELECT attempts.outcome, attempts.blames, count(*) AS attempts,
    count(*) FILTER (WHERE attempts.counted) AS counted_as_failure,
    round(avg(extract(epoch FROM attempts.ended_at - attempts.started_at))::numeric, 1) AS held_seconds
FROM poolsql.attempts
WHERE attempts.pool_id = :pool
GROUP BY attempts.outcome, attempts.blames
ORDER BY attempts DESC, attempts.outcome
"""

PROFILES = """
SELECT profiles.key AS profile, profiles.state,
    CASE WHEN profiles.available_at IS NULL THEN 'leased'
         WHEN profiles.available_at > clock_timestamp() THEN coalesce(profiles.waits_for, 'cooldown')
         ELSE 'available' END AS now,
    profiles.uses, profiles.consecutive_failures AS failures_in_a_row, profiles.last_outcome
FROM poolsql.profiles
WHERE profiles.pool_id = :pool
ORDER BY profiles.key
"""

EXPLAIN = """
SELECT visits.host, visits.outcome, visits.blames, visits.detail, count(*) AS visits,
    count(DISTINCT visits.profile_id) AS profiles
FROM poolsql.visits
WHERE visits.pool_id = :pool
  AND visits.outcome <> 'success'
GROUP BY visits.host, visits.outcome, visits.blames, visits.detail
ORDER BY visits DESC, visits.host
"""

STORY = """
WITH lost AS (
    SELECT attempts.*, profiles.key, workers.pid
    FROM poolsql.attempts
    JOIN poolsql.profiles ON profiles.id = attempts.profile_id
    JOIN poolsql.workers ON workers.id = attempts.worker_id
    WHERE attempts.lease_id = :lease
),
retried AS (
    SELECT visits.ended_at, visits.lease_id, visits.outcome, profiles.key
    FROM lost
    JOIN poolsql.tasks ON tasks.url = lost.task AND tasks.run_id = :run
    JOIN poolsql.visits ON visits.task_id = tasks.id AND visits.lease_id > lost.lease_id
    JOIN poolsql.profiles ON profiles.id = visits.profile_id
    ORDER BY visits.id
    LIMIT 1
),
used_again AS (
    SELECT attempts.lease_id, attempts.started_at, attempts.outcome
    FROM lost
    JOIN poolsql.attempts ON attempts.profile_id = lost.profile_id AND attempts.lease_id > lost.lease_id
    ORDER BY attempts.lease_id
    LIMIT 1
)
SELECT lost.started_at AS at, 'leased: ' || lost.key || ' to process ' || lost.pid AS what FROM lost
UNION ALL
SELECT lost.ended_at, 'taken back as ' || lost.outcome || ', blamed on the ' || lost.blames
    || coalesce('; its browser was proven stopped by ' || lost.stop_rung, '; its browser had not started')
FROM lost
UNION ALL
SELECT retried.ended_at, 'its page was tried again in lease ' || retried.lease_id || ' on ' || retried.key || ': '
    || retried.outcome
FROM retried
UNION ALL
SELECT lost.available_at, lost.key || ' is offered again' FROM lost
UNION ALL
SELECT used_again.started_at, lost.key || ' is leased again: lease ' || used_again.lease_id || ', '
    || used_again.outcome
FROM lost, used_again
"""

_WHOLE = {"host", "outcome", "blames"}
"""Columns whose words are not broken on a narrow terminal."""

MOST_RESULTS = 14


@dataclass(frozen=True, slots=True)
class Killed:
    """What the kill -9 hit."""

    lease_id: int
    url: str
    at: Any
    """By the database clock."""
    pid: int


def show_results(console: Console, database: Database, run_id: int, names: Names) -> None:
    """What the run has brought: all that did not end well or at once, and the first of the others."""
    rows = _rows(database, RESULTS, run=run_id)
    unusual = [row for row in rows if row.state != "done" or row.tries > 1]
    shown = (unusual + [row for row in rows if row not in unusual])[:MOST_RESULTS]
    table = _table(f"Results (poolsql.tasks): {sum(row.state == 'done' for row in rows)} of {len(rows)} done")
    table.add_column("page", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("tries", justify="right")
    table.add_column("result", overflow="fold")
    for row in shown:
        # A failed task may hold more than it says: what is worth reading is why.
        found = row.detail or "" if row.result is None else " · ".join(str(value) for value in row.result.values())
        outcome = row.outcome or row.state if row.state != "pending" else f"{row.outcome or 'not tried'}, waiting"
        style = "" if row.state == "done" else "yellow"
        table.add_row(escape(names.page(row.url)), outcome, str(row.tries), escape(found[:200]), style=style)
    if len(shown) < len(rows):
        table.add_row(f"… and {len(rows) - len(shown)} more", "", "", "")
    console.print(table)


def show_story(console: Console, database: Database, run_id: int, killed: Killed, names: Names) -> None:
    """What became of the lease whose worker was killed."""
    steps = [(row.at, row.what) for row in _rows(database, STORY, run=run_id, lease=killed.lease_id)]
    steps.append((killed.at, f"kill -9 of process {killed.pid}, in the middle of {names.page(killed.url)}"))
    steps.sort(key=lambda step: step[0])
    table = _table(f"What became of lease {killed.lease_id}, whose worker was killed (poolsql.attempts)")
    table.add_column("seconds", justify="right")
    table.add_column("what", overflow="fold")
    for at, what in steps:
        table.add_row(f"{(at - killed.at).total_seconds():+.1f}", escape(what))
    console.print(table)


def show_query(console: Console, database: Database, title: str, query: str, **parameters: Any) -> None:
    """The answer of a query as a table."""
    rows = _rows(database, query, **parameters)
    table = _table(title)
    for heading in rows[0]._fields if rows else ("nothing",):
        numbers = bool(rows) and all(not isinstance(getattr(row, heading), str | None) for row in rows)
        justify: JustifyMethod = "right" if numbers else "left"
        table.add_column(heading.replace("_", " "), overflow="fold", justify=justify, no_wrap=heading in _WHOLE)
    for row in rows:
        table.add_row(*("" if value is None else escape(str(value)) for value in row))
    console.print(table)


def with_values(query: str, **values: int) -> str:
    """A query as one can paste it into psql."""
    for name, value in values.items():
        query = query.replace(f":{name}", str(value))
    return query.strip()


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", header_style="bold", expand=False)


def _rows(database: Database, query: str, **parameters: Any) -> Sequence[Any]:
    with database.connect() as connection:
        return connection.execute(text(query), parameters).all()
