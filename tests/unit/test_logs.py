from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from poolsql import redaction
from poolsql.logs import JsonFormatter, TextFormatter, configure_logging
from poolsql.redaction import remember_secret
from poolsql.settings import load_settings

log = logging.getLogger("poolsql.leasing.keeper")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., io.StringIO]]:
    """Configures logging as a program would, and shows what is written; undone at the end."""
    root, ours = logging.getLogger(), logging.getLogger("poolsql")
    handlers, level = root.handlers[:], ours.level
    monkeypatch.setattr(redaction, "_known", ())

    def configure(**settings: Any) -> io.StringIO:
        # Not pytest's own handlers: half a surrogate in what they catch ends a worker of pytest-xdist.
        for handler in pytests_own(root):
            root.removeHandler(handler)
        stream = io.StringIO()
        configure_logging(load_settings(**settings), stream=stream)
        return stream

    yield configure
    root.handlers[:] = handlers
    ours.setLevel(level)


def pytests_own(root: logging.Logger) -> list[logging.Handler]:
    return [handler for handler in root.handlers if type(handler).__module__.startswith("_pytest.")]


def only_line(stream: io.StringIO) -> str:
    text = stream.getvalue()
    assert text.endswith("\n")
    assert text.count("\n") == 1
    return text[:-1]


def only_record(stream: io.StringIO) -> dict[str, Any]:
    line = only_line(stream)
    assert line.isascii()
    record: dict[str, Any] = json.loads(line)
    return record


def fail(message: str) -> None:
    raise ValueError(message)


def test_text_is_one_line_a_record_with_the_ids_as_fields(written: Callable[..., io.StringIO]) -> None:
    stream = written()
    log.warning("lease %d is lost: %s", 7, "it expired", extra={"lease": 7, "profile": "p0", "other": "unseen"})
    line = only_line(stream)
    assert line[8:] == " WARNING leasing.keeper: lease 7 is lost: it expired lease=7 profile=p0"


@pytest.mark.parametrize(
    "nasty", ["a\nb", "a\r\nb", "a\x1b[2Jb", "a\u2028b", "a\x00b", "a\x85b", "a\ud800b", "a\x9b2Jb"]
)
def test_no_message_breaks_its_line_or_steers_the_terminal(written: Callable[..., io.StringIO], nasty: str) -> None:
    stream = written()
    log.info("page said %s", nasty, extra={"profile": nasty})
    line = only_line(stream)
    assert line.isprintable()
    assert " INFO    leasing.keeper: page said a" in line
    line.encode()


def test_json_is_one_object_a_line(written: Callable[..., io.StringIO]) -> None:
    stream = written(log="json")
    message = 'a "quoted"\nsecond line \\ ü \ud800 \x1b'
    log.info(message, extra={"lease": 7, "profile": "p\n0", "worker": UUID(int=1), "run": 3, "task": "t"})
    record = only_record(stream)
    assert record.pop("at").endswith("+00:00")
    assert record == {
        "level": "INFO",
        "logger": "poolsql.leasing.keeper",
        "message": message.replace("\ud800", "\ufffd"),
        "lease": 7,
        "profile": "p\n0",
        "worker": "00000000-0000-0000-0000-000000000001",
        "run": 3,
        "task": "t",
    }


@pytest.mark.parametrize("kind", ["text", "json"])
def test_secrets_are_hidden_wherever_they_come_from(written: Callable[..., io.StringIO], kind: str) -> None:
    stream = written(log=kind)
    remember_secret("hun\nter2")
    remember_secret("swordfish")
    log.info("%s%s is split over arguments", "hun\n", "ter2")
    log.info("as a field", extra={"profile": "swordfish"})
    log.info("postgresql://me:pass1234@host/x, Authorization: Bearer pass1234")
    try:
        fail("Cookie: sid=pass1234 and swordfish")
    except ValueError:
        log.exception("it failed with %s", "password=pass1234", stack_info=True)
    text = stream.getvalue()
    for secret in ("hun", "ter2", "swordfish", "pass1234"):
        # A traceback shows source lines, and with them what a program has as a literal.
        shown = [
            line for line in text.splitlines() if secret in line and "fail(" not in line and "log.exception" not in line
        ]
        assert kind == "json" or shown == []
    assert text.count("[hidden]") >= 6


def test_json_keeps_a_traceback_in_its_line_and_text_below_it(written: Callable[..., io.StringIO]) -> None:
    def log_a_failure() -> None:
        try:
            fail("two\nlines \x1b[2J")
        except ValueError:
            log.exception("it failed")

    stream = written(log="json")
    log_a_failure()
    record = only_record(stream)
    assert record["traceback"].startswith("Traceback (most recent call last):\n")
    assert record["traceback"].endswith("ValueError: two\nlines \x1b[2J")
    stream = written()
    log_a_failure()
    first, second, *_, last = stream.getvalue().splitlines()
    assert first.endswith("it failed")
    assert second == "Traceback (most recent call last):"
    assert last == "lines  [2J"


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_a_record_that_cannot_be_put_together_is_written_all_the_same(formatter: logging.Formatter) -> None:
    # Python itself would print the arguments as they are.
    arguments = ("many", "password=hunter2")
    record = logging.LogRecord("poolsql", logging.INFO, __file__, 1, "%d apples from %s", arguments, None)
    assert "%d apples from %s ('many', 'password=[hidden]')" in formatter.format(record)


def test_levels_and_other_libraries(written: Callable[..., io.StringIO]) -> None:
    stream = written(log_level="WARNING")
    log.info("quiet")
    logging.getLogger("asyncio").info("quiet")
    logging.getLogger("asyncio").error("Task exception was never retrieved: password=hunter2")
    assert only_line(stream).endswith("ERROR   asyncio: Task exception was never retrieved: password=[hidden]")


def test_configuring_again_replaces_the_sink(written: Callable[..., io.StringIO]) -> None:
    first, second = written(), written()
    log.info("once")
    assert first.getvalue() == ""
    assert only_line(second).endswith("once")


def test_a_very_long_message_is_cut_and_says_so(written: Callable[..., io.StringIO]) -> None:
    stream = written()
    log.info("x" * 1_000_000)
    line = only_line(stream)
    assert len(line) < 11_000
    assert line.endswith("[cut: 1,000,000 characters]")
