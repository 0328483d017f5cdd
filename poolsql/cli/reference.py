"""``docs/cli.md``, from the program itself: ``python -m poolsql.cli.reference docs/cli.md``."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from poolsql.cli.lazy import COMMANDS, load_command
from poolsql.cli.main import EXIT_CODES

WIDTH = 120

HEAD = f"""\
# The command line

`poolsql …` and, from a source tree, `python scheduler.py …` are one program. This page is made from it by
`make docs`.

The database is the one that `POOLSQL_DATABASE_URL` names. Without it the program uses a Postgres server of its own in
the user's data directory, and brings its tables up to date by itself.

## What all commands have in common

- **Exit codes**: {", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items())}.
  `poolsql db psql` ends with psql's own. Where nobody reads the output any more, as in `poolsql … | head`, a command
  ends with 1 and says nothing.
- **Errors** are one line on standard error that names the thing, the place and the remedy. Bad input changes nothing.
- **`--json`** prints one JSON document on one line; commands that go on print one such line for each change. Keys are
  the names of columns, moments are ISO 8601 in UTC, durations are seconds. Otherwise lists are tables: with colours
  and as wide as the window (`COLUMNS`) on a terminal unless `NO_COLOR` is set, plain aligned lines elsewhere, where
  no value is cut and every column is shown.
- **Times** are written as people do: `90s`, `2m`, `1h30m`; a bare number is seconds.
- **Changes are written down** in the table `poolsql.audit`: who (`user@machine`, or what `--who` says), what, and why
  (`--reason`). A change that has been made already says so, writes nothing down, and ends with 0.
- **Questions** are only asked on a terminal, and `--yes` answers them. Where nobody can be asked,
  `poolsql lease revoke --all` wants `--yes`; other commands go on.
- **Profiles** are named by id, by key, or as `launcher/key` where several launchers have the key. Workers are named by
  the beginning of their ids. Hosts are written with the port where it is not the scheme's own; an address of them
  will do.
- **Ctrl-C** ends a command with 130; nothing is half done, and a file that was being written is not there.
"""


def reference() -> str:
    """The whole page; the same whatever the terminal and the environment."""
    parts = [HEAD]
    for name in COMMANDS:
        parts += _described(load_command(name), f"poolsql {name}", level=2)
    return "\n".join(parts)


def _described(command: Any, path: str, *, level: int) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    yield f"{'#' * level} {path}\n\n{_paragraphs(command.help)}\n"
    if inner is not None:
        for name, one in inner.items():
            yield from _described(one, f"{path} {name}", level=level + 1)
        return
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    usage = " ".join([path, *(["[OPTIONS]"] if options else []), *(_placed(one) for one in arguments)])
    yield f"```\n{usage}\n```\n"
    lines = [_bullet(_placed(one), one) for one in arguments] + [_bullet(_written(one), one) for one in options]
    if lines:
        yield "\n".join(lines) + "\n"


def _bullet(what: str, parameter: Any) -> str:
    told = [parameter.help.rstrip(".") + "." if parameter.help else ""]
    if parameter.param_type_name == "option" and parameter.required:
        told.append("Required.")
    default = parameter.default
    if default not in (None, False, (), []) and not callable(default):
        told.append(f"Default: `{default.value if isinstance(default, Enum) else default}`.")
    text = f"`{what}`: {' '.join(one for one in told if one)}"
    return textwrap.fill(
        text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _placed(argument: Any) -> str:
    """An argument as it stands in the usage."""
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _written(option: Any) -> str:
    """An option as it is written."""
    spellings = ", ".join([*option.opts, *option.secondary_opts])
    return spellings if option.is_flag else f"{spellings} {_value(option)}"


def _value(option: Any) -> str:
    if option.metavar:
        return str(option.metavar)
    kind = option.type_descriptor
    if kind.is_choice:
        return "|".join(str(choice.value if isinstance(choice, Enum) else choice) for choice in kind.choices)
    return {int: "N", Path: "FILE"}.get(kind.annotation, "TEXT")


def _paragraphs(text: str | None) -> str:
    joined = (" ".join(part.split()) for part in (text or "").split("\n\n"))
    return "\n\n".join(textwrap.fill(part, WIDTH, break_on_hyphens=False) for part in joined if part)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
