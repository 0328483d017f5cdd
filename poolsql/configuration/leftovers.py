"""What was declared once and is not in fleet.toml any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, Table, func, select

from poolsql.configuration.changes import Action, Change
from poolsql.configuration.entries import FleetFile
from poolsql.configuration.stored import Stored, StoredLauncher, StoredPool, StoredProxy
from poolsql.database.tables import jobs, launchers, pools, profiles, proxies, runs
from poolsql.leasing.states import ProfileState

REFERENCES: Mapping[str, tuple[Table, Mapping[str, tuple[Table, str]]]] = {
    "pool": (pools, {"profile": (profiles, "pool_id"), "job": (jobs, "pool_id"), "run": (runs, "pool_id")}),
    "launcher": (launchers, {"profile": (profiles, "launcher_id")}),
    "proxy": (proxies, {"profile": (profiles, "proxy_id")}),
}
"""For each kind, its table, and which others refer to it by which column."""


def gone(connection: Connection, file: FleetFile, stored: Stored, *, prune: bool) -> Iterator[Change]:
    """What is declared in the database and not in the file, what refers to others before these.

    Args:
        prune: It is to be removed. Pools, launchers and proxies that something refers to lose their declaration only.
    """
    for name, job in stored.jobs.items():
        if job.declared and name not in file.jobs:
            yield _change("job", name, job.id, prune=prune, verb="removes", what="fires no more; its results stay")
    declared = {profile.identity for profile in file.profiles}
    for identity, profile in stored.profiles.items():
        if profile.declared and identity not in declared and profile.state is not ProfileState.RETIRED:
            yield _change(
                "profile",
                "/".join(identity),
                profile.id,
                prune=prune,
                verb="retires",
                what="retired",
                group=f"launcher {profile.launcher} in pool {profile.pool}",
            )
    for name, host in stored.hosts.items():
        if host.declared and name not in file.hosts:
            yield _change("host", name, None, prune=prune, verb="forgets", what="its delay is the usual one again")
    kinds: tuple[tuple[str, Mapping[str, StoredProxy | StoredLauncher | StoredPool], Mapping[str, object]], ...] = (
        ("proxy", stored.proxies, file.proxies),
        ("launcher", stored.launchers, file.launchers),
        ("pool", stored.pools, file.pools),
    )
    for kind, known, named in kinds:
        for name, row in known.items():
            if row.declared and name not in named:
                why = _still_needed(connection, file, stored, kind=kind, name=name, row_id=row.id) if prune else ""
                what = f"kept, but not declared any more: {why}" if why else "deleted"
                yield _change(kind, name, row.id, prune=prune, verb="removes", what=what)


def references(connection: Connection, kind: str, row_id: int) -> dict[str, int]:
    """How many rows refer to a pool, launcher or proxy, by what they are."""
    _, others = REFERENCES[kind]
    return {
        other: connection.execute(select(func.count()).where(table.c[column] == row_id)).scalar_one()
        for other, (table, column) in others.items()
    }


def _change(kind: str, name: str, row_id: int | None, *, prune: bool, verb: str, what: str, group: str = "") -> Change:
    return Change(
        action=Action.REMOVE if prune else Action.GONE,
        kind=kind,
        name=name,
        note=what if prune else f"not in the file; --prune {verb} it",
        group=group,
        stored_id=row_id,
    )


def _still_needed(connection: Connection, file: FleetFile, stored: Stored, *, kind: str, name: str, row_id: int) -> str:
    """Why it cannot be deleted; empty: nothing refers to it once the file is applied."""
    in_file = [profile for profile in file.profiles if getattr(profile, kind) == name]
    if in_file or (kind == "pool" and any(job.pool == name for job in file.jobs.values())):
        return "the file refers to it"
    counts = references(connection, kind, row_id)
    if kind == "proxy":
        # Profiles of the file that have it now will have another one.
        declared = {profile.identity for profile in file.profiles}
        users = [one for one in stored.profiles.values() if one.proxy == name and one.identity not in declared]
        counts = {"profile": len(users)}
    told = [f"{count:,} {other}{'' if count == 1 else 's'}" for other, count in counts.items() if count]
    refer = "refers" if sum(counts.values()) == 1 else "refer"
    return f"{' and '.join(told)} {refer} to it" if told else ""
