"""Two scheduled jobs over pages that nobody here wrote, shared by two daemons, from fleet.toml to clean end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.daemons import Daemons, hosts, job, pool_of
from tests.fixtures.conditions import until
from tests.fixtures.real_pages import expected, served, spread

EXTRACT = '{ title = "title", heading = { css = "h1, h2, h3, h4, h5, h6", required = false } }'


PAGES = 300


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_daemons_share_two_scheduled_jobs(manual: Path, nginx: str, tmp_path: Path, daemons: Daemons) -> None:
    chosen = spread(sorted(manual.glob("*.html")), PAGES)
    assert len(set(chosen)) == PAGES
    with served(nginx, manual, tmp_path) as address:
        urls = [f"{address}/{page.name}" for page in chosen]
        values = {"concurrency": "2", "extract": EXTRACT}
        once = daemons.one("SELECT clock_timestamp() + interval '12 seconds' AS soon").soon.isoformat()
        file = daemons.write(
            pool_of(4),
            hosts(address.removeprefix("http://")),
            job("evens", urls[::2], schedule='{ every = "10s" }', **values),
            job("odds", urls[1::2], schedule=f'{{ once = "{once}" }}', **values),
        )
        applied = daemons.run("apply", str(file))
        assert applied.wait(seconds=60) == 0, applied.output
        assert daemons.code_of("healthcheck") == 1, "there is no daemon yet"
        first, second = daemons.start("--max-browsers", "4"), daemons.start("--max-browsers", "4")
        until(lambda: daemons.all("SELECT FROM poolsql.runs WHERE name = 'evens'"), seconds=60)
        assert daemons.code_of("job", "pause", "evens", "--reason", "one run is enough") == 0
        daemons.wait_for("done", 3, seconds=60)
        health = daemons.run("healthcheck")
        assert health.wait(seconds=30) == 0, health.output
        assert health.output == "2 daemons are well"
        daemons.wait_until_over(runs=2, seconds=900)
        until(lambda: not daemons.leases(), seconds=30)
        daemons.end(first, second)
    assert daemons.code_of("healthcheck") == 1

    tasks = daemons.tasks()
    found = {task.url.rpartition("/")[2]: (task.result["title"], task.result["heading"]) for task in tasks}
    # A field of text folds all white space.
    assert found == {
        page.name: tuple(" ".join(part.split()) if part else None for part in expected(page)) for page in chosen
    }
    runs = daemons.all(
        "SELECT runs.*, jobs.name AS job, runs.instant <= runs.created_at AS in_time FROM poolsql.runs "
        "JOIN poolsql.jobs ON jobs.id = runs.job_id ORDER BY jobs.name"
    )
    # An instant that came before the pause, in the middle of the run, was skipped.
    worked = [(run.job, run.state, run.in_time) for run in runs if run.state != "skipped"]
    assert worked == [("evens", "done", True), ("odds", "done", True)]
    visits = daemons.visits()
    assert {visit.outcome for visit in visits} == {"success"}
    assert sorted(visit.task_id for visit in visits) == [task.id for task in tasks], "each page was visited once"
    shares = [sum(visit.worker_id == worker.id for visit in visits) for worker in daemons.workers()]
    assert len(shares) == 2
    assert min(shares) >= PAGES // 10, f"one daemon did nearly all: {shares}"
    daemons.check_nothing_held()
    daemons.check_signed_off()
