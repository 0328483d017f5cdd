"""Log records for people or for machines: one line each, ids as fields, no secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from poolsql.redaction import redact
from poolsql.settings import Settings
from poolsql.text import clean_text

FIELDS = ("lease", "profile", "worker", "run", "task")
"""Names that a record may carry by ``extra=``; each sink writes those that are there."""

_LONGEST_MESSAGE = 10_000
_LONGEST_TRACE = 50_000

# A page can put anything into a message; on a terminal it could move the cursor or fake a line.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def one_line(text: str) -> str:
    """Text for a terminal: without line breaks and without characters that a terminal would obey."""
    return _CONTROL.sub(" ", clean_text(text)).strip()


class TextFormatter(logging.Formatter):
    """``12:00:01 WARNING leasing.keeper: lease 7 is lost … lease=7``; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, redacted."""
        at = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        logger = record.name.removeprefix("poolsql.")
        ids = "".join(f" {name}={one_line(str(value))}" for name, value in _ids(record).items())
        line = f"{at:%H:%M:%S} {record.levelname:<7} {logger}: {one_line(_message(record))}{ids}"
        trace = [_CONTROL.sub(" ", line) for line in _trace(record).splitlines()]
        return "\n".join([line, *trace])


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with ``at`` in UTC, ``level``, ``logger``, ``message`` and the ids."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of ASCII; its parts are redacted one by one, since the whole would lose quotes."""
        data: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": clean_text(_message(record)),
            **_ids(record),
        }
        trace = _trace(record)
        if trace:
            data["traceback"] = trace
        return json.dumps(data)


class _Sink(logging.StreamHandler[TextIO]):
    """The handler that `configure_logging` installs, so that it finds it again."""


def configure_logging(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Send all log records to a stream (default: standard error), in the format that the settings name.

    Those of poolsql from the level that the settings name, those of other libraries from WARNING: what they write
    has to be redacted as well. For programs; a library's user configures logging as they like and gets plain records.
    """
    handler = _Sink(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log == "json" else TextFormatter())
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, _Sink)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger("poolsql").setLevel(settings.log_level)


def _message(record: logging.LogRecord) -> str:
    try:
        message = record.getMessage()
    except Exception:  # noqa: BLE001 - logging itself would print the arguments, with what is secret in them
        message = f"{record.msg} {record.args!r}"
    return _redacted(message, limit=_LONGEST_MESSAGE)


def _trace(record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info and record.exc_info[0] is not None:
        parts.append(logging.Formatter().formatException(record.exc_info))
    if record.stack_info:
        parts.append(record.stack_info)
    return clean_text(_redacted("\n".join(parts), limit=_LONGEST_TRACE))


def _redacted(text: str, *, limit: int) -> str:
    """The beginning of a text, redacted. Cut twice, so that no secret is cut into something that is not recognised."""
    beginning = redact(text[: 2 * limit])
    return beginning if len(text) <= limit else f"{beginning[:limit]}… [cut: {len(text):,} characters]"


def _ids(record: logging.LogRecord) -> dict[str, Any]:
    found = {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}
    return {name: value if isinstance(value, int) else redact(str(value)) for name, value in found.items()}
