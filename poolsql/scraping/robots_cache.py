"""robots.txt of each origin: asked for once by the fleet, kept in the database for everybody."""

from __future__ import annotations

from datetime import timedelta

from poolsql.database.engine import Database
from poolsql.database.statements import Statement
from poolsql.scraping.robots import RobotsAccess, RobotsRules
from poolsql.scraping.robots_fetch import fetch_robots

FIND_ROBOTS = Statement.load("poolsql.scraping", "find_robots")
KEEP_ROBOTS = Statement.load("poolsql.scraping", "keep_robots")

KEPT_FOR = timedelta(hours=24)
"""RFC 9309, section 2.4: not longer than a day."""

ASKED_AGAIN_AFTER = timedelta(minutes=5)
"""How soon an origin is asked again that gave no usable answer; until then nothing of it is loaded."""

FETCH_SECONDS = timedelta(seconds=15)


def robots_of(database: Database, origin: str, *, agent: str) -> RobotsRules:
    """The rules of an origin for our agent, from the database, or asked for now.

    This may take up to `FETCH_SECONDS`; no transaction is open meanwhile (I7).
    """
    rows = database.run(FIND_ROBOTS, {"origin": origin, "agent": agent})
    if rows:
        return RobotsRules.of_answer(rows[0].status, rows[0].body or "", agent=agent)
    answer = fetch_robots(origin, agent=agent, timeout=FETCH_SECONDS)
    rules = answer.rules(agent=agent)
    seconds = KEPT_FOR
    if rules.access is RobotsAccess.DISALLOW_ALL:
        seconds = max(ASKED_AGAIN_AFTER, min(answer.retry_after or ASKED_AGAIN_AFTER, KEPT_FOR))
    kept = {"origin": origin, "agent": agent, "status": answer.status, "body": answer.text}
    database.run(KEEP_ROBOTS, {**kept, "seconds": seconds.total_seconds()})
    return rules
