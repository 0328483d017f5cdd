"""The demo as a newcomer sees it: the real program, once from beginning to end, and cut short."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolsql.demo.shop import ShopSite
from tests.acceptance.demo_program import DemoProgram
from tests.fixtures.programs import program_directory


@pytest.fixture
def directory() -> Iterator[Path]:
    with program_directory() as made:
        yield made


def psql(demo: DemoProgram, query: str) -> str:
    """What the printed psql line answers."""
    command = shlex.split(demo.line_with("postgresql://"))
    if shutil.which(command[0]) is None:
        pytest.skip("there is no psql: apt install postgresql-client")
    return subprocess.run([*command, "-Atc", query], check=True, capture_output=True, text=True, timeout=20).stdout


def test_from_beginning_to_end(directory: Path) -> None:
    demo = DemoProgram(directory=directory)
    demo.line_with("Look in from another terminal")
    set_up = demo.seconds
    assert int(psql(demo, "SELECT count(*) FROM poolsql.tasks")) == 26, "the psql line does not work while it runs"
    assert demo.wait(seconds=150) == 0, demo.output
    assert demo.seconds - set_up < 90, "it has to end within 90 s after set-up"
    assert not demo.sockets.exists()

    output = demo.output
    # The pages: all that can be had, and why the others can't.
    assert "24 of 26 done" in output
    assert re.search(r"members/members +│ captcha +│ +2 │", output), output
    assert re.search(r"shop/private/stocktaking +│ robots_disallowed +│ +0 │", output), output
    assert re.search(r"offers/offers +│ success +│ +2 │", output), "the limited page was not tried again"
    assert re.search(r"offers is left alone for [\d.]+s: rate limited", output)
    assert re.search(r"members is left alone for [\d.]+s: captcha", output)

    # The kill, and what became of the lease.
    killed = re.search(r"kill -9 (\d+): worker (\d) dies in the middle of (\S+), lease (\d+) on (profile-\d)", output)
    assert killed is not None, output
    pid, _, page, lease, profile = killed.groups()
    story = output[output.index(f"What became of lease {lease}") :]
    for step in (
        f"leased: {profile} to process {pid}",
        f"kill -9 of process {pid}, in the middle of {page}",
        "taken back as worker_lost, blamed on the worker; its browser was proven stopped by",
        f"{profile} is offered again",
    ):
        assert step in story
    assert re.search(r"its page was tried again in lease \d+ on profile-\d: success", story)
    assert re.search(rf"{re.escape(page)} +│ success +│ +2 │", output), "the page of the killed worker was not done"
    assert re.search(r"worker_lost +│ worker +│ +1 │ +0 │", output), "a lost worker is no failure of the profile"
    assert "all 6 profiles are available again" in output
    assert len(re.findall(r"│ profile-\d │ active │ available │", output)) == 6

    # How to look further, and nothing that a newcomer would stumble over.
    assert "SELECT visits.host, visits.outcome, visits.blames" in output
    assert output.count("postgresql://") == 2
    assert "--stay" in output
    for clutter in (" INFO ", "WARNING", "Traceback", "\x1b"):
        assert clutter not in output
    assert all(len(line) <= 120 for line in demo.lines if "│" in line or "┃" in line)


@pytest.mark.slow
def test_ctrl_c_after_the_kill_takes_everything_down(directory: Path) -> None:
    demo = DemoProgram(directory=directory)
    demo.line_with("kill -9")
    demo.line_with("dies in the middle of", seconds=90)
    demo.press_ctrl_c()
    demo.line_with("Interrupted")
    demo.press_ctrl_c()
    assert demo.wait(seconds=40) == 130, demo.output
    assert "Traceback" not in demo.output
    assert not demo.sockets.exists()


@pytest.mark.parametrize(("number", "line"), [(signal.SIGTERM, "Setting up"), (signal.SIGHUP, "0/26 pages")])
def test_other_signals_at_other_moments(directory: Path, number: signal.Signals, line: str) -> None:
    demo = DemoProgram(directory=directory)
    demo.line_with(line)
    demo.process.send_signal(number)
    assert demo.wait(seconds=40) == 130, demo.output
    assert "Traceback" not in demo.output


@pytest.mark.slow
def test_stay_keeps_the_database_until_ctrl_c(directory: Path, tmp_path: Path) -> None:
    addresses = tmp_path / "my pages.txt"
    with ShopSite() as site:
        addresses.write_text(f"# mine\n{site.url}\n{site.cookie_url} # and one more\n", encoding="utf-8")
        demo = DemoProgram("--stay", "--urls", str(addresses), directory=directory)
        demo.line_with("Staying up until Ctrl-C", seconds=90)
        found = psql(demo, "SELECT result ->> 'title' FROM poolsql.tasks WHERE state = 'done' ORDER BY id")
        assert found.splitlines() == ["The desk shop", "Welcome"]
        demo.press_ctrl_c()
        assert demo.wait(seconds=40) == 0, "this is how --stay is meant to end"
    assert "2 pages of your own on 1 host" in demo.output


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "cannot read the file"), ("", "names no address"), ("http://ok.test/\nftp://no.test/\n", "line 2")],
)
def test_a_file_of_addresses_that_is_none_is_one_line_and_starts_nothing(
    directory: Path, tmp_path: Path, content: str | None, told: str
) -> None:
    addresses = tmp_path / "addresses.txt"
    if content is not None:
        addresses.write_text(content, encoding="utf-8")
    demo = DemoProgram("--urls", str(addresses), directory=directory)
    assert demo.wait(seconds=30) == 2
    (line,) = demo.lines
    assert told in line
    assert str(addresses) in line


def test_without_a_browser_it_says_what_to_install(directory: Path) -> None:
    demo = DemoProgram(directory=directory, POOLSQL_CHROMIUM="/nonexistent/chromium")
    assert demo.wait(seconds=30) in {1, 2}
    (line,) = demo.lines
    assert "/nonexistent/chromium" in line
