"""Checks of what callers declare, before anything of it reaches the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from poolsql.errors import BadInputError
from poolsql.settings import is_secret_reference
from poolsql.text import clean_text

LONGEST_NAME = 500
"""Characters of a name, task, host, tag or key."""


def checked_name(text: str, kind: str) -> str:
    """A name that Postgres can keep and people can see.

    Raises:
        BadInputError: It is blank, too long, or holds NUL or half a surrogate pair.
    """
    shown = clean_text(text)  # differs from whatever is no text at all, too
    if shown != text or not text.strip() or len(text) > LONGEST_NAME:
        raise BadInputError(
            f"{kind} {shown[:50]!r}: must be a text of 1 to {LONGEST_NAME} characters, not only blanks, without NUL"
        )
    return text


def checked_names(texts: Sequence[str], kind: str) -> tuple[str, ...]:
    """Several names; one text is refused, since its letters would be taken for names.

    Raises:
        BadInputError: As `checked_name`.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        raise BadInputError(f"{kind}s: {texts!r} is {'one text' if texts else 'no list'}; write a list of {kind}s")
    return tuple(checked_name(text, kind) for text in texts)


def checked_id(number: object, kind: str) -> int:
    """A number that a bigint column can hold.

    Raises:
        BadInputError: It is none.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**63:
        raise BadInputError(f"{kind}: {number!r} is no id; ids are whole numbers from 1")
    return number


def checked_number(number: object, kind: str, *, most: int) -> int:
    """A count from 1 to `most`.

    Raises:
        BadInputError: It is none.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        raise BadInputError(f"{kind}: {number!r} is no whole number from 1 to {most}")
    return number


def checked_proxy_server(server: str, *, proxy: str) -> str:
    """The address of a proxy, without credentials (I11).

    Raises:
        BadInputError: It has another form; the message never repeats it, since it may hold a password.
    """
    try:
        parts = urlsplit(checked_name(server, "server"))
        complete = bool(parts.scheme and parts.hostname and parts.port and parts.path in {"", "/"} and not parts.query)
    except (BadInputError, ValueError):
        complete = False
    if "@" in str(server):
        raise BadInputError(
            f"proxy {proxy!r}: its server holds credentials; give them as username= and as secret=, the latter as "
            "env:NAME or file:/path"
        )
    if not complete:
        raise BadInputError(f"proxy {proxy!r}: its server must have the form scheme://host:port")
    return server


def checked_secret(reference: str, *, proxy: str) -> str:
    """A reference to a secret, never the secret itself; it is resolved when it is needed.

    Raises:
        BadInputError: It has another form; the message never repeats it.
    """
    if clean_text(reference) != reference or not is_secret_reference(reference):
        raise BadInputError(
            f"proxy {proxy!r}: its secret is given by reference, as env:NAME or file:/path, never as the value"
        )
    return reference
