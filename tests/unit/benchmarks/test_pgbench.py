from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from benchmarks.pgbench import as_script, variables

WORKER = UUID("00000000-0000-0000-0000-000000000001")


def test_each_parameter_is_sent_as_one_and_nothing_is_known_to_the_planner() -> None:
    query = "SELECT 5 %% 3, %(id)s::bigint, %(worker)s, %(host)s::text, %(lease)s"
    parameters = {"id": 7, "worker": WORKER, "host": None}
    script = as_script(query, parameters, {"lease": ":got_lease"})
    assert script == "SELECT 5 % 3, :id::bigint, :worker::uuid, nullif(:nothing, 'nothing')::text, :got_lease"


def test_values_are_written_as_postgres_reads_them() -> None:
    parameters = {"id": 7, "tags": [], "hold": True, "life": timedelta(seconds=2.5), "worker": WORKER, "host": None}
    assert variables(parameters) == {
        "id": "7",
        "tags": "{}",
        "hold": "true",
        "life": "2.5 seconds",
        "worker": str(WORKER),
        "nothing": "nothing",
    }


def test_a_list_with_something_in_it_is_refused() -> None:
    with pytest.raises(ValueError, match="shop"):
        variables({"tags": ["shop"]})
