"""Reading the tables ``[jobs.<name>]``: schedule, targets, what to take from pages, and the handler behind a name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields
from pathlib import Path as FilePath
from typing import Any

from poolsql.configuration.canonical import as_json
from poolsql.configuration.entries import JobEntry, Mention
from poolsql.configuration.locations import Path
from poolsql.configuration.problems import Problems
from poolsql.configuration.tables import Table
from poolsql.errors import BadInputError
from poolsql.scheduling.definitions import JobDefinition
from poolsql.scheduling.misfires import Misfire
from poolsql.scheduling.schedules import Schedule, parse_schedule
from poolsql.scheduling.targets import TargetSource
from poolsql.scheduling.zones import find_zone
from poolsql.scraping.handlers import load_handler
from poolsql.scraping.steps import PageSteps
from poolsql.targets import read_url_file
from poolsql.text import did_you_mean

FIRING_KEYS = ("pool", "schedule", "zone", "misfire", "misfire_grace", "overlap")
"""When a job is due; the keys below say what it does, and are kept as its definition."""
DEFINITION_KEYS = tuple(
    name for field in fields(JobDefinition) for name in (PageSteps.NAMES if field.name == "steps" else (field.name,))
)
JOB_KEYS = (*FIRING_KEYS, *DEFINITION_KEYS)

_PARTED = {"extract": dict, "page_rules": dict, "click": list}
"""Keys whose values are made of parts that can be checked one by one."""

_RIGHT: Mapping[str, Any] = {"targets": {"list": ["http://localhost/"]}, "extract": {"title": "title"}}
"""A definition with which one key can be checked by itself."""


class JobReader:
    """Reads jobs.

    Args:
        folder: Where relative file names of targets start.
        hosts: Names of the hosts that the file declares.
        problems: Where what is wrong is noted.
    """

    def __init__(self, folder: FilePath, hosts: Collection[str], problems: Problems) -> None:
        self._folder = folder
        self._hosts = hosts
        self._problems = problems
        self.mentions: list[Mention] = []
        """The pools that jobs name, with their places."""
        self.queries: list[tuple[Path, str]] = []
        """Queries of targets, with their places."""

    def read(self, table: Table) -> Iterator[JobEntry]:
        """The job of a table, if all of it is right."""
        table.refuse_unknown(JOB_KEYS)
        pool, schedule = table.required("pool", '"shop"'), _schedule(table)
        if pool:
            self.mentions.append(Mention(table.path, "pool", pool))
        misfire = Misfire(table.choice("misfire", [kind.value for kind in Misfire], default=Misfire.LATEST.value))
        grace, overlap = table.duration("misfire_grace"), table.flag("overlap", default=False)
        if misfire is Misfire.ALL and "misfire_grace" not in table.values:
            table.problem("misfire", 'with "all", misfire_grace says how old an instant may be; write such as "1h"')
        definition = self._definition(table)
        # Also when something else is wrong: everything is to be told at once.
        wanted = self._check_targets(table)
        self._check_handler(table)
        if definition is None:
            return
        if table.good:
            kept = {name: as_json(value) for name, value in table.values.items() if name in DEFINITION_KEYS}
            if definition.targets.file is not None:
                kept["targets"] = {"file": str(definition.targets.file)}
            yield JobEntry(
                name=str(table.path[-1]),
                path=table.path,
                pool=pool,
                schedule=schedule,
                definition=kept,
                parsed=definition,
                overlap=overlap,
                misfire=misfire,
                misfire_grace=grace,
                wanted_profiles=wanted,
            )

    def _definition(self, table: Table) -> JobDefinition | None:
        values = {name: value for name, value in table.values.items() if name in DEFINITION_KEYS}
        before = len(self._problems.found)
        self._check_missing(table)
        for name, value in values.items():
            self._check_key((*table.path, name), name, value)
        if len(self._problems.found) > before:
            return None
        try:
            return JobDefinition.parse(values, base=self._folder)
        except BadInputError as error:
            self._problems.add_told(table.path, values, str(error))
            return None

    def _check_missing(self, table: Table) -> None:
        if "targets" not in table.values:
            table.problem(None, 'targets is missing; write { list = ["https://…"] }, { file = … } or { query = … }')
        if ("extract" in table.values) == ("handler" in table.values):
            table.problem(
                None, "write either extract, fields and their selectors, or handler, a package.module:function"
            )

    def _check_key(self, path: Path, name: str, value: Any) -> None:
        """Note what is wrong with one key, at the part of its value that it is about."""
        problem = self._problem(name, value)
        if problem is None:
            return
        before = len(self._problems.found)
        for place, part in _parts(path, name, value):
            told = self._problem(name, part)
            if told is not None:
                part_of = f"{name}.{place[-1]}"
                self._problems.add(place, told.removeprefix(f"{part_of}: ").removeprefix(f"{part_of}."))
        if len(self._problems.found) == before:
            self._problems.add(path, problem)

    def _problem(self, name: str, value: Any) -> str | None:
        others = {key: right for key, right in _RIGHT.items() if key != name and (key, name) != ("extract", "handler")}
        try:
            JobDefinition.parse({**others, name: value}, base=self._folder)
        except BadInputError as error:
            told = str(error)
            for prefix in (f"{name}.list[0]: ", f"{name}: "):
                told = told.removeprefix(prefix)
            return told
        return None

    def _check_targets(self, table: Table) -> list[tuple[Path, str]]:
        """Note targets of hosts that are not declared; returns the profiles that targets name."""
        try:
            source = TargetSource.parse(table.values.get("targets"), base=self._folder)
        except BadInputError:
            return []  # noted with the other keys
        wanted: list[tuple[Path, str]] = []
        for number, spec in enumerate(source.entries or ()):
            place = (*table.path, "targets", "list", number)
            self._check_host(place, spec.target.host)
            if spec.profile is not None:
                wanted.append((place, spec.profile))
        if source.query is not None:
            self.queries.append(((*table.path, "targets", "query"), source.query))
        if source.file is not None:
            place = (*table.path, "targets", "file")
            try:
                hosts = sorted({target.host for target in read_url_file(source.file)})
            except BadInputError as error:
                self._problems.add(place, str(error))
            else:
                for host in hosts:
                    self._check_host(place, host)
        return wanted

    def _check_handler(self, table: Table) -> None:
        handler = table.values.get("handler")
        if not isinstance(handler, str):
            return
        try:
            load_handler(handler)
        except BadInputError as error:
            table.problem("handler", str(error).removeprefix(f"handler {handler!r}: "))

    def _check_host(self, place: Path, host: str) -> None:
        if host not in self._hosts:
            self._problems.add(
                place, f'host {host} is not declared; add a table [hosts."{host}"]{did_you_mean(host, self._hosts)}'
            )


def _schedule(table: Table) -> Schedule | None:
    zone = table.text("zone") or "UTC"
    try:
        find_zone(zone)
    except BadInputError as error:
        table.problem("zone", str(error))
        zone = "UTC"
    try:
        return parse_schedule(table.values.get("schedule"), zone=zone)
    except BadInputError as error:
        table.problem("schedule", str(error).removeprefix("schedule: "))
        return None


def _parts(path: Path, name: str, value: Any) -> Iterator[tuple[Path, Any]]:
    """The parts of a value, each as a value of the same key that holds nothing else."""
    inner: Any = value
    wrap: Callable[[Any], Any] = _itself
    if name == "targets" and isinstance(value, Mapping) and set(value) == {"list"}:
        path, inner, wrap = (*path, "list"), value["list"], _as_list_of_targets
    elif not isinstance(value, _PARTED.get(name, ())):
        return
    if isinstance(inner, Mapping):
        for key, part in inner.items():
            yield (*path, key), {key: part}
    elif isinstance(inner, list):
        for number, part in enumerate(inner):
            yield (*path, number), wrap([part])


def _itself(value: Any) -> Any:
    return value


def _as_list_of_targets(value: Any) -> Any:
    return {"list": value}
