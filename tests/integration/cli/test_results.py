"""``poolsql result export``."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from poolsql.operations import results as operations_results
from tests.fixtures.fleets import Desk
from tests.integration.cli.calls import Calls
from tests.integration.scheduling.jobs import Jobs

pytestmark = pytest.mark.usefixtures("no_leaked_locks")


def done(jobs: Jobs, calls: Calls, *results: Mapping[str, Any], name: str | None = None) -> int:
    """A run that found these."""
    run_id = int(calls("job", "run", name or jobs.define(overlap=True), "--json").json["run"])
    for number, result in enumerate(results):
        jobs.execute(
            "INSERT INTO poolsql.tasks (run_id, url, host, state, result, visited_by, visited_seed) "
            "VALUES (:run, :url, 'a.test', 'done', :result, :profile, 'seed-1')",
            run=run_id,
            url=f"http://a.test/{number}",
            result=Jsonb(result),
            profile=jobs.desk.only,
        )
    jobs.execute(
        "INSERT INTO poolsql.tasks (run_id, url, host, state) VALUES (:run, 'http://a.test/', 'a.test', 'failed')",
        run=run_id,
    )
    return run_id


def test_json_lines_carry_where_each_result_came_from(calls: Calls, jobs: Jobs, desk: Desk) -> None:
    run_id = done(jobs, calls, {"title": "Ü", "price": 1.5}, {"title": None})
    exported = calls("result", "export", "--format", "jsonl", "--run", run_id)
    assert (exported.code, exported.errors) == (0, "2 results\n")
    first, second = [json.loads(line) for line in exported.out.splitlines()]
    assert (first["result"], second["result"]) == ({"title": "Ü", "price": 1.5}, {"title": None})
    assert (first["url"], first["host"], first["run"], first["seed"]) == ("http://a.test/0", "a.test", run_id, "seed-1")
    assert first["profile"] == desk.profile(desk.only).key
    assert first["finished_at"].endswith("Z")


def test_a_table_has_a_column_for_every_field_of_any_result(calls: Calls, jobs: Jobs, tmp_path: Path) -> None:
    run_id = done(
        jobs,
        calls,
        {"title": 'a, "b"\nc', "url": "mine", "sizes": [1, 2]},
        {"price": 2.5, "sold": True, "title": ""},
    )
    target = tmp_path / "out.csv"
    exported = calls("result", "export", "--format", "csv", "--run", run_id, "-o", target)
    assert (exported.code, exported.out, exported.errors) == (0, "", f"2 results in {target}\n")
    with target.open(encoding="utf-8", newline="") as file:
        first, second = list(csv.DictReader(file))
    assert list(first)[:8] == ["run", "task", "url", "host", "profile", "seed", "parameters", "finished_at"]
    assert list(first)[8:] == ["price", "sizes", "sold", "title", "result.url"]
    assert (first["title"], first["result.url"], first["url"]) == ('a, "b"\nc', "mine", "http://a.test/0")
    assert (first["sizes"], first["price"], second["price"], second["sold"]) == ("[1, 2]", "", "2.5", "true")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize(
    ("options", "name", "csv_expected"),
    [
        ([], None, False),
        ([], "out.CSV", True),
        ([], "out.jsonl", False),
        ([], "out.txt", False),
        (["--json"], "out.csv", False),
        (["--format", "csv"], "out.jsonl", True),
    ],
)
def test_the_format_follows_from_the_name_of_the_file(
    calls: Calls, jobs: Jobs, tmp_path: Path, options: list[str], name: str | None, csv_expected: bool
) -> None:
    run_id = done(jobs, calls, {"title": "a"})
    target = ["-o", tmp_path / name] if name is not None else []
    exported = calls("result", "export", "--run", run_id, *options, *target)
    assert exported.code == 0
    text = (tmp_path / name).read_text() if name is not None else exported.out
    assert text.startswith("run,task,url" if csv_expected else '{"run": ')


def test_results_are_data_and_are_told_as_they_are(calls: Calls, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "postgresql://ann:hunter2@db.example/x"
    run_id = done(jobs, calls, {"title": page})
    jobs.execute("UPDATE poolsql.tasks SET detail = :page WHERE run_id = :run", page=page, run=run_id)
    assert json.loads(calls("result", "export", "--run", run_id).out)["result"] == {"title": page}
    shown = calls("run", "show", run_id, "--state", "done", "--json").json["tasks"][0]
    assert shown["result"] == {"title": page}
    assert "hunter2" not in shown["detail"], "messages are redacted"


FORMULAS = {
    "=1+1": "'=1+1",
    "+cmd|' /C calc'!A0": "'+cmd|' /C calc'!A0",
    "@SUM(A1)": "'@SUM(A1)",
    "-12.50": "-12.50",
    "+49": "+49",
    "-1.234,56": "-1.234,56",
    "plain = text": "plain = text",
    "\t=1": "'\t=1",
}


@pytest.mark.parametrize("text", FORMULAS)
def test_no_spreadsheet_runs_what_a_page_says(calls: Calls, jobs: Jobs, text: str) -> None:
    run_id = done(jobs, calls, {"title": text})

    def cell(*options: str) -> str:
        exported = calls("result", "export", "--format", "csv", "--run", run_id, *options)
        (row,) = list(csv.DictReader(exported.out.splitlines(keepends=True)))
        return row["title"]

    assert cell() == FORMULAS[text]
    assert cell("--raw") == text


def test_results_are_read_in_portions_and_chosen_by_job(
    calls: Calls, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations_results, "RESULTS_AT_ONCE", 2)
    name = jobs.define(overlap=True)
    for _ in range(2):
        done(jobs, calls, *({"number": number} for number in range(3)), name=name)
    done(jobs, calls, {"number": 99})
    lines = calls("result", "export", "--format", "jsonl", "--job", name).out.splitlines()
    assert [json.loads(line)["result"]["number"] for line in lines] == [0, 1, 2, 0, 1, 2]
    everything = calls("result", "export", "--format", "jsonl").out.splitlines()
    assert len(everything) >= 7


def test_a_file_that_cannot_be_completed_is_not_there(
    calls: Calls, jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = done(jobs, calls, {"title": "a"})
    target = tmp_path / "out.jsonl"
    target.write_text("old")

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", interrupted)
    cut_off = calls("result", "export", "--format", "jsonl", "--run", run_id, "-o", target)
    assert (cut_off.code, cut_off.errors) == (130, "poolsql: interrupted\n")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.jsonl", "old")]


def test_what_cannot_be_right(calls: Calls, tmp_path: Path) -> None:
    assert "there is no run" in calls("result", "export", "--format", "csv", "--run", 2**40).refusal
    assert "there is no job 'x'" in calls("result", "export", "--format", "jsonl", "--job", "x").refusal
    assert "contradict each other" in calls("result", "export", "--json", "--format", "csv").refusal
    assert "Invalid value for '--format'" in calls("result", "export", "--format", "xml").refusal
    nowhere = tmp_path / "no" / "file"
    assert calls("result", "export", "--format", "csv", "-o", nowhere).refusal == (
        f"{nowhere}: cannot write the file (No such file or directory)"
    )
