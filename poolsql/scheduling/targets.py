"""Where a job's targets come from: a list, a file, or a query; looked up anew for each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import psycopg
from psycopg.rows import dict_row

from poolsql.database.engine import Database
from poolsql.database.failures import Failure, classify
from poolsql.errors import BadInputError
from poolsql.targets import Target, bare_address, parse_target, read_url_file
from poolsql.text import clean_json, clean_text, did_you_mean

COLUMNS = ("url", "profile", "seed", "parameters")
"""What a target may say: an entry of a list by these keys, a query by these columns."""

_SOURCES = ("list", "file", "query")


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """One page to visit, and what its task should know."""

    target: Target
    profile: str | None = None
    """The only profile that may visit it: the launcher's key, or ``launcher/key``."""
    seed: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BadTarget:
    """An entry that cannot be visited; it becomes a task that has failed, so that nothing is passed over in silence."""

    text: str
    problem: str


@dataclass(frozen=True, slots=True)
class TargetSource:
    """Exactly one of the three."""

    entries: tuple[TargetSpec, ...] | None = None
    file: Path | None = None
    query: str | None = None

    @classmethod
    def parse(cls, value: Any, *, base: Path | None = None) -> TargetSource:
        """Read ``{ list = […] }``, ``{ file = "…" }`` or ``{ query = "…" }``; what they name is looked up later.

        Args:
            value: As fleet.toml has it.
            base: The folder that a relative file name starts from; default: the current one.

        Raises:
            BadInputError: It is none of the three, or entries of the list are wrong: all of them, by their numbers.
        """
        if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in _SOURCES:
            raise BadInputError(
                'targets: write one of { list = ["https://…"] }, { file = "urls.txt" } or { query = "SELECT url …" }'
            )
        ((kind, content),) = value.items()
        if kind == "list":
            return cls(entries=_entries(content))
        if not isinstance(content, str) or not content.strip():
            raise BadInputError(f"targets.{kind}: write text, in quotes")
        if kind == "file":
            try:
                return cls(file=(base or Path.cwd()) / Path(content).expanduser())
            except RuntimeError:
                raise BadInputError(f"targets.file: {content!r}: whose home that is, is not known") from None
        return cls(query=content.strip().rstrip(";"))


def read_targets(database: Database, source: TargetSource) -> list[TargetSpec | BadTarget]:
    """Look the targets up.

    Raises:
        BadInputError: The file cannot be read or has wrong lines, or the query fails, writes or gives no addresses.
        DatabaseUnavailableError: The database could not be reached.
    """
    if source.entries is not None:
        return list(source.entries)
    if source.file is not None:
        return [TargetSpec(target) for target in read_url_file(source.file)]
    return [_from_row(row) for row in _rows(database, source.query or "", limit=None)]


def check_query(database: Database, query: str) -> None:
    """Try a query of targets, for one row.

    Raises:
        BadInputError: It fails, writes, has columns that a target does not know, or gives a row that is no target.
    """
    for row in _rows(database, query, limit=1):
        target = _from_row(row)
        if isinstance(target, BadTarget):
            raise BadInputError(f"targets.query: its first row: {target.problem}")


def _entries(content: Any) -> tuple[TargetSpec, ...]:
    if not isinstance(content, Sequence) or isinstance(content, str) or not content:
        raise BadInputError('targets.list: write at least one address, such as ["https://shop.example/"]')
    specs: list[TargetSpec] = []
    problems: list[str] = []
    for number, entry in enumerate(content):
        try:
            specs.append(_spec({"url": entry} if isinstance(entry, str) else entry))
        except BadInputError as error:
            problems.append(f"targets.list[{number}]: {error}")
    if problems:
        raise BadInputError("; ".join(problems))
    return tuple(specs)


def _spec(entry: Any) -> TargetSpec:
    if not isinstance(entry, Mapping):
        raise BadInputError("write an address, or a table with url and what else it needs")
    for name in entry:
        if name not in COLUMNS:
            raise BadInputError(f"{name}: unknown{did_you_mean(str(name), COLUMNS)}")
    url, parameters = entry.get("url"), entry.get("parameters")
    if not isinstance(url, str):
        raise BadInputError("url: missing; write an http:// or https:// address")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise BadInputError('parameters: write a table, such as { sku = "1" }')
    names = {name: _name(entry.get(name), name) for name in ("profile", "seed")}
    return TargetSpec(parse_target(url), parameters=cast("dict[str, Any]", clean_json(dict(parameters or {}))), **names)


def _name(value: Any, what: str) -> str | None:
    if value is None or isinstance(value, str):
        return clean_text(value) if value else None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadInputError(f"{what}: write text, in quotes")


def _from_row(row: Mapping[str, Any]) -> TargetSpec | BadTarget:
    try:
        return _spec(row)
    except BadInputError as error:
        return BadTarget(bare_address(str(row.get("url") or "")), str(error))


def _rows(database: Database, query: str, *, limit: int | None) -> Iterator[Mapping[str, Any]]:
    # As a sub-query it can be nothing but one SELECT, and with a parameter it is one statement: Postgres takes several
    # only without any. (NULL: no limit.)
    statement = f"SELECT * FROM ({query}\n) AS target LIMIT $1::bigint"  # noqa: S608 - the operator's own query, read only
    with database.transaction() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)  # noqa: S101 - tells the type checker
        try:
            driver.execute("SET TRANSACTION READ ONLY")
            with psycopg.RawCursor(driver, row_factory=dict_row) as cursor:
                cursor.execute(statement.encode(), [limit])
                _check_columns([column.name for column in cursor.description or ()])
                rows = cursor.fetchall()
        except psycopg.Error as error:
            # That the transaction only reads is our doing, elsewhere it tells of a failover.
            writes = isinstance(error, psycopg.errors.ReadOnlySqlTransaction)
            if classify(error) in {Failure.CONNECTION, Failure.CONTENTION} and not writes:
                raise  # the database is away or busy, which says nothing about the query
            raise BadInputError(f"targets.query: {_told(error)}") from error
    yield from rows


def _check_columns(columns: Sequence[str]) -> None:
    unknown = [name for name in columns if name not in COLUMNS]
    if "url" not in columns or unknown:
        told = f"it gives {', '.join(columns)}" if columns else "it gives no columns"
        raise BadInputError(f"targets.query: {told}; a target knows {', '.join(COLUMNS)}, and url has to be there")


def _told(error: psycopg.Error) -> str:
    told = _reason(error)
    if isinstance(error, psycopg.errors.SyntaxError | psycopg.errors.FeatureNotSupported):
        told += "; a query of targets can only read, so write one SELECT"
    return told


def _reason(error: psycopg.Error) -> str:
    return error.diag.message_primary or str(error).strip() or type(error).__name__
