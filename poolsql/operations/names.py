"""Finding what an operator names; what does not exist is answered with what is spelt alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select

from poolsql.database.tables import launchers, pools, profiles
from poolsql.errors import BadInputError, UnknownNameError
from poolsql.text import clean_text, did_you_mean

MOST_NAMED = 20
"""Known names that a message lists at most."""

_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProfileName:
    """A profile that was found."""

    id: int
    key: str
    launcher: str
    pool: str
    pool_id: int

    def __str__(self) -> str:
        return f"{self.launcher}/{self.key}"


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that does not exist, with the one that was meant, or those that there are."""
    names = sorted(known)
    hint = did_you_mean(name, names)
    if not hint:
        hint = f"; known are {', '.join(names[:MOST_NAMED])}" if names else "; none is defined yet"
        hint += f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return UnknownNameError(f"there is no {kind} {clean_text(name)!r}{hint}")


def find_pool_id(connection: Connection, name: str) -> int:
    """The id of a pool.

    Raises:
        UnknownNameError: There is no such pool.
    """
    found = connection.execute(select(pools.c.id).where(pools.c.name == clean_text(name))).scalar()
    if found is None:
        raise unknown_name("pool", name, connection.execute(select(pools.c.name)).scalars())
    return int(found)


def find_profile(connection: Connection, name: str) -> ProfileName:
    """A profile by its id, its key, or ``launcher/key``.

    Raises:
        UnknownNameError: There is no such profile.
        BadInputError: The name fits several; the message lists them.
    """
    name = clean_text(name)
    number = as_id(name)
    fits = [profiles.c.key == name, launchers.c.name + "/" + profiles.c.key == name]
    if number is not None:
        fits.append(profiles.c.id == number)
    query = (
        select(profiles.c.id, profiles.c.key, launchers.c.name, pools.c.name, pools.c.id)
        .join(launchers, launchers.c.id == profiles.c.launcher_id)
        .join(pools, pools.c.id == profiles.c.pool_id)
        .order_by(profiles.c.id)
    )
    found = [ProfileName(*row) for row in connection.execute(query.where(or_(*fits)).limit(MOST_NAMED))]
    if not found:
        raise unknown_name("profile", name, _spelt_alike(connection, name))
    if len(found) > 1:
        raise BadInputError(
            f"profile {name!r} could be any of {', '.join(f'{one} (id {one.id})' for one in found)}; name one of them "
            "by id or as launcher/key"
        )
    return found[0]


def as_id(text: str) -> int | None:
    """The number that a text is, if it can be the id of a row."""
    if text.isascii() and text.isdigit() and 0 < int(text) <= _LARGEST_ID:
        return int(text)
    return None


def _spelt_alike(connection: Connection, name: str) -> Sequence[str]:
    # The likely ones: a pool may have a hundred thousand.
    keys = select(profiles.c.key).where(profiles.c.key.like(_first_letters(name) + "%", escape="\\"))
    return list(connection.execute(keys.order_by(profiles.c.key).limit(1000)).scalars()) or list(
        connection.execute(select(profiles.c.key).order_by(profiles.c.key).limit(1000)).scalars()
    )


def _first_letters(name: str) -> str:
    return name[:2].replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
