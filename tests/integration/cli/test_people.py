"""What people do to a command: they sit at a terminal, pipe it into another program, and press Ctrl-C."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from poolsql.database.embedded import default_directory, stop_embedded_server
from tests.fixtures.conditions import until
from tests.fixtures.fleets import Desk
from tests.integration.cli.programs import Program, address
from tests.integration.cli.terminals import OnTerminal
from tests.integration.scheduling.jobs import Jobs

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

ANSWERS = [("y\n", 0, "reclaiming"), ("n\n", 2, "held")]


@pytest.mark.parametrize(("answer", "code", "state"), ANSWERS)
def test_a_question_is_asked_on_a_terminal(
    on_database: Program, desk: Desk, answer: str, code: int, state: str
) -> None:
    granted = desk.granted()
    with OnTerminal("lease", "revoke", "--pool", desk.pool.name, settings=on_database.settings) as program:
        program.until_text(f"Take all leases of pool {desk.pool.name} from their holders? [y/N]")
        assert desk.lease_row(granted.lease_id).state == "held"
        program.write(answer)
        assert program.end() == code
    assert desk.lease_row(granted.lease_id).state == state
    assert ("nothing was changed" in program.text) == (code != 0)


def test_a_table_on_a_terminal(on_database: Program, desk: Desk) -> None:
    with OnTerminal("profile", "list", "--pool", desk.pool.name, settings=on_database.settings) as program:
        assert program.end() == 0
    assert "\x1b[1m" in program.raw
    assert "─" in program.text
    with OnTerminal("attempt", "list", settings={**on_database.settings, "NO_COLOR": "1"}) as program:
        assert program.end() == 0
    assert "\x1b[3" not in program.raw


def test_a_run_is_watched_with_a_bar_until_it_has_ended(on_database: Program, desk: Desk, jobs: Jobs) -> None:
    name = jobs.define()
    run_id = json.loads(on_database.run("job", "run", name, "--json").out)["run"]
    jobs.execute("UPDATE poolsql.runs SET state = 'running' WHERE id = :run", run=run_id)
    insert = "INSERT INTO poolsql.tasks (run_id, url, host, state) VALUES (:run, 'http://a.test/', 'a.test', 'done')"
    jobs.execute(insert, run=run_id)
    with OnTerminal("run", "watch", run_id, settings=on_database.settings) as program:
        program.until_text("is running, 1 of 1 tasks")
        jobs.end_runs(name)
        assert program.end() == 0
    assert "is done, 1 of 1 tasks" in program.text
    assert "━" in program.text


@pytest.mark.parametrize("command", ["drain", "watch"])
def test_ctrl_c_ends_what_waits_without_a_word_too_many(
    on_database: Program, desk: Desk, jobs: Jobs, command: str
) -> None:
    desk.granted()
    if command == "drain":
        arguments = ["pool", "drain", desk.pool.name]
        waits = "SELECT 1 FROM poolsql.pools WHERE id = :pool AND paused_at IS NOT NULL"
        parameters = {"pool": desk.pool.id}
    else:
        name = jobs.define()
        run_id = json.loads(on_database.run("job", "run", name, "--json").out)["run"]
        arguments, waits, parameters = ["run", "watch", str(run_id)], "SELECT 1", {}
    with on_database.start(*arguments) as process:
        until(lambda: desk.all(waits, **parameters), seconds=60)
        stream = process.stderr if command == "drain" else process.stdout
        assert stream is not None
        first = stream.readline()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
    assert first.rstrip().endswith(("1 lease is still held", "0 running"))
    assert (process.returncode, out, errors) == (130, "", "poolsql: interrupted\n")


def test_a_reader_that_has_had_enough_is_no_error(on_database: Program, new_desk: Callable[..., Desk]) -> None:
    desk = new_desk(profiles=0)
    # More than a pipe holds, so that the program writes when nobody reads any more.
    desk.execute(
        "INSERT INTO poolsql.profiles (pool_id, launcher_id, key) "
        "SELECT :pool, launchers.id, repeat('k', 100) || number "
        "FROM poolsql.launchers, generate_series(1, 3000) AS number WHERE launchers.name = :launcher",
        pool=desk.pool.id,
        launcher=desk.launcher,
    )
    for format_ in ([], ["--json"]):
        with on_database.start("profile", "list", "--pool", desk.pool.name, *format_) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.read(10)
            process.stdout.close()
            errors = process.stderr.read()
            code = process.wait(60)
        assert (code, errors) == (1, "")


def test_a_fleet_without_a_server_of_its_own(program: Program, data_dir: Path) -> None:
    """The embedded server is started and its tables are made, by whatever command comes first."""
    settings = {"POOLSQL_DATA_DIR": str(data_dir)}
    try:
        first = program.run("pool", "status", **settings)
        assert (first.code, first.out, first.errors) == (0, "no pool is defined yet\n", "")
        second = program.run("profile", "list", "--json", **settings)
        assert (second.code, second.out, second.errors) == (0, "[]\n", "")
    finally:
        stop_embedded_server(default_directory(data_dir))


def test_tables_that_do_not_fit_are_refused(program: Program, empty_database: Callable[[], URL]) -> None:
    program.settings["POOLSQL_DATABASE_URL"] = address(empty_database())
    refused = program.run("pool", "status")
    assert refused.code == 3
    assert refused.line.endswith("has no poolsql tables; run: poolsql db upgrade")
