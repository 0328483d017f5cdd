"""A fleet: everything in one database."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from poolsql.database.engine import Database
from poolsql.database.fleet_database import open_fleet_database
from poolsql.fleet.browsers import build_launcher
from poolsql.fleet.pool import Pool
from poolsql.fleet.runtime import Runtime
from poolsql.leasing import registry, retirement
from poolsql.leasing.policy import PoolPolicy
from poolsql.leasing.reaper import Reaped
from poolsql.leasing.registry import LauncherRow
from poolsql.leasing.retirement import Retired
from poolsql.leasing.worker import Worker
from poolsql.settings import Settings, load_settings


class Fleet:
    """Pools, launchers, proxies and profiles, and what keeps them healthy. Safe to use from several threads."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        """The open database, for queries of your own."""
        self.settings = settings
        self._runtime = Runtime(database, settings)

    @property
    def worker(self) -> Worker:
        """This process as the database knows it; written down at its first use.

        Raises:
            BadInputError: The fleet is closed.
        """
        return self._runtime.worker

    def pool(self, name: str) -> Pool:
        """A pool by its name.

        Raises:
            UnknownNameError: There is no such pool; the message names those that there are.
        """
        return Pool(self._runtime, registry.find_pool(self.database, name))

    def define_pool(self, name: str, **policy: Any) -> Pool:
        """Create a pool, or give an existing one this policy: see `PoolPolicy`, durations as people write them.

        Raises:
            BadInputError: The policy contradicts itself; nothing was changed.
        """
        return Pool(self._runtime, registry.define_pool(self.database, name, PoolPolicy.from_values(**policy)))

    def define_launcher(
        self, name: str, *, kind: str = "local", machines: Sequence[str] | None = None, **options: Any
    ) -> None:
        """Create a launcher, or change an existing one of the same kind.

        Args:
            machines: Only workers of these machines are offered its profiles; None: all.
            kind: ``local`` (Chromium on this machine) or ``rest`` (a product with an HTTP API).
            options: As the kind of launcher knows them: see `poolsql.launchers.local.command.LocalOptions`,
                `poolsql.launchers.rest.options.RestOptions` and the page on launchers in the documentation.

        Raises:
            BadInputError: The kind is unknown or an option cannot be right; nothing was changed.
        """
        launcher = build_launcher(LauncherRow(name, kind, options), self.settings)
        registry.define_launcher(
            self.database, name, kind=kind, pins_machine=launcher.pins_machine, options=options, machines=machines
        )

    def define_proxy(
        self,
        name: str,
        server: str,
        *,
        username: str | None = None,
        secret: str | None = None,
        shared: bool = False,
    ) -> None:
        """Create a proxy, or change an existing one.

        Args:
            server: ``scheme://host:port``, without credentials.
            secret: Where the password is, as ``env:NAME`` or ``file:/path``; never the password.
            shared: Several profiles may use it.

        Raises:
            ConflictError: Several profiles use it and `shared` is False.
            BadInputError: The server holds credentials, or the secret is none of the two forms.
        """
        registry.define_proxy(self.database, name, server=server, username=username, secret=secret, shared=shared)

    def change_profile(self, profile_id: int, action: str, *, who: str, reason: str | None = None) -> None:
        """Let an operator ``activate``, ``pause``, ``resume``, ``retire`` or ``restore`` a profile; audited.

        Raises:
            BadInputError: The profile's state does not allow it, or there is no such action.
            UnknownNameError: There is no such profile.
        """
        retirement.change_state(self.database, profile_id, action, who=who, reason=reason)

    def reap(self) -> Reaped:
        """Take back leases that expired or whose process on this machine is dead, and stop their browsers here."""
        return self._runtime.reap()

    def retire_due(self) -> list[Retired]:
        """Retire the free profiles that meet a rule of their pool."""
        return retirement.retire_due(self.database)

    def close(self) -> None:
        """End browser sessions, sign the worker off and close all connections. Closing twice is no error.

        Leases that are still held are lost to their holders and expire.
        """
        self._runtime.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Connected(Fleet):
    """A fleet that owns its connection."""

    def __init__(self, settings: Settings) -> None:
        resources = ExitStack()
        super().__init__(resources.enter_context(open_fleet_database(settings)), settings)
        # A script that forgets to close must not leave an embedded server behind.
        self._finalizer = weakref.finalize(self, resources.close)

    def close(self) -> None:
        super().close()
        self._finalizer()


def connect(url: str | None = None, **settings: Any) -> Fleet:
    """Connect to a fleet.

    Args:
        url: Postgres address; default: ``POOLSQL_DATABASE_URL``, else the embedded server, whose tables are
            brought up to date by themselves.
        settings: Values that win over ``POOLSQL_*``; see `poolsql.settings.Settings`.

    Raises:
        DatabaseUnavailableError: The database cannot be reached.
        SchemaMismatchError: Its tables do not fit this code; the message names the command.
        SessionSettingsError: It is reached through a connection pooler whose sessions would give wrong answers; the
            message names the command.
        BadInputError: A setting cannot be right.
    """
    if url is not None:
        settings["database_url"] = url
    return _Connected(load_settings(**settings))
