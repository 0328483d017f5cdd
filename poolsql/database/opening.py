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
    address = settings.database_url
    if settings.direct_database_url is not None and address is None:
        raise BadInputError("POOLSQL_DIRECT_DATABASE_URL is set without POOLSQL_DATABASE_URL; set both, or neither")
    with ExitStack() as resources:
        if address is not None:
            url = database_address(address.get_secret_value())
            direct_url = url
            if settings.direct_database_url is not None:
                bypass = settings.direct_database_url.get_secret_value()
                direct_url = database_address(bypass, name="POOLSQL_DIRECT_DATABASE_URL")
        else:
            server = resources.enter_context(open_embedded_server(default_directory(settings.data_dir)))
            url = direct_url = database_address(server.url, name="the embedded server's address")
        database = Database(direct_url if direct else url, settings, direct_url=direct_url)
        resources.callback(database.close)
        yield database
