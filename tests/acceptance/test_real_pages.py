"""``demo --urls`` over 100 pages that nobody here wrote: PostgreSQL's manual, served by nginx on this machine."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.request import urlopen

import pytest
from sqlalchemy import text
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from tests.acceptance.demo_program import DemoProgram, demo_directory
from tests.fixtures.conditions import until

PAGES = 100
SECONDS = 150
HEADINGS = frozenset(f"h{level}" for level in range(1, 7))


def missing(what: str, install: str) -> None:
    """Skip, but never where the project's promise is checked."""
    message = f"{what} is missing; run: apt install {install}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture
def manual() -> Path:
    """The manual's HTML pages, as Debian's package of any version has them."""
    found = sorted(Path("/usr/share/doc").glob("postgresql-doc-*/html"))
    if not found:
        missing("the PostgreSQL manual in /usr/share/doc/postgresql-doc-*/html", "postgresql-doc-15")
    return found[-1]


@pytest.fixture
def nginx() -> str:
    """The web server."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        missing("nginx", "nginx-light")
    return str(found)


@contextmanager
def served(program: str, root: Path, directory: Path) -> Iterator[str]:
    """Serve a directory from a port of this machine, without anything of the system's own nginx."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    configuration = directory / "nginx.conf"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"  {kind}_temp_path {directory}/{kind};" for kind in kinds)
    user = "user root;" if os.geteuid() == 0 else ""
    configuration.write_text(
        f"""
{user}
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
events {{}}
http {{
  access_log off;
{temporary}
  types {{ text/html html; text/css css; image/svg+xml svg; }}
  charset utf-8;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
""",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [program, "-p", str(directory), "-e", f"{directory}/error.log", "-c", str(configuration)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(lambda: _answers(port) or process.poll() is not None, seconds=10)
        assert process.poll() is None, (directory / "error.log").read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=10)


def _answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


class Reader(HTMLParser):
    """Title and first heading of a page, by a parser that has nothing to do with a browser."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title: str | None = None
        self.heading: str | None = None
        self._inside: str | None = None
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wanted = self.title is None if tag == "title" else tag in HEADINGS and self.heading is None
        if wanted and self._inside is None:
            self._inside, self._text = tag, ""

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag != self._inside:
            return
        if tag == "title":
            # A document's title folds the white space of HTML, to which the no-break space does not belong.
            self.title = re.sub(r"[ \t\n\f\r]+", " ", self._text).strip(" ")
        else:
            self.heading = " ".join(self._text.split())
        self._inside = None


def expected(page: Path) -> tuple[str | None, str | None]:
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    return reader.title, reader.heading


def spread(pages: Sequence[Path], count: int) -> list[Path]:
    """Some of the pages, from everywhere in the manual."""
    return [pages[index * len(pages) // count] for index in range(count)]


def test_every_page_has_its_title_and_heading_though_a_worker_is_killed(
    manual: Path, nginx: str, tmp_path: Path, database_url: URL, database: Database
) -> None:
    pages = spread(sorted(manual.glob("*.html")), PAGES)
    assert len(set(pages)) == PAGES
    with demo_directory() as directory, served(nginx, manual, tmp_path) as address:
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
        assert demo.wait(seconds=SECONDS) == 0, demo.output

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
