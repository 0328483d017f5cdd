"""Writing a fleet.toml into the database: all of it in one transaction, one process at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, exists, func, not_, update
from sqlalchemy.dialects.postgresql import insert as upsert

from poolsql.configuration.changes import Action, Change, Plan
from poolsql.configuration.entries import (
    Entry,
    HostEntry,
    JobEntry,
    LauncherEntry,
    PoolEntry,
    ProfileEntry,
    ProxyEntry,
)
from poolsql.configuration.leftovers import REFERENCES
from poolsql.configuration.planning import plan_on
from poolsql.database.engine import Database
from poolsql.database.locks import Lock, wait_for_transaction_lock
from poolsql.database.tables import hosts, launchers, pools, profiles, proxies
from poolsql.leasing import bulk, registry
from poolsql.leasing.audit import record
from poolsql.leasing.bulk import ProfileDefinition
from poolsql.leasing.states import ProfileState
from poolsql.scheduling.jobs import define_job, remove_job
from poolsql.settings import Settings

PATIENCE = 30.0
"""Seconds that one apply waits for another to end."""

RETIRED_BECAUSE = "not in fleet.toml"

_LONGEST_SUBJECT = 10_000
"""Characters of what the audit says was changed."""


def apply_plan(database: Database, settings: Settings, plan: Plan, *, who: str, reason: str | None = None) -> Plan:
    """Make the database say what a file says; audited, in one entry.

    Profiles that exist keep their states: whatever an operator paused, activated or retired stays so.

    Args:
        plan: As `planning.plan` made it. It is made anew under a lock, so that what changed meanwhile counts.
        who: Whoever does it, such as ``ann@desk``.
        reason: Why.

    Returns:
        What was changed.

    Raises:
        FleetFileError: The file does not fit the database any more; nothing was changed.
        DatabaseError: Another apply did not end in `PATIENCE` seconds, or the database refused; nothing was changed.
        DatabaseUnavailableError: The database could not be reached.
    """
    with database.transaction() as connection:
        wait_for_transaction_lock(connection, Lock.APPLY, patience=PATIENCE)
        current = plan_on(connection, settings, plan.file, prune=plan.prune)
        if current.changes_something:
            _Writer(connection, who).write(current)
            subject = "; ".join([f"{current.file.path.name}: {current.summary(done=True)}", *current.lines()])
            if len(subject) > _LONGEST_SUBJECT:
                subject = f"{subject[:_LONGEST_SUBJECT]}…"
            record(connection, who=who, action="apply", subject=subject, reason=reason)
    return current


class _Writer:
    """Writes the changes of one plan."""

    def __init__(self, connection: Connection, who: str) -> None:
        self._connection = connection
        self._who = who
        self._new_profiles: list[ProfileEntry] = []
        self._known_profiles: dict[int, ProfileEntry] = {}
        self._proxies_changed: set[int] = set()
        self._jobs: list[JobEntry] = []

    def write(self, plan: Plan) -> None:
        """Write them: what others refer to before these."""
        removed = [change for change in plan.changes if change.action is Action.REMOVE]
        for change in plan.changes:
            if change.entry is not None:
                self._declare(change.entry, change.stored_id)
        retired = [change.stored_id for change in removed if change.kind == "profile" and change.stored_id]
        # All at once, since whoever locks several profiles does so in the order of their ids.
        bulk.lock_profiles(self._connection, [*self._known_profiles, *retired], of_proxies=[*self._proxies_changed])
        self._profiles()
        for job in self._jobs:
            self._job(job)
        self._retire(retired)
        for change in removed:
            self._remove(change)

    def _declare(self, entry: Entry, stored_id: int | None) -> None:
        """Write what others refer to; keep the rest for later."""
        match entry:
            case PoolEntry():
                registry.define_pool_on(self._connection, entry.name, entry.policy, declared=True)
            case LauncherEntry():
                self._launcher(entry)
            case ProxyEntry():
                self._proxies_changed.add(self._proxy(entry))
            case HostEntry():
                self._host(entry)
            case ProfileEntry():
                if stored_id is None:
                    self._new_profiles.append(entry)
                else:
                    self._known_profiles[stored_id] = entry
            case JobEntry():
                self._jobs.append(entry)
            case unknown:
                assert_never(unknown)

    def _launcher(self, entry: LauncherEntry) -> None:
        registry.define_launcher_on(
            self._connection,
            entry.name,
            kind=entry.kind,
            pins_machine=entry.pins_machine,
            options=entry.options,
            machines=entry.machines,
            declared=True,
        )

    def _proxy(self, entry: ProxyEntry) -> int:
        return registry.define_proxy_on(
            self._connection,
            entry.name,
            server=entry.server,
            username=entry.username,
            secret=entry.secret,
            shared=entry.shared,
            declared=True,
        )

    def _host(self, entry: HostEntry) -> None:
        values = {"delay": entry.delay, "declared": True}
        self._connection.execute(
            upsert(hosts).values(name=entry.name, **values).on_conflict_do_update(index_elements=["name"], set_=values)
        )

    def _profiles(self) -> None:
        ids = {table.name: registry.ids_by_name(self._connection, table) for table in (pools, launchers, proxies)}
        known = {row_id: _definition(entry, ids) for row_id, entry in self._known_profiles.items()}
        new = [_definition(entry, ids) for entry in self._new_profiles]
        bulk.change_profiles(self._connection, known)
        bulk.add_profiles(self._connection, new)
        pinned = {one.proxy_id for one in (*known.values(), *new) if one.proxy_id is not None}
        registry.pin_proxies(self._connection, sorted(self._proxies_changed | pinned))

    def _job(self, entry: JobEntry) -> None:
        define_job(
            self._connection,
            entry.name,
            pool_id=registry.ids_by_name(self._connection, pools)[entry.pool],
            schedule=entry.schedule,
            definition=entry.definition,
            overlap=entry.overlap,
            misfire=entry.misfire,
            misfire_grace=entry.misfire_grace,
            declared=True,
        )

    def _retire(self, profile_ids: list[int]) -> None:
        if not profile_ids:
            return
        self._connection.execute(
            update(profiles)
            .where(profiles.c.id == bulk.any_of(profile_ids), profiles.c.state != ProfileState.RETIRED.value)
            .values(
                state=ProfileState.RETIRED.value,
                state_reason=RETIRED_BECAUSE,
                state_changed_at=func.clock_timestamp(),
                state_changed_by=self._who,
                declared=False,
            )
        )

    def _remove(self, change: Change) -> None:
        match change.kind:
            case "job":
                remove_job(self._connection, change.name)
            case "host":
                forgotten = update(hosts).where(hosts.c.name == change.name)
                self._connection.execute(forgotten.values(declared=False, delay=None))
            case "pool" | "launcher" | "proxy":
                table, others = REFERENCES[change.kind]
                self._delete(table, change.stored_id, [other.c[column] for other, column in others.values()])
            case _:
                pass  # profiles are retired all at once

    def _delete(self, table: Table, row_id: int | None, references: list[ColumnElement[int]]) -> None:
        """Delete a row that nothing refers to; another one is not declared any more."""
        unused = and_(*(not_(exists().where(column == table.c.id)) for column in references))
        self._connection.execute(update(table).where(table.c.id == row_id).values(declared=False))
        self._connection.execute(delete(table).where(table.c.id == row_id, unused))


def _definition(entry: ProfileEntry, ids: Mapping[str, Mapping[str, int]]) -> ProfileDefinition:
    return ProfileDefinition(
        pool_id=ids["pools"][entry.pool],
        launcher_id=ids["launchers"][entry.launcher],
        key=entry.key,
        proxy_id=ids["proxies"][entry.proxy] if entry.proxy is not None else None,
        tags=entry.tags,
        options=entry.options,
        seed=entry.seed,
        new=entry.new,
    )
