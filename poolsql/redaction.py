"""Keeping secrets out of what is written (I11): every sink passes its text through `redact`."""

from __future__ import annotations

import re
import threading

HIDDEN = "[hidden]"

_SHORTEST = 4
"""Characters. A shorter secret would blank out ordinary text all over, and tell by that what it is."""

_known: set[str] = set()
_lock = threading.Lock()

# What looks like a secret wherever it stands: user:password@ in an address, an Authorization value, a cookie header,
# and key=value or "key": "value" with a telling key.
_PATTERNS = [
    (re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]*(?=@)"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}"), rf"\1 {HIDDEN}"),
    (re.compile(r"(?i)\b((?:set-)?cookie\s*[:=]\s*)[^\r\n]+"), rf"\1{HIDDEN}"),
    (
        re.compile(
            r"(?i)\b(password|passwd|pwd|secret|api_?key|token|authorization)(['\"]?\s*[:=]\s*['\"]?)[^\s'\",;&]+"
        ),
        rf"\1\2{HIDDEN}",
    ),
]


def remember_secret(value: str) -> None:
    """From now on hide this very text wherever `redact` meets it; called when a secret is resolved."""
    if len(value) >= _SHORTEST:
        with _lock:
            _known.add(value)


def redact(text: str) -> str:
    """The text without any remembered secret, and without what looks like one."""
    with _lock:
        known = sorted(_known, key=len, reverse=True)
    for value in known:
        text = text.replace(value, HIDDEN)
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text
