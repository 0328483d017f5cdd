"""Jobs with the clock in the test's hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.clocks import MovedClock
from tests.fixtures.fleets import Desk
from tests.integration.scheduling.jobs import Jobs


@pytest.fixture
def jobs(clock: MovedClock, desk: Desk) -> Iterator[Jobs]:
    """Makes jobs on the database whose clock can be moved; they are gone when the test is over."""
    made = Jobs(clock.database, desk)
    yield made
    made.remove_all()
