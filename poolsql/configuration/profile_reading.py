"""Reading the tables ``[[profiles]]``: one profile by its ``id``, or many that are alike by their ``ids``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from poolsql.configuration.entries import Mention, ProfileEntry
from poolsql.configuration.locations import Path
from poolsql.configuration.problems import Problems
from poolsql.configuration.tables import Table

PROFILE_KEYS = ("pool", "launcher", "id", "ids", "proxy", "tags", "seed", "state")
"""Everything else is an option, as the launcher knows them."""

STATES = ("active", "new")


def read_profiles(tables: Any, problems: Problems, mentions: list[Mention]) -> list[ProfileEntry]:
    """Read the profiles; those that occur twice are noted.

    Args:
        tables: What the document has below ``profiles``.
        problems: Where what is wrong is noted.
        mentions: Where the pools, launchers and proxies that they name are noted.
    """
    if not isinstance(tables, list):
        problems.add(("profiles",), "write each profile below a line [[profiles]], in two pairs of brackets")
        return []
    entries: list[ProfileEntry] = []
    lines: dict[tuple[str, str], int] = {}
    for number, values in enumerate(tables):
        if not isinstance(values, Mapping):
            problems.add(("profiles", number), "is no table; write each profile below a line [[profiles]]")
            continue
        for entry in _entries(Table(values, ("profiles", number), problems), mentions):
            line = problems.line(entry.path)
            if entry.identity in lines:
                problems.add(
                    entry.path,
                    f"launcher {entry.launcher!r} has a profile {entry.key!r} in line {lines[entry.identity]} already",
                )
                continue
            lines[entry.identity] = line
            entries.append(entry)
    return entries


def _entries(table: Table, mentions: list[Mention]) -> Iterator[ProfileEntry]:
    pool, launcher = table.required("pool", '"shop"'), table.required("launcher", '"chromium"')
    keys = _keys(table)
    proxy, seed, tags = table.text("proxy"), table.text("seed"), table.texts("tags")
    names = {"pool": pool, "launcher": launcher, "proxy": proxy}
    mentions += [Mention(table.path, kind, name) for kind, name in names.items() if name]
    state = table.choice("state", STATES, default="active")
    if "ids" in table.values and seed is not None:
        table.problem("seed", "belongs to one profile; write a table [[profiles]] for each id that has a seed")
    if not table.good:
        return
    for path, key in keys:
        yield ProfileEntry(
            key=key,
            path=path,
            table=table.path,
            pool=pool,
            launcher=launcher,
            proxy=proxy,
            tags=sorted(set(tags or ())),
            seed=seed,
            new=state == "new",
            options=table.others(PROFILE_KEYS),
        )


def _keys(table: Table) -> list[tuple[Path, str]]:
    if ("id" in table.values) == ("ids" in table.values):
        table.problem(None, 'write either id = "…", the launcher\'s own name of the profile, or ids = ["…", "…"]')
        return []
    if "id" in table.values:
        key = table.text("id")
        return [((*table.path, "id"), key)] if key is not None else []
    keys = table.texts("ids") or ()
    if not keys and table.good:
        table.problem("ids", "names no profile")
    return [((*table.path, "ids", number), key) for number, key in enumerate(keys)]
