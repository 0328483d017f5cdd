"""States of runs and tasks."""

from __future__ import annotations

from enum import StrEnum


class TaskState(StrEnum):
    """State of a task."""

    PENDING = "pending"
    """May be claimed, once its time has come."""
    RUNNING = "running"
    """Claimed, or worked on under a lease."""
    DONE = "done"
    FAILED = "failed"


class RunState(StrEnum):
    """State of a run."""

    DUE = "due"
    """It has fired; its targets are being looked up."""
    RUNNING = "running"
    DONE = "done"
    """All its tasks have ended, one at least well."""
    FAILED = "failed"
    """Its targets could not be had, or none of its tasks ended well."""
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    """The job's run before was still open."""

    @property
    def open(self) -> bool:
        """Whether something is left to do."""
        return self in {RunState.DUE, RunState.RUNNING}
