"""Connections through a pooler such as PgBouncer, which lends a server's session for one transaction at a time.

What a session keeps is then anybody's: a lock, a LISTEN, a prepared statement, a SET. So nothing of that is used there,
and settings come from the role in the database (`poolsql.database.role_settings`). Without a pooler every connection is
told its settings as it starts.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.pool import ConnectionPoolEntry

from poolsql.database.sessions import connection_arguments, keeps_its_session, session_values
from poolsql.settings import Settings

# As PgBouncer says it, and Amazon's proxy.
_REFUSES_OPTIONS = re.compile(r"unsupported startup parameter|support command-line options")


class Connector:
    """Makes connections to one address, and notices for each of them whether a pooler stands in between."""

    def __init__(self, url: URL, settings: Settings) -> None:
        self._arguments = connection_arguments(url, settings)
        self._values = session_values(settings)
        # Options that the address asks for cannot be left out: nobody would notice that they are missing.
        self._needs_options = "options" in url.query
        self._options_refused = False

    def connect(self, conninfo: str = "", **arguments: Any) -> psycopg.Connection[Any]:
        """A connection that has the settings of a session of ours, or leads through a pooler and keeps no session.

        Args:
            conninfo: As psycopg wants it, as are the `arguments`; ours win.

        Raises:
            psycopg.Error: It could not be made.
        """
        connection = self._connected(conninfo, {**arguments, **self._arguments})
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def do_connect(self, _: Dialect, __: ConnectionPoolEntry, given: list[Any], named: dict[str, Any]) -> Any:
        """The same for SQLAlchemy, as its event of this name wants it."""
        return self.connect(*given, **named)

    def _connected(self, conninfo: str, arguments: dict[str, Any]) -> psycopg.Connection[Any]:
        if not self._options_refused:
            try:
                return psycopg.connect(conninfo, **arguments)
            except psycopg.OperationalError as error:
                if self._needs_options or not _REFUSES_OPTIONS.search(str(error)):
                    raise
        bare = {name: value for name, value in arguments.items() if name != "options"}
        connection = psycopg.connect(conninfo, **bare)
        # Asked once only: each refusal costs a connection.
        self._options_refused = True
        return connection

    def _prepare(self, connection: psycopg.Connection[Any]) -> None:
        autocommit = connection.autocommit
        connection.autocommit = True
        if not keeps_its_session(connection):
            connection.prepare_threshold = None
        elif self._options_refused:
            # The session is ours all the same: another server answers at this address by now, or such a pooler.
            for name, value in self._values.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        connection.autocommit = autocommit
