"""A fleet for daemons, and a site for their jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from poolsql.database.engine import Database
from tests.acceptance.daemons import Daemons, daemons_on
from tests.sites.numbered import NumberedSite


@pytest.fixture
def daemons(database: Database, tmp_path: Path) -> Iterator[Daemons]:
    """The module's database, emptied, and daemons on it."""
    with daemons_on(database, tmp_path) as made:
        yield made


@pytest.fixture
def numbered() -> Iterator[NumberedSite]:
    """A site of small pages with numbers."""
    with NumberedSite() as site:
        yield site
