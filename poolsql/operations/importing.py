"""Taking over profiles that exist elsewhere: lists of ids as browser products export them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import ARRAY, Text, any_, literal, select

from poolsql.database.engine import Database
from poolsql.database.tables import launchers, pools, profiles
from poolsql.errors import BadInputError, ConflictError, UnknownNameError
from poolsql.leasing import bulk, registry
from poolsql.leasing.audit import record
from poolsql.leasing.checks import checked_name
from poolsql.text import clean_text, did_you_mean

_MOST_SHOWN = 20
"""Lines or ids that one message names; a file in the wrong form has thousands."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a list of ids."""

    added: int
    already_there: int
    """Were in the pool before, and are as they were."""


def read_id_file(path: Path | None) -> list[str]:
    """Read a file with one id a line; blank lines, and ``#`` at the start or after a blank, are skipped.

    Args:
        path: The file; None: standard input.

    Raises:
        BadInputError: It cannot be read, names no id, or lines are wrong or occur twice: all of them by their numbers.
    """
    name = "standard input" if path is None else str(path)
    try:
        data = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise BadInputError(f"{name}: cannot read the file ({error.strerror})") from error
    return read_ids(data, name=name)


def read_ids(data: bytes, *, name: str) -> list[str]:
    """`read_id_file` for what was read already.

    Raises:
        BadInputError: As `read_id_file`.
    """
    try:
        content = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInputError(f"{name}: not a text in UTF-8 (byte {error.start:,}); save it as such") from error
    first_lines: dict[str, int] = {}
    problems: list[str] = []
    for number, line in enumerate(content.split("\n"), start=1):
        key = re.sub(r"(?:^|\s)#.*", "", line).strip()
        if not key:
            continue
        try:
            checked_name(key, "id")
        except BadInputError as error:
            problems.append(f"line {number}: {error}")
            continue
        if key in first_lines:
            problems.append(f"line {number}: {key!r} stands in line {first_lines[key]} already")
        first_lines.setdefault(key, number)
    if problems:
        count = "1 line is" if len(problems) == 1 else f"{len(problems):,} lines are"
        raise BadInputError(f"{name}: {count} wrong: {_some(problems, '; ')}")
    if not first_lines:
        raise BadInputError(f"{name}: names no id; write one a line")
    return list(first_lines)


def import_profiles(
    database: Database,
    ids: Sequence[str],
    *,
    pool: str,
    launcher: str,
    tags: Sequence[str] = (),
    new: bool = False,
    who: str,
    reason: str | None = None,
) -> Imported:
    """Add profiles to a pool by the launcher's ids of them, all or none; audited.

    Ids that the pool has already are left as they are, with their tags and states.

    Args:
        ids: As `read_id_file` gives them.
        new: They are not offered before somebody activates them.

    Raises:
        UnknownNameError: The pool or the launcher does not exist.
        ConflictError: Some of them are in another pool; the message names them.
        BadInputError: A tag cannot be kept.
    """
    pool_id = registry.find_pool(database, pool).id
    with database.transaction() as connection:
        names = {row.name: row.id for row in connection.execute(select(launchers.c.name, launchers.c.id))}
        launcher_id = names.get(clean_text(launcher))
        if launcher_id is None:
            hint = did_you_mean(launcher, names) or f"; known are {', '.join(sorted(names)[:_MOST_SHOWN]) or 'none'}"
            raise UnknownNameError(f"there is no launcher {launcher!r}{hint}")
        added = bulk.add_keys(connection, pool_id=pool_id, launcher_id=launcher_id, keys=ids, tags=tags, new=new)
        # After the insert: whoever adds one of them elsewhere at this moment has been waited for.
        elsewhere = connection.execute(
            select(profiles.c.key, pools.c.name)
            .join(pools, pools.c.id == profiles.c.pool_id)
            .where(
                profiles.c.launcher_id == launcher_id,
                profiles.c.key == any_(literal(list(ids), ARRAY(Text))),
                profiles.c.pool_id != pool_id,
            )
            .order_by(profiles.c.key)
        ).all()
        if elsewhere:
            shown = [f"{row.key} (pool {row.name})" for row in elsewhere]
            raise ConflictError(f"launcher {launcher}: {len(shown):,} ids are in another pool: {_some(shown, ', ')}")
        if added:
            subject = f"{added:,} profiles of launcher {launcher} into pool {pool}"
            record(connection, who=who, action="profile import", subject=subject, reason=reason)
    return Imported(added=added, already_there=len(ids) - added)


def _some(texts: Sequence[str], separator: str) -> str:
    more = f"{separator}and {len(texts) - _MOST_SHOWN:,} more" if len(texts) > _MOST_SHOWN else ""
    return separator.join(texts[:_MOST_SHOWN]) + more
