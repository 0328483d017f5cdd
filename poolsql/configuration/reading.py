"""Reading a fleet.toml: everything that can be checked without the database is, and all that is wrong is noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path as FilePath
from typing import Any

from poolsql.configuration.document import read_document
from poolsql.configuration.entries import FleetFile, HostEntry, LauncherEntry, PoolEntry, ProxyEntry
from poolsql.configuration.job_reading import JobReader
from poolsql.configuration.locations import Path
from poolsql.configuration.problems import FleetFileError, Problems
from poolsql.configuration.profile_reading import read_profiles
from poolsql.configuration.tables import Table, check_secret, sections
from poolsql.durations import parse_duration
from poolsql.errors import BadInputError
from poolsql.fleet.browsers import build_launcher
from poolsql.leasing.checks import checked_proxy_server, checked_secret
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.registry import LauncherRow
from poolsql.settings import Settings, is_secret_reference, process_settings
from poolsql.targets import parse_target
from poolsql.text import did_you_mean

TABLES = ("pools", "launchers", "proxies", "profiles", "hosts", "jobs")
POOL_KEYS = tuple(field.name for field in fields(PoolPolicy))
LAUNCHER_KEYS = ("kind", "machines")
"""Everything else is an option, as the kind of launcher knows them."""
PROXY_KEYS = ("server", "username", "secret", "shared")
HOST_KEYS = ("delay",)

OFF = "off"
"""What a pool says to switch a rule off that is on by default: TOML has no null."""

_CAN_BE_OFF = frozenset(field.name for field in fields(PoolPolicy) if "None" in str(field.type))
_DURATIONS = frozenset(field.name for field in fields(PoolPolicy) if "timedelta" in str(field.type))


def load_fleet_file(path: FilePath, settings: Settings | None = None) -> FleetFile:
    """Read a fleet.toml.

    Args:
        settings: Of the process that will use it; default: those of this one.

    Raises:
        FleetFileError: Something is wrong; all that can be found without the database is told at once.
    """
    file = read_fleet_file(path, settings)
    if file.problems:
        raise FleetFileError(file.path, file.problems)
    return file


def read_fleet_file(path: FilePath, settings: Settings | None = None) -> FleetFile:
    """`load_fleet_file` for callers that go on to compare it with the database, and then tell all that is wrong.

    Raises:
        FleetFileError: The file cannot be read, or is no TOML.
    """
    settings = settings or process_settings()
    document, problems = read_document(path)
    for name in document:
        if name not in TABLES:
            problems.add((name,), f"unknown table{did_you_mean(name, TABLES)} (known: {', '.join(TABLES)})")
    hosts = {entry.name: entry for entry in _hosts(document, problems)}
    jobs = JobReader(path.absolute().parent, {*hosts, *_names(document.get("hosts"))}, problems)
    entries = {entry.name: entry for table in sections(document, "jobs", problems) for entry in jobs.read(table)}
    mentions = jobs.mentions
    return FleetFile(
        path=path,
        pools={entry.name: entry for entry in _pools(document, problems)},
        launchers={entry.name: entry for entry in _launchers(document, settings, problems)},
        proxies={entry.name: entry for entry in _proxies(document, problems)},
        profiles=read_profiles(document.get("profiles", []), problems, mentions),
        hosts=hosts,
        jobs=entries,
        named={kind: _names(document.get(kind)) for kind in TABLES},
        mentions=mentions,
        queries=jobs.queries,
        collector=problems,
    )


def _pools(document: Mapping[str, Any], problems: Problems) -> Iterator[PoolEntry]:
    for table in sections(document, "pools", problems):
        table.refuse_unknown(POOL_KEYS)
        values = {name: _policy_value(table, name) for name in table.values if name in POOL_KEYS}
        if not table.good:
            continue
        try:
            policy = PoolPolicy.from_values(**values)
        except BadInputError as error:
            problems.add_told(table.path, values, str(error).removeprefix("pool policy: "))
        else:
            yield PoolEntry(name=str(table.path[-1]), path=table.path, policy=policy)


def _policy_value(table: Table, name: str) -> Any:
    """A value that is right by itself; contradictions are found when all are."""
    value = table.values[name]
    if value == OFF and name in _CAN_BE_OFF:
        return None
    try:
        if name not in _DURATIONS or not parse_duration(value, name=name):
            PoolPolicy.from_values(**{name: value})
    except BadInputError as error:
        told = str(error).removeprefix("pool policy: ").removeprefix(f"{name}: ")
        table.problem(name, f'{told}, or "{OFF}"' if name in _CAN_BE_OFF else told)
    return value


def _launchers(document: Mapping[str, Any], settings: Settings, problems: Problems) -> Iterator[LauncherEntry]:
    for table in sections(document, "launchers", problems):
        name = str(table.path[-1])
        options = table.others(LAUNCHER_KEYS)
        kind = table.text("kind") or ("rest" if {"preset", "base_url"} & options.keys() else "local")
        machines = table.texts("machines")
        if machines == () and table.good:
            table.problem("machines", "names no machine; leave it out if its profiles are for all of them")
        for place, text in _texts(options, table.path):
            if is_secret_reference(text):
                check_secret(text, place, problems)
        if not table.good:
            continue
        try:
            launcher = build_launcher(LauncherRow(name, kind, options), settings)
        except BadInputError as error:
            told = str(error).removeprefix(f"launcher {name}: ").removeprefix(f"options of a {kind} launcher: ")
            problems.add_told(table.path, table.values, told)
            continue
        yield LauncherEntry(
            name=name,
            path=table.path,
            kind=kind,
            options=options,
            machines=machines,
            pins_machine=launcher.pins_machine,
        )


def _proxies(document: Mapping[str, Any], problems: Problems) -> Iterator[ProxyEntry]:
    for table in sections(document, "proxies", problems):
        name = str(table.path[-1])
        table.refuse_unknown(PROXY_KEYS)
        server = table.required("server", '"http://host:port"')
        username, secret, shared = table.text("username"), table.text("secret"), table.flag("shared", default=False)
        try:
            if server:
                checked_proxy_server(server, proxy=name)
        except BadInputError as error:
            table.problem("server", str(error).removeprefix(f"proxy {name!r}: "))
        try:
            if secret is not None:
                checked_secret(secret, proxy=name)
                check_secret(secret, (*table.path, "secret"), problems)
        except BadInputError as error:
            table.problem("secret", str(error).removeprefix(f"proxy {name!r}: "))
        if table.good:
            yield ProxyEntry(name=name, path=table.path, server=server, username=username, secret=secret, shared=shared)


def _hosts(document: Mapping[str, Any], problems: Problems) -> Iterator[HostEntry]:
    lines: dict[str, int] = {}
    for table in sections(document, "hosts", problems):
        inner = [name for name, value in table.values.items() if name not in HOST_KEYS and isinstance(value, Mapping)]
        if inner:
            # [hosts.shop.example] is a table "example" in a table "shop".
            table.problem(None, f'a host\'s name has dots: write it in quotes, [hosts."{table.path[-1]}.{inner[0]}"]')
            continue
        table.refuse_unknown(HOST_KEYS)
        delay = table.duration("delay")
        name = _host_name(table)
        if name in lines:
            table.problem(None, f"host {name} has a table in line {lines[name]} already")
        lines.setdefault(name, problems.line(table.path))
        if table.good:
            yield HostEntry(name=name, path=table.path, delay=delay)


def _host_name(table: Table) -> str:
    given = str(table.path[-1])
    if given.endswith((":80", ":443")):
        table.problem(None, "leave the port out where it is the scheme's own, 80 or 443")
        return given
    try:
        target = parse_target(given if "://" in given else f"http://{given}/")
    except BadInputError:
        table.problem(None, 'is no host; write a name, with a port if it has one, such as [hosts."shop.example:8080"]')
        return given
    if "://" in given or target.url != f"http://{target.host}/":
        table.problem(None, f'is more than a host; write [hosts."{target.host}"]')
    return target.host


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    match value:
        case str():
            yield path, value
        case Mapping():
            for key, inner in value.items():
                yield from _texts(inner, (*path, key))
        case list():
            for number, inner in enumerate(value):
                yield from _texts(inner, (*path, number))
        case _:
            pass


def _names(table: Any) -> frozenset[str]:
    return frozenset(table) if isinstance(table, Mapping) else frozenset()
