"""A Postgres server of poolsql's own, for those who name none: started by its first user, stopped by its last."""

from __future__ import annotations

from poolsql.database.embedded.layout import default_directory
from poolsql.database.embedded.server import EmbeddedServer, open_embedded_server, stop_embedded_server

__all__ = ["EmbeddedServer", "default_directory", "open_embedded_server", "stop_embedded_server"]
