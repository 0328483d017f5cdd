"""How one process works on a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from poolsql.leasing.outcomes import Outcome
from poolsql.scraping.retries import RetryPolicy
from poolsql.scraping.steps import DEFAULT_WAIT_UNTIL, WaitUntil


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """How one process works on a run."""

    concurrency: int = 1
    """Browsers at once."""
    task_timeout: float = 60.0
    """Seconds for loading a page and handling it."""
    profile_wait: float = 30.0
    """Seconds that a claimed task waits for a profile before others may have it."""
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    page_rules: Mapping[str, Outcome] = field(default_factory=dict)
    """Selectors whose visible elements mean an outcome on these sites, such as a login form `session_lost`."""
    wait_until: WaitUntil = DEFAULT_WAIT_UNTIL
    """How far a page has to be loaded before it is judged."""
    launch: Mapping[str, Any] = field(default_factory=dict)
    """Launcher options for these browsers; they win over the profile's own."""
    at_once: int | None = None
    """Tasks of the run that all workers together may be busy with; None: any number."""
    upkeep_every: float = 2.0
    """Seconds between two rounds of reaping and of returning tasks of lost workers."""
    reaps: bool = True
    """False: somebody else in this process reaps."""
