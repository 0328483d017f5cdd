"""Results of runs, written as JSON lines or CSV while they are read: any number of them in constant memory."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

from sqlalchemy import ColumnElement, Select, func, select

from poolsql.database.engine import Database
from poolsql.database.tables import jobs, profiles, runs, tasks
from poolsql.durations import format_moment
from poolsql.errors import ConflictError
from poolsql.operations.formats import Format
from poolsql.operations.jobs import find_job
from poolsql.operations.runs import find_run
from poolsql.scraping.states import TaskState
from poolsql.text import clean_text

COLUMNS = ("run", "task", "url", "host", "profile", "seed", "parameters", "finished_at")
"""What each result is told with; the columns of its own fields follow."""

RESULTS_AT_ONCE = 1000
"""Rows that an export holds in memory."""

# What a spreadsheet would run as a formula. A number with a sign is none.
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Source:
    """Which results: those of one run, of all runs of a job, or all."""

    run: int | None = None
    job: str | None = None


def results(database: Database, source: Source) -> Iterator[Mapping[str, Any]]:
    """Results of tasks that are done, oldest first, streamed.

    Each has run, task, url, host, profile, seed, parameters, finished_at and result. The database is asked in
    portions, so that a slow reader holds no snapshot.
    """
    query = (
        _of(
            source,
            tasks.c.run_id.label("run"),
            tasks.c.id.label("task"),
            tasks.c.url,
            tasks.c.host,
            profiles.c.key.label("profile"),
            tasks.c.visited_seed.label("seed"),
            tasks.c.parameters,
            tasks.c.changed_at.label("finished_at"),
            tasks.c.result,
        )
        .outerjoin(profiles, profiles.c.id == tasks.c.visited_by)
        .order_by(tasks.c.id)
        .limit(RESULTS_AT_ONCE)
    )
    after = 0
    while True:
        with database.connect() as connection:
            rows = [dict(row) for row in connection.execute(query.where(tasks.c.id > after)).mappings()]
        yield from rows
        if len(rows) < RESULTS_AT_ONCE:
            return
        after = rows[-1]["task"]


def export_results(database: Database, out: TextIO, source: Source, *, how: Format, raw: bool = False) -> int:
    """Write the results of tasks that are done, oldest first; returns how many.

    CSV has one column for each field that any of the results has; what is no text or number is written as JSON. A
    page decides what it says, and a spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@``: such texts,
    unless they are numbers, get an apostrophe in front.

    Args:
        database: Where the results are.
        out: Opened for UTF-8, without translation of line ends.
        source: Which results.
        how: The format.
        raw: CSV keeps all texts as they are.

    Raises:
        UnknownNameError: There is no such run or job.
        ConflictError: Results changed while they were read, so that the table has too few columns.
    """
    if source.run is not None:
        find_run(database, source.run)
    if source.job is not None:
        find_job(database, source.job)
    rows = results(database, source)
    match how:
        case Format.JSONL:
            return _write_lines(rows, out)
        case Format.CSV:
            return _write_table(rows, out, *_fields(database, source), raw=raw)


def _write_lines(rows: Iterator[Mapping[str, Any]], out: TextIO) -> int:
    count = 0
    for row in rows:
        out.write(json.dumps({**row, "finished_at": format_moment(row["finished_at"])}, ensure_ascii=False) + "\n")
        count += 1
    return count


def _write_table(
    rows: Iterator[Mapping[str, Any]], out: TextIO, fields: Sequence[str], until: datetime, *, raw: bool
) -> int:
    headings = [*COLUMNS, *(f"result.{field}" if field in COLUMNS else field for field in fields)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_cell(heading, raw=raw) for heading in headings])
    known = set(fields)
    count = 0
    for row in rows:
        if row["finished_at"] > until:
            continue  # ended after the columns were counted
        result = _object(row["result"])
        if not known.issuperset(result):
            raise ConflictError("results changed while they were read; export them again")
        facts = {**row, "finished_at": format_moment(row["finished_at"])}
        values = [*(facts[name] for name in COLUMNS), *(result.get(field) for field in fields)]
        writer.writerow([_cell(value, raw=raw) for value in values])
        count += 1
    return count


def _fields(database: Database, source: Source) -> tuple[list[str], datetime]:
    """The fields that the results have now, and the moment of that now."""
    found = _of(source, tasks.c.result).where(func.jsonb_typeof(tasks.c.result) == "object").subquery()
    with database.connect() as connection:
        until: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        fields = connection.execute(select(func.jsonb_object_keys(found.c.result)).distinct()).scalars().all()
    return sorted(fields), until


def _of(source: Source, *columns: ColumnElement[Any]) -> Select[Any]:
    """Tasks that are done, of a source."""
    query = (
        select(*columns)
        .select_from(tasks)
        .join(runs, runs.c.id == tasks.c.run_id)
        .outerjoin(jobs, jobs.c.id == runs.c.job_id)
        .where(tasks.c.state == TaskState.DONE.value)
    )
    if source.run is not None:
        query = query.where(tasks.c.run_id == source.run)
    if source.job is not None:
        query = query.where(jobs.c.name == clean_text(source.job))
    return query


def _object(result: Any) -> Mapping[str, Any]:
    return result if isinstance(result, Mapping) else {}


def _cell(value: Any, *, raw: bool) -> str | int | float:
    match value:
        case None:
            return ""
        case str():
            unsafe = not raw and _FORMULA.match(value) and not _NUMBER.fullmatch(value)
            return f"'{value}" if unsafe else value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return value
        case _:
            return json.dumps(value, ensure_ascii=False)
