"""From a run that has fired to its tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import URL

from poolsql.database.engine import Database
from poolsql.errors import BadInputError, DatabaseUnavailableError
from poolsql.leasing import registry
from poolsql.operations.jobs import fire_by_hand
from poolsql.scheduling.firing import Firing
from poolsql.scheduling.preparing import LEFT_TO_OTHERS, prepare_runs
from poolsql.scheduling.targets import TargetSource, check_query, read_targets
from poolsql.settings import Settings
from tests.fixtures.clocks import MovedClock
from tests.fixtures.fleets import Desk
from tests.integration.scheduling.jobs import Jobs

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def prepared(jobs: Jobs, clock: MovedClock) -> Any:
    """Fires a job by hand and prepares its run; returns the run and its tasks."""

    def prepare(targets: Mapping[str, Any], **values: Any) -> tuple[Any, list[Any]]:
        name = jobs.define(None, created=NOON, targets=targets, **values)
        run_id = fire_by_hand(clock.database, name, who="test")
        prepare_runs(clock.database, own=[run_id])
        return jobs.runs(name)[0], jobs.tasks(run_id)

    return prepare


def test_a_list(prepared: Any) -> None:
    run, tasks = prepared({"list": ["https://Shop.test", {"url": "http://shop.test:8080/a", "parameters": {"sku": 7}}]})
    assert run.state == "running"
    assert [(task.url, task.host, task.state, task.parameters) for task in tasks] == [
        ("https://shop.test/", "shop.test", "pending", {}),
        ("http://shop.test:8080/a", "shop.test:8080", "pending", {"sku": 7}),
    ]


def test_a_file_as_it_is_when_the_job_fires(prepared: Any, tmp_path: Path) -> None:
    file = tmp_path / "urls.txt"
    file.write_text("# shops\nhttps://a.test/1\n\nhttps://a.test/2  # second\n")
    _, tasks = prepared({"file": str(file)})
    assert [task.url for task in tasks] == ["https://a.test/1", "https://a.test/2"]


def test_a_missing_file_fails_the_run_and_says_so(prepared: Any, tmp_path: Path) -> None:
    run, tasks = prepared({"file": str(tmp_path / "none.txt")})
    assert (run.state, tasks) == ("failed", [])
    assert run.ended_at is not None
    assert "none.txt" in run.detail


def test_a_query(prepared: Any) -> None:
    query = (
        "SELECT 'https://a.test/' || n || '?q=100%' AS url, n AS seed, jsonb_build_object('n', n) AS parameters "
        "FROM generate_series(1, 2500) AS n ORDER BY n;"
    )
    run, tasks = prepared({"query": query})
    assert run.state == "running"
    assert len(tasks) == 2500, "more than one statement writes at once"
    assert (tasks[2].url, tasks[2].seed, tasks[2].parameters) == ("https://a.test/3?q=100%", "3", {"n": 3})


def test_a_query_without_rows_is_a_run_without_tasks(prepared: Any) -> None:
    run, tasks = prepared({"query": "SELECT 'https://a.test/' AS url WHERE false"})
    assert (run.state, tasks) == ("running", [])


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("DELETE FROM poolsql.profiles RETURNING key AS url", "syntax error"),
        ("WITH gone AS (DELETE FROM poolsql.profiles RETURNING key) SELECT key AS url FROM gone", "top level"),
        ("SELECT nextval('poolsql.profiles_id_seq')::text AS url", "read-only"),
        (
            "SELECT 1 AS url) AS x; DELETE FROM poolsql.profiles; SELECT (1",
            "multiple commands",
        ),
        ("SELECT 1 AS url) AS x; COMMIT; SELECT (1", "multiple commands"),
        ("SELECT 'https://a.test/' AS address", "gives address"),
        ("SELECT 'https://a.test/' AS url, 1 AS price", "gives url, price"),
        ("SELECT key FROM poolsql.no_such_table", "no_such_table"),
        ("SELECT 'ftp://a.test/' AS url", "ftp://a.test/"),
        ("SELECT NULL AS url", "url"),
        ("SELECT", "gives no columns"),
        ("-- nothing", "syntax error"),
    ],
)
def test_a_query_that_writes_or_is_no_query_of_targets_is_refused(
    clock: MovedClock, desk: Desk, query: str, told: str
) -> None:
    before = desk.picture()
    with pytest.raises(BadInputError, match=r"targets\.query") as caught:
        check_query(clock.database, query)
    assert told in str(caught.value)
    assert desk.picture() == before


def test_a_query_that_takes_too_long_is_its_own_fault(database_url: URL, settings: Settings) -> None:
    impatient = Database(database_url, settings.model_copy(update={"statement_timeout": 0.2}))
    try:
        with pytest.raises(BadInputError, match="statement timeout"):
            read_targets(impatient, TargetSource(query="SELECT 'x' AS url FROM pg_sleep(60)"))
    finally:
        impatient.close()


def test_what_cannot_be_visited_is_a_task_that_has_failed(prepared: Any) -> None:
    run, tasks = prepared({"query": "VALUES ('https://a.test/1'), ('shop'), (NULL)) AS t(url"})
    assert run.state == "failed", "not a table by itself"
    run, tasks = prepared({"query": "SELECT * FROM (VALUES ('https://a.test/1'), ('shop'), (NULL)) AS t(url)"})
    assert run.state == "running"
    assert [(task.url, task.state, task.outcome) for task in tasks] == [
        ("https://a.test/1", "pending", None),
        ("shop", "failed", "task_failed"),
        ("", "failed", "task_failed"),
    ]
    assert "not an http:// or https:// address" in tasks[1].detail


def test_what_cannot_be_visited_keeps_no_password(prepared: Any) -> None:
    _, (task,) = prepared({"query": "SELECT 'https://user:hunter2@shop example/p' AS url"})
    assert task.state == "failed"
    assert "hunter2" not in f"{task.url}{task.detail}"


def test_a_target_names_its_profile_by_key(prepared: Any, desk: Desk) -> None:
    (profile_id,) = desk.profile_ids
    key = desk.profile(profile_id).key
    _, tasks = prepared(
        {
            "list": [
                {"url": "https://a.test/1", "profile": key, "seed": "s-1"},
                {"url": "https://a.test/2", "profile": f"{desk.launcher}/{key}"},
                {"url": "https://a.test/3", "profile": "somebody"},
            ]
        }
    )
    assert [(task.profile_id, task.seed, task.state) for task in tasks] == [
        (profile_id, "s-1", "pending"),
        (profile_id, None, "pending"),
        (None, None, "failed"),
    ]
    assert "'somebody'" in tasks[2].detail


def test_a_key_that_two_launchers_have_needs_the_launcher(prepared: Any, desk: Desk, clock: MovedClock) -> None:
    key = desk.profile(desk.only).key
    other = f"other-{key}"
    registry.define_launcher(clock.database, other, kind="local", pins_machine=True, options={}, machines=None)
    registry.add_profile(clock.database, desk.pool, key, launcher=other)
    _, tasks = prepared({"list": [{"url": "https://a.test/", "profile": name} for name in (key, f"{other}/{key}")]})
    assert [task.state for task in tasks] == ["failed", "pending"]
    assert "launcher/key" in tasks[0].detail


def test_a_job_of_fleet_toml_visits_declared_hosts_only(prepared: Any, jobs: Jobs) -> None:
    jobs.execute("INSERT INTO poolsql.hosts (name, declared) VALUES ('known.test', true), ('seen.test', false)")
    urls = [f"https://{host}/" for host in ("known.test", "seen.test", "new.test")]
    _, tasks = prepared({"list": urls}, declared=True)
    assert [task.state for task in tasks] == ["pending", "failed", "failed"]
    assert '[hosts."new.test"]' in tasks[2].detail


def test_a_run_of_a_daemon_that_died_is_prepared_by_another_once(
    jobs: Jobs, clock: MovedClock, threads: ThreadPoolExecutor
) -> None:
    name = jobs.define({"every": "1h"}, created=NOON, targets={"list": ["https://a.test/1", "https://a.test/2"]})
    clock.set(NOON + timedelta(hours=1))
    (fired,) = Firing(clock.database).fire_due()
    assert fired.run_id is not None
    prepare_runs(clock.database)
    assert jobs.tasks(fired.run_id) == [], "for a while it is left to who fired it"
    clock.set(NOON + timedelta(hours=1, seconds=LEFT_TO_OTHERS + 1))
    for done in [threads.submit(prepare_runs, clock.database) for _ in range(8)]:
        done.result()
    assert len(jobs.tasks(fired.run_id)) == 2
    assert jobs.runs(name)[0].state == "running"


def test_a_run_that_was_fired_by_hand_is_prepared_by_whoever_sees_it(jobs: Jobs, clock: MovedClock) -> None:
    name = jobs.define(None, targets={"list": ["https://a.test/1"]})
    run_id = fire_by_hand(clock.database, name, who="test")
    prepare_runs(clock.database)
    assert len(jobs.tasks(run_id)) == 1


def test_a_run_that_was_cancelled_before_gets_no_tasks(jobs: Jobs, clock: MovedClock) -> None:
    name = jobs.define(None, created=NOON, targets={"list": ["https://a.test/1"]})
    run_id = fire_by_hand(clock.database, name, who="test")
    jobs.execute("UPDATE poolsql.runs SET state = 'cancelled', ended_at = now() WHERE id = :id", id=run_id)
    prepare_runs(clock.database, own=[run_id])
    assert jobs.tasks(run_id) == []


def test_a_database_that_is_away_is_no_fault_of_the_query(clock: MovedClock, jobs: Jobs) -> None:
    name = jobs.define(
        None,
        created=NOON,
        targets={"query": "SELECT 'https://a.test/' AS url, pg_terminate_backend(pg_backend_pid())::text AS seed"},
    )
    run_id = fire_by_hand(clock.database, name, who="test")
    with pytest.raises(DatabaseUnavailableError):
        prepare_runs(clock.database, own=[run_id])
    assert jobs.runs(name)[0].state == "due", "it is tried again"
    jobs.end_runs(name)


def test_a_definition_that_cannot_be_read_fails_the_run(jobs: Jobs, clock: MovedClock) -> None:
    name = jobs.define(None, created=NOON)
    run_id = fire_by_hand(clock.database, name, who="test")
    jobs.execute(
        "UPDATE poolsql.runs SET definition = CAST(:new AS jsonb) WHERE id = :id",
        id=run_id,
        new=json.dumps({"concurency": 2}),
    )
    prepare_runs(clock.database, own=[run_id])
    (run,) = jobs.runs(name)
    assert run.state == "failed"
    assert "did you mean 'concurrency'" in run.detail
