"""Taking over profiles that exist elsewhere: lists of ids as browser products export them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import ARRAY, Text, any_, literal, select

from poolsql.database.engine import Database
from poolsql.database.tables import launchers, pools, profiles
from poolsql.errors import BadInputError, ConflictError
from poolsql.leasing import bulk, registry
from poolsql.leasing.audit import record
from poolsql.leasing.checks import checked_name
from poolsql.lists import read_list, some_of
from poolsql.operations.names import unknown_name
from poolsql.text import clean_text


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a list of ids."""

    added: int
    already_there: int
    """Were in the pool before, and are as they were."""


def read_id_file(path: Path | None) -> list[str]:
    """Read a file with one id a line, as `read_list` does.

    Args:
        path: The file; None: standard input.

    Raises:
        BadInputError: It cannot be read, names no id, or lines are wrong or occur twice: by their numbers.
    """
    first_lines: dict[str, int] = {}

    def checked(key: str, line: int) -> str:
        checked_name(key, "id")
        if key in first_lines:
            raise BadInputError(f"{key!r} stands in line {first_lines[key]} already")
        first_lines[key] = line
        return key

    return read_list(path, checked, wanted="id; write one a line")


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
            raise unknown_name("launcher", launcher, names)
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
            raise ConflictError(f"launcher {launcher}: {len(shown):,} ids are in another pool: {some_of(shown)}")
        if added:
            subject = f"{added:,} profiles of launcher {launcher} into pool {pool}"
            record(connection, who=who, action="profile import", subject=subject, reason=reason)
    return Imported(added=added, already_there=len(ids) - added)
