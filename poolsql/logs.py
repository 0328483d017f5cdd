"""Log records for people or for machines: one line each, ids as fields, no secrets."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from poolsql.redaction import redact
from poolsql.settings import Settings

FIELDS = ("lease", "profile", "worker", "run", "task")
"""Names that a record may carry by ``extra=``; each sink writes those that are there."""


def _ids(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}


class TextFormatter(logging.Formatter):
    """``12:00:01 WARNING leasing.keeper: lease 7 is lost … lease=7``; a traceback follows on lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, redacted."""
        at = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        logger = record.name.removeprefix("poolsql.")
        ids = "".join(f" {name}={value}" for name, value in _ids(record).items())
        message = " ".join(record.getMessage().splitlines())
        text = f"{at:%H:%M:%S} {record.levelname:<7} {logger}: {message}{ids}"
        return redact(f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text)


class JsonFormatter(logging.Formatter):
    """One JSON object a line, with ``at`` in UTC, ``level``, ``logger``, ``message`` and the ids."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; its parts are redacted one by one, since the whole would lose quotes."""
        data: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": redact(record.getMessage()),
            **{name: redact(str(value)) if isinstance(value, str) else value for name, value in _ids(record).items()},
        }
        if record.exc_info:
            data["traceback"] = redact(self.formatException(record.exc_info))
        return json.dumps(data, ensure_ascii=False, default=str)


def configure_logging(settings: Settings, *, stream: TextIO | None = None) -> None:
    """Send the records of poolsql to a stream (default: standard error), in the format that the settings name.

    For programs; a library's user configures logging as they like and gets plain records.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log == "json" else TextFormatter())
    logger = logging.getLogger("poolsql")
    for old in logger.handlers[:]:
        logger.removeHandler(old)
    logger.addHandler(handler)
    logger.setLevel(settings.log_level)
    logger.propagate = False
