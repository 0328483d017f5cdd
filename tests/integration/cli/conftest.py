"""Servers and databases that only these tests need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.settings import Settings
from tests.integration.database.clusters import Cluster


@pytest.fixture
def cluster_url() -> Iterator[URL]:
    """Address of a server of this test's own that wants passwords."""
    with Cluster() as running:
        yield running.url


@pytest.fixture
def opened(settings: Settings) -> Iterator[Callable[[URL], Database]]:
    """Opens a database by its address, and closes it when the test ends."""
    with ExitStack() as stack:

        def connect(url: URL) -> Database:
            database = Database(url, settings)
            stack.callback(database.close)
            return database

        yield connect
