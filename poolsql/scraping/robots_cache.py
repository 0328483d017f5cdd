"""robots.txt of each origin: asked for once, kept in the database for everybody."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import timedelta

from poolsql.clocks import elapsed_clock
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

REMEMBERED_FOR = 60.0
"""Seconds for which a process does not ask the database again: reading half a megabyte of rules takes a while."""

_ORIGINS = 200
"""How many origins a process remembers, the latest: rules can take half a megabyte each."""


@dataclass(frozen=True, slots=True)
class KnownRobots:
    """What is known of an origin's robots.txt."""

    rules: RobotsRules
    seconds_left: float
    """Until the origin is asked again."""
    answer: str
    """What came back, in words: worth telling when nothing is allowed for the lack of a usable answer."""


@dataclass(slots=True)
class _Entry:
    lock: threading.Lock = field(default_factory=threading.Lock)
    known: KnownRobots | None = None
    asked_at: float = 0.0


class RobotsCache:
    """The rules of origins for our agent. Safe to use from several threads: an origin is asked by one of them."""

    def __init__(self, database: Database, *, agent: str) -> None:
        self._database = database
        self._agent = agent
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, origin: str) -> KnownRobots:
        """The rules of an origin: remembered, from the database, or asked for now.

        This may take up to `FETCH_SECONDS`; no transaction is open meanwhile (I7).
        """
        entry = self._entry(origin)
        with entry.lock:
            age = elapsed_clock() - entry.asked_at
            if entry.known is None or age >= min(REMEMBERED_FOR, entry.known.seconds_left):
                entry.known, age = self._find(origin) or self._ask(origin), 0.0
                entry.asked_at = elapsed_clock()
            return replace(entry.known, seconds_left=max(0.0, entry.known.seconds_left - age))

    def _entry(self, origin: str) -> _Entry:
        with self._lock:
            entry = self._entries.setdefault(origin, _Entry())
            self._entries.move_to_end(origin)
            if len(self._entries) > _ORIGINS:
                self._entries.popitem(last=False)
            return entry

    def _find(self, origin: str) -> KnownRobots | None:
        rows = self._database.run(FIND_ROBOTS, {"origin": origin, "agent": self._agent})
        if not rows:
            return None
        rules = RobotsRules.of_answer(rows[0].status, rows[0].body or "", agent=self._agent)
        return KnownRobots(rules, rows[0].seconds_left, _in_words(rows[0].status))

    def _ask(self, origin: str) -> KnownRobots:
        answer = fetch_robots(origin, agent=self._agent, timeout=FETCH_SECONDS)
        rules = answer.rules(agent=self._agent)
        kept_for = KEPT_FOR
        if rules.access is RobotsAccess.DISALLOW_ALL:
            kept_for = max(ASKED_AGAIN_AFTER, min(answer.retry_after or ASKED_AGAIN_AFTER, KEPT_FOR))
        seconds = kept_for.total_seconds()
        kept = {"origin": origin, "agent": self._agent, "status": answer.status, "body": answer.text}
        self._database.run(KEEP_ROBOTS, {**kept, "seconds": seconds})
        return KnownRobots(rules, seconds, answer.detail if answer.status is None else _in_words(answer.status))


def _in_words(status: int | None) -> str:
    return "no answer came" if status is None else f"the answer was HTTP {status}"
