"""Keeping secrets out of what is written (I11): every sink passes its text through `redact`."""

from __future__ import annotations

import json
import re
import threading
from urllib.parse import quote, quote_plus

HIDDEN = "[hidden]"

_SHORTEST = 4
"""Characters. A shorter secret would blank out ordinary text all over, and tell by that what it is."""

_known: tuple[str, ...] = ()
"""Secrets in all their spellings, the longest first, so that none hides only a part of another."""
_lock = threading.Lock()

# What looks like a secret wherever it stands. A value ends with its quotes if it has any; without, a header's goes to
# the end of the line, and any other to the next blank or separator.
_QUOTED = r"""\\"(?:(?!\\").)*(?:\\")?|"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?"""
_IS = r"""\\?['"]?\s*+(?:=>|[:=](?!>))\s*+(?!\[hidden)"""
_PATTERNS = [
    # user:password@ in any address; what stands before an @ in an address of the web is a secret even without a colon
    (re.compile(r"(?<=://)[^/\s:@]*:[^/\s]*(?=@)"), HIDDEN),
    (re.compile(r"(?i)\b((?:https?|wss?|socks\w*)://)[^/\s:@]+(?=@)"), rf"\1{HIDDEN}"),
    (
        re.compile(rf"(?i)\b((?:proxy-)?authorization{_IS}|(?:set-)?cookies?2?{_IS})(?:{_QUOTED}|[^\r\n]+)"),
        rf"\1{HIDDEN}",
    ),
    # outside a header only what has a digit or a sign in it, since "basic understanding" is no secret
    (re.compile(r"(?i)\b(bearer|basic)\s+(?=\S*[0-9=._~+/-])[a-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (
        re.compile(
            r"(?i)\b([\w.-]{0,50}?(?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|token|credentials?))"
            rf"({_IS})(?:{_QUOTED}|[^\s'\",;&)\]}}]+)"
        ),
        rf"\1\2{HIDDEN}",
    ),
]


def remember_secret(value: str) -> None:
    """From now on hide this very text wherever `redact` meets it; called when a secret is resolved.

    It is also hidden as it looks inside an address, a JSON text or a Python literal.
    """
    global _known  # noqa: PLW0603 - one set for the process, replaced as a whole so that readers need no lock
    spellings = {value, quote(value, safe=""), quote_plus(value), json.dumps(value)[1:-1], repr(value)[1:-1]}
    spellings |= {json.dumps(value, ensure_ascii=False)[1:-1]}
    worth = {spelling for spelling in spellings if len(spelling) >= _SHORTEST and len(value) >= _SHORTEST}
    with _lock:
        _known = tuple(sorted({*_known, *worth}, key=len, reverse=True))


def redact(text: str) -> str:
    """The text without any remembered secret, and without what looks like one."""
    for value in _known:
        text = text.replace(value, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
