"""The demo's closing tables, each with nothing in it that a user could not query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from poolsql.database.engine import Database

RESULTS = """
SELECT tasks.url, tasks.state, tasks.outcome, tasks.tries, tasks.result
FROM poolsql.tasks
WHERE tasks.run_id = :run
ORDER BY tasks.state DESC, tasks.id
"""

ATTEMPTS = """
SELECT attempts.outcome, attempts.blames, count(*) AS attempts,
    count(*) FILTER (WHERE attempts.counted) AS counted_as_failure,
    round(avg(extract(epoch FROM attempts.ended_at - attempts.started_at))::numeric, 1) AS held_seconds
FROM poolsql.attempts
GROUP BY attempts.outcome, attempts.blames
ORDER BY attempts DESC
"""

PROFILES = """
SELECT profiles.key AS profile, profiles.state,
    CASE WHEN profiles.available_at IS NULL THEN 'leased'
         WHEN profiles.available_at > clock_timestamp() THEN coalesce(profiles.waits_for, 'cooldown')
         ELSE 'available' END AS now,
    profiles.uses, profiles.consecutive_failures AS failures_in_a_row, profiles.last_outcome
FROM poolsql.profiles
JOIN poolsql.pools ON pools.id = profiles.pool_id
WHERE pools.name = :pool
ORDER BY profiles.key
"""

EXPLAIN = """
SELECT visits.host, visits.outcome, visits.blames, visits.detail, count(*) AS visits,
    count(DISTINCT visits.profile_id) AS profiles
FROM poolsql.visits
WHERE visits.outcome <> 'success'
GROUP BY visits.host, visits.outcome, visits.blames, visits.detail
ORDER BY visits DESC, visits.host
"""

MOST_RESULTS = 14
URL_LENGTH = 32


def show_results(console: Console, database: Database, run_id: int) -> None:
    """What the run has brought: all that did not end well, and the first of the others."""
    rows = _rows(database, RESULTS, run=run_id)
    unusual = [row for row in rows if row.state != "done" or row.tries > 1]
    shown = unusual + [row for row in rows if row not in unusual][: max(0, MOST_RESULTS - len(unusual))]
    table = _table(f"Results (poolsql.tasks): {sum(row.state == 'done' for row in rows)} of {len(rows)} done")
    for heading in ("url", "state", "outcome", "tries"):
        table.add_column(heading, no_wrap=True)
    table.add_column("result", overflow="fold")
    for row in shown:
        result = "" if row.result is None else ", ".join(f"{name}={value}" for name, value in row.result.items())
        table.add_row(_end_of(row.url), row.state, row.outcome or "", str(row.tries), result[:100])
    if len(shown) < len(rows):
        table.add_row(f"… and {len(rows) - len(shown)} more", "done", "", "", "")
    console.print(table)


def show_query(console: Console, database: Database, title: str, query: str, **parameters: Any) -> None:
    """The answer of a query as a table."""
    rows = _rows(database, query, **parameters)
    table = _table(title)
    for heading in rows[0]._fields if rows else ("nothing",):
        table.add_column(heading.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    console.print(table)


def _end_of(url: str) -> str:
    return url if len(url) <= URL_LENGTH else f"…{url[1 - URL_LENGTH :]}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", header_style="bold", expand=False)


def _rows(database: Database, query: str, **parameters: Any) -> Sequence[Any]:
    with database.connect() as connection:
        return connection.execute(text(query), parameters).all()
