"""From settings to an open database: the address that is configured, else the embedded server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from poolsql.database.addresses import database_address
from poolsql.database.embedded import default_directory, open_embedded_server
from poolsql.database.engine import Database
from poolsql.errors import BadInputError
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
    address, name = settings.database_url, "POOLSQL_DATABASE_URL"
    if settings.direct_database_url is not None:
        if address is None:
            raise BadInputError("POOLSQL_DIRECT_DATABASE_URL is set without POOLSQL_DATABASE_URL; set both, or neither")
        if direct:
            address, name = settings.direct_database_url, "POOLSQL_DIRECT_DATABASE_URL"
    with ExitStack() as resources:
        if address is not None:
            url = database_address(address.get_secret_value(), name=name)
        else:
            server = resources.enter_context(open_embedded_server(default_directory(settings.data_dir)))
            url = database_address(server.url, name="the embedded server's address")
        database = Database(url, settings)
        resources.callback(database.close)
        yield database
