"""What a site's robots.txt allows (RFC 9309). Fetching it is `robots_fetch`'s matter, keeping it the caller's."""

from __future__ import annotations

import codecs
import re
from datetime import timedelta
from enum import StrEnum
from typing import Self

from protego import Protego

MAX_ROBOTS_BYTES = 500 * 1024
"""RFC 9309 asks for at least this much to be read; the rest is ignored."""

_LONGEST_DELAY = timedelta(days=365)

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# Protego takes these spellings too.
_USER_AGENT_LINE = re.compile(r"\s*user(?:-|\s+)?agent\s*(?::|\s)(?P<value>[^#]*)", re.IGNORECASE)
_PRODUCT_TOKEN = re.compile(r"[A-Za-z0-9_-]+")
# Stands for every robot that is not us; holds a character that no product token has.
_SOMEBODY_ELSE = "somebody!else"


class RobotsAccess(StrEnum):
    """What the answer to the request for robots.txt means."""

    RULES = "rules"
    """There is a file; its rules decide."""
    ALLOW_ALL = "allow_all"
    """There is none (4xx, more than five redirects): everything is allowed."""
    DISALLOW_ALL = "disallow_all"
    """It could not be had (5xx, 429, no answer): nothing is allowed until a later try succeeds."""


class RobotsRules:
    """What one origin allows one robot.

    Attributes:
        access: What the answer means; with `RobotsAccess.DISALLOW_ALL` robots.txt should be asked for again later.
        delay: The wait between two requests that the site asks for (``Crawl-delay``, no part of the RFC but widely
            used); None when it names none.
    """

    __slots__ = ("_agent", "_parsed", "access", "delay")

    def __init__(self, access: RobotsAccess, text: str, *, agent: str) -> None:
        """Read rules.

        Args:
            access: What the answer means; `text` matters only with `RobotsAccess.RULES`.
            text: The file.
            agent: Our product token; groups for it win over the group for ``*``.
        """
        self.access = access
        self._agent = agent.lower()
        self._parsed = Protego.parse(_simplified(text, self._agent) if access is RobotsAccess.RULES else "")
        seconds = self._parsed.crawl_delay(self._agent)
        self.delay = None if seconds is None else timedelta(seconds=min(seconds, _LONGEST_DELAY.total_seconds()))

    @classmethod
    def of_answer(cls, status: int | None, text: str, *, agent: str) -> Self:
        """The rules that an answer means.

        Args:
            status: The last status after redirects; None when no answer came.
            text: The body of a 2xx; ignored otherwise.
            agent: Our product token.
        """
        return cls(access_of_status(status), text, agent=agent)

    def allows(self, url: str) -> bool:
        """Whether an address of this origin may be loaded. The address must have passed `targets.parse_target`."""
        match self.access:
            case RobotsAccess.ALLOW_ALL:
                return True
            case RobotsAccess.DISALLOW_ALL:
                return False
            case RobotsAccess.RULES:
                return self._parsed.can_fetch(url, self._agent)


def access_of_status(status: int | None) -> RobotsAccess:
    """What a status of robots.txt means (RFC 9309, section 2.3.1); None stands for no answer at all.

    429 is the one 4xx that forbids: the RFC only permits to go on there, and a site that limits us has not invited us.
    A 3xx that is left over after five redirects counts as "there is none", as the RFC permits.
    """
    if status is None or status == 429 or status >= 500:
        return RobotsAccess.DISALLOW_ALL
    if 200 <= status < 300:
        return RobotsAccess.RULES
    return RobotsAccess.ALLOW_ALL


def decode_robots(body: bytes) -> str:
    """The text of a robots.txt of at most `MAX_ROBOTS_BYTES`; what is longer is cut after the last whole line.

    A byte order mark names the encoding; otherwise it is UTF-8, and Windows-1252 where it is not.
    """
    kept = body[:MAX_ROBOTS_BYTES]
    for mark, encoding in _BYTE_ORDER_MARKS:
        if kept.startswith(mark):
            text = kept[len(mark) :].decode(encoding, "replace")
            break
    else:
        text = _decode_unmarked(kept)
    if len(body) > MAX_ROBOTS_BYTES:
        # Half a line is another rule: "Allow: /" is left of "Allow: /shop".
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return text.replace("\0", "\ufffd")


def _decode_unmarked(body: bytes) -> str:
    try:
        # Incremental, because the cut may have split a character, which is no sign of another encoding.
        return codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _simplified(text: str, agent: str) -> str:
    """The same rules with every group named as ours, as everybody's (``*``), or as somebody else's.

    Protego would take a group "pool" for "poolsql" and would not take "poolsql/1.0" for it; the RFC goes by whole
    product tokens. It would also keep a copy of each rule for each robot that a group names: a file of 20,000
    names and 10,000 rules would take all memory.
    """
    lines = []
    # Split as Protego splits, or a line could hide from one of the two.
    for line in text.splitlines():
        found = _USER_AGENT_LINE.match(line)
        if found is None:
            lines.append(line)
            continue
        value = found["value"].strip()
        lines.append(f"User-agent: {value if value == '*' else _whose(value, agent)}")
    return "\n".join(lines)


def _whose(value: str, agent: str) -> str:
    # Stars in names are no part of the RFC but mean "any robot of that name".
    token = _PRODUCT_TOKEN.match(value.replace("*", ""))
    return agent if token is not None and token[0].lower() == agent else _SOMEBODY_ELSE
