"""What tests of several layers need."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.fleets import Desk
from tests.integration.scheduling.jobs import Jobs


@pytest.fixture
def jobs(desk: Desk) -> Iterator[Jobs]:
    """Makes jobs of the desk's pool; they are gone when the test is over."""
    made = Jobs(desk.database, desk)
    yield made
    made.remove_all()
