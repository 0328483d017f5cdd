"""``demo --urls`` over pages that nobody here wrote: PostgreSQL's manual, served by nginx on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.request import urlopen

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from tests.acceptance.demo_program import DemoProgram
from tests.fixtures.programs import program_directory
from tests.fixtures.real_pages import expected, served, spread

PAGES = 100


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_page_has_its_title_and_heading_though_a_worker_is_killed(
    manual: Path, nginx: str, tmp_path: Path, database_url: URL, database: Database
) -> None:
    pages = spread(sorted(manual.glob("*.html")), PAGES)
    assert len(set(pages)) == PAGES
    with program_directory() as directory, served(nginx, manual, tmp_path) as address:
        with urlopen(f"{address}/{pages[0].name}", timeout=5) as answer:
            assert answer.read() == pages[0].read_bytes()
        addresses = tmp_path / "addresses.txt"
        addresses.write_text("".join(f"{address}/{page.name}\n" for page in pages), encoding="utf-8")
        demo = DemoProgram(
            "--urls",
            str(addresses),
            directory=directory,
            POOLSQL_DATABASE_URL=database_url.render_as_string(hide_password=False),
        )
        assert demo.wait(seconds=180) == 0, demo.output

    with database.connect() as connection:
        rows = connection.execute(text("SELECT * FROM poolsql.tasks ORDER BY id")).all()
        lost = connection.execute(text("SELECT * FROM poolsql.attempts WHERE outcome = 'worker_lost'")).all()
        results = connection.execute(
            text(
                "SELECT task_id, count(*) AS number FROM poolsql.visits "
                "WHERE outcome = 'success' AND task_id IS NOT NULL GROUP BY task_id"
            )
        ).all()
    found = {row.url.rpartition("/")[2]: (row.result["title"], row.result["heading"]) for row in rows if row.result}
    assert found == {page.name: expected(page) for page in pages}
    assert {row.number for row in results} == {1}
    assert len(results) == PAGES

    assert f"Results (poolsql.tasks): {PAGES} of {PAGES} done" in demo.output
    killed = re.search(r"kill -9 (\d+): .* lease (\d+) on", demo.output)
    assert killed is not None, demo.output
    (attempt,) = [row for row in lost if row.lease_id == int(killed[2])]
    (again,) = [row for row in rows if row.url == attempt.task]
    assert (again.state, again.tries) == ("done", 2), "the page in which the worker died was not done by another"
    ended = [row.changed_at for row in rows]
    assert min(ended) < attempt.ended_at < max(ended), "the kill was not in the middle"
