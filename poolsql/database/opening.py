"""From settings to an open database: the address that is configured, else the embedded server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from poolsql.database.addresses import database_address
from poolsql.database.engine import Database
from poolsql.settings import Settings


@contextmanager
def open_database(settings: Settings, *, direct: bool = False) -> Iterator[Database]:
    """Open the process's database, and close it at the end.

    Args:
        settings: Names the address; without one the embedded server in `settings.data_dir` is started or joined.
        direct: Use the address that bypasses a connection pooler, where one is set.

    Raises:
        BadInputError: The address or the embedded server's directory cannot be right.
        DatabaseUnavailableError: The embedded server did not start. A configured server is only reached for at
            the first statement.
    """
    address = settings.database_url
    if direct and settings.direct_database_url is not None:
        address = settings.direct_database_url
    if address is not None:
        database = Database(database_address(address.get_secret_value()), settings)
        try:
            yield database
        finally:
            database.close()
        return
    from poolsql.database.embedded import open_embedded_server

    with open_embedded_server(settings.data_dir) as server:
        database = Database(database_address(server.url, name="embedded server"), settings)
        try:
            yield database
        finally:
            database.close()
