"""What a job's table may say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from poolsql.errors import BadInputError
from poolsql.leasing.outcomes import Outcome
from poolsql.scheduling.definitions import JobDefinition
from poolsql.scheduling.targets import TargetSource

DOCUMENT = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text(encoding="utf-8")

LEAST: dict[str, Any] = {"targets": {"list": ["https://a.test/"]}, "extract": {"title": "h1"}}


def test_the_least_that_a_job_says() -> None:
    definition = JobDefinition.parse(LEAST)
    assert (definition.concurrency, definition.task_timeout, definition.retries.retries) == (1, 60.0, 2)
    assert definition.load_handler() is not None


def test_everything_that_a_job_can_say() -> None:
    definition = JobDefinition.parse(
        {
            **LEAST,
            "concurrency": 4,
            "task_timeout": "2m",
            "profile_wait": 0,
            "retries": {"default": 1, "site_error": 5, "delay": "1m", "longest_delay": "1h"},
            "page_rules": {"form#login": "session_lost"},
            "wait_until": "load",
            "wait_for": ".price",
            "click": ["#accept"],
            "launch": {"headless": False},
        }
    )
    assert (definition.concurrency, definition.task_timeout, definition.profile_wait) == (4, 120.0, 0.0)
    assert (definition.retries.retries, definition.retries.per_outcome) == (1, {Outcome.SITE_ERROR: 5})
    assert (definition.retries.delay, definition.retries.longest_delay) == (60.0, 3600.0)
    assert definition.page_rules == {"form#login": Outcome.SESSION_LOST}
    assert (definition.steps.wait_until, definition.steps.wait_for) == ("load", ".price")
    assert definition.launch == {"headless": False}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"targets": None}, "targets: write one of"),
        ({"targets": {"list": []}}, "at least one address"),
        ({"targets": {"list": ["shop", "ftp://a.test/"]}}, "targets.list[1]"),
        ({"targets": {"list": [{"url": "https://a.test/", "sed": "1"}]}}, "did you mean 'seed'"),
        ({"targets": {"list": [{"profile": "anna"}]}}, "url: missing"),
        ({"targets": {"list": [{"url": "https://a.test/", "parameters": 3}]}}, "parameters: write a table"),
        ({"targets": {"list": [7]}}, "write an address"),
        ({"targets": {"files": "urls.txt"}}, "targets: write one of"),
        ({"targets": {"file": "a", "query": "b"}}, "targets: write one of"),
        ({"targets": {"file": ""}}, "targets.file: write text"),
        ({"targets": {"file": "~nobody-of-this-name/urls.txt"}}, "whose home that is, is not known"),
        ({"concurrency": 0}, "concurrency: write a whole number from 1"),
        ({"concurrency": True}, "concurrency: write a whole number"),
        ({"task_timeout": 0}, "task_timeout: write a time above 0"),
        ({"task_timeout": "soon"}, "task_timeout: 'soon' is not a duration"),
        ({"task_timeout": "2d"}, "up to a day"),
        ({"retries": -1}, "retries: numbers must be from 0"),
        ({"retries": {"blokced": 1}}, "retries.blokced: unknown; did you mean 'blocked'"),
        ({"retries": {"dely": "5s"}}, "retries.dely: unknown; did you mean 'delay'"),
        ({"retries": {"session_lost": 1}}, "session_lost is never retried"),
        ({"retries": {"profile": "another"}}, "waits for the same profile"),
        ({"retries": "many"}, "whole number"),
        ({"page_rules": {"form": "login"}}, "'login' is nothing that a page can say"),
        ({"page_rules": {"form": "worker_lost"}}, "'worker_lost' is nothing that a page can say"),
        ({"page_rules": {"form": ["blocked"]}}, "is nothing that a page can say"),
        ({"page_rules": {"form#": "blocked"}}, "page_rules 'form#'"),
        ({"extract": {}}, "extract"),
        ({"extract": {"title": "h1["}}, "title"),
        ({"wait_until": "loaded"}, "wait_until"),
        ({"launch": "headed"}, "launch: write a table"),
        ({"concurency": 3}, "concurency: unknown; did you mean 'concurrency'"),
        ({"handler": "a.b:c"}, "either extract"),
    ],
)
def test_what_cannot_be_right_is_told(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadInputError) as caught:
        JobDefinition.parse({**LEAST, **changes})
    assert told in str(caught.value)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(BadInputError) as caught:
        JobDefinition.parse({"concurrency": 0, "task_timeout": 0, "wait_until": "x", "extract": {"a": ""}})
    for key in ("concurrency", "task_timeout", "wait_until", "extract", "targets: missing"):
        assert key in str(caught.value)


def test_a_file_of_targets_is_looked_for_beside_its_fleet_toml(tmp_path: Path) -> None:
    definition = JobDefinition.parse({**LEAST, "targets": {"file": "urls.txt"}}, base=tmp_path)
    assert definition.targets.file == tmp_path / "urls.txt"


def test_what_the_document_shows_is_taken() -> None:
    table = DOCUMENT.partition("| `targets =` |")[2].partition("\n\n")[0]
    shown = re.findall(r"^\| `(\{.*?\})` \|", table, re.MULTILINE)
    sources = [
        TargetSource.parse(tomllib.loads(f"targets = {form.replace('…', 'a.test/')}")["targets"]) for form in shown
    ]
    assert [(source.entries, source.file, source.query).count(None) for source in sources] == [2, 2, 2]


def test_the_document_names_every_key_and_its_default() -> None:
    table = DOCUMENT.partition("## How a run is worked on")[2].partition("\n## ")[0]
    defaults = JobDefinition.parse(LEAST)
    assert f"| `concurrency` | {defaults.concurrency} |" in table
    assert f'| `task_timeout` | `"{defaults.task_timeout:g}s"` |' in table
    assert f'| `profile_wait` | `"{defaults.profile_wait:g}s"` |' in table
    assert f"| `retries` | {defaults.retries.retries} |" in table
    for key in ("page_rules", "launch"):
        assert f"| `{key}` | none |" in table
