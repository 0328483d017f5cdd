"""How a visit or an attempt ended, whom that blames, and what follows from it.

The same table stands in the database as ``poolsql.outcomes`` (written by the migration, compared by a test), so that
the statements that close leases, and everybody's analytics, join it instead of repeating it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Outcome(StrEnum):
    """How a visit (one try of one task) or an attempt (a closed lease) ended."""

    SUCCESS = "success"
    NOT_CLAIMED = "not_claimed"
    NOT_FOUND = "not_found"
    ROBOTS_DISALLOWED = "robots_disallowed"
    CANCELLED = "cancelled"
    TASK_FAILED = "task_failed"
    TASK_TIMEOUT = "task_timeout"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    SITE_ERROR = "site_error"
    LEASE_EXPIRED = "lease_expired"
    WORKER_LOST = "worker_lost"
    LAUNCH_FAILED = "launch_failed"
    PROXY_FAILED = "proxy_failed"
    BROWSER_CRASHED = "browser_crashed"
    RATE_LIMITED = "rate_limited"
    BLOCKED = "blocked"
    CAPTCHA = "captcha"
    SESSION_LOST = "session_lost"


class Blame(StrEnum):
    """Whose fault an outcome is."""

    NOBODY = "nobody"
    TASK = "task"
    HOST = "host"
    PROFILE_HOST = "profile_host"
    """The profile, on this one host."""
    PROXY = "proxy"
    BROWSER = "browser"
    LAUNCHER = "launcher"
    WORKER = "worker"


class ProfileEffect(StrEnum):
    """What an outcome does to the profile's availability."""

    NONE = "none"
    REST = "rest"
    """The pool's rest after a success; everything that counts in a row is reset."""
    COOLDOWN = "cooldown"
    """Growing cooldown on the host, or of the whole profile when no host is named."""
    PAUSE_OF_HOST = "pause_of_host"
    """Cooldown on the host for as long as the host is paused."""
    HOLD = "hold"
    """Short and blameless: the fault was somebody else's."""
    LOST = "lost"
    """The pool's `lost_cooldown`, if the browser had started."""


class HostEffect(StrEnum):
    """What an outcome does to the host, for everybody."""

    NONE = "none"
    RESET = "reset"
    BACK_OFF = "back_off"
    RATE_PAUSE = "rate_pause"
    BLOCK_PAUSE = "block_pause"


class Counts(StrEnum):
    """Whether an outcome counts as a failure of the profile (I5)."""

    NEVER = "never"
    ALWAYS = "always"
    EVERY_THIRD = "every_third"
    """Each third of its kind in a row."""


class Retry(StrEnum):
    """Whether a task is tried again after an outcome."""

    NO = "no"
    PER_JOB = "per_job"
    AFTER_PAUSE = "after_pause"
    """When the host's pause has ended."""
    SAME_PROFILE = "same_profile"
    """When the host's pause has ended, and by no other profile (I12)."""
    YES = "yes"
    """Always: the task itself was not at fault and may not even have begun."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What one outcome means."""

    blames: Blame
    profile_effect: ProfileEffect = ProfileEffect.NONE
    host_effect: HostEffect = HostEffect.NONE
    counts: Counts = Counts.NEVER
    retry: Retry = Retry.NO


RULES: dict[Outcome, Rule] = {
    Outcome.SUCCESS: Rule(Blame.NOBODY, ProfileEffect.REST, HostEffect.RESET),
    Outcome.NOT_CLAIMED: Rule(Blame.NOBODY, retry=Retry.YES),
    Outcome.NOT_FOUND: Rule(Blame.NOBODY),
    Outcome.ROBOTS_DISALLOWED: Rule(Blame.NOBODY),
    Outcome.CANCELLED: Rule(Blame.NOBODY),
    Outcome.TASK_FAILED: Rule(Blame.TASK, retry=Retry.PER_JOB),
    Outcome.TASK_TIMEOUT: Rule(Blame.TASK, retry=Retry.PER_JOB),
    Outcome.DEADLINE_EXCEEDED: Rule(Blame.TASK, retry=Retry.PER_JOB),
    Outcome.SITE_ERROR: Rule(Blame.HOST, host_effect=HostEffect.BACK_OFF, retry=Retry.PER_JOB),
    Outcome.LEASE_EXPIRED: Rule(Blame.WORKER, ProfileEffect.LOST, counts=Counts.EVERY_THIRD, retry=Retry.YES),
    Outcome.WORKER_LOST: Rule(Blame.WORKER, ProfileEffect.LOST, counts=Counts.EVERY_THIRD, retry=Retry.YES),
    Outcome.LAUNCH_FAILED: Rule(Blame.LAUNCHER, ProfileEffect.HOLD, retry=Retry.PER_JOB),
    Outcome.PROXY_FAILED: Rule(Blame.PROXY, ProfileEffect.HOLD, retry=Retry.PER_JOB),
    Outcome.BROWSER_CRASHED: Rule(Blame.BROWSER, ProfileEffect.HOLD, counts=Counts.EVERY_THIRD, retry=Retry.PER_JOB),
    Outcome.RATE_LIMITED: Rule(Blame.HOST, ProfileEffect.PAUSE_OF_HOST, HostEffect.RATE_PAUSE, retry=Retry.AFTER_PAUSE),
    Outcome.SESSION_LOST: Rule(Blame.PROFILE_HOST, ProfileEffect.COOLDOWN, counts=Counts.ALWAYS),
    Outcome.BLOCKED: Rule(
        Blame.PROFILE_HOST,
        ProfileEffect.COOLDOWN,
        HostEffect.BLOCK_PAUSE,
        counts=Counts.ALWAYS,
        retry=Retry.SAME_PROFILE,
    ),
    Outcome.CAPTCHA: Rule(
        Blame.PROFILE_HOST,
        ProfileEffect.COOLDOWN,
        HostEffect.BLOCK_PAUSE,
        counts=Counts.ALWAYS,
        retry=Retry.SAME_PROFILE,
    ),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What somebody says about how a visit ended, and why."""

    outcome: Outcome
    detail: str
    """One line for history."""
    retry_after: timedelta | None = None
    """How long the site said to stay away, in full; only with `Outcome.RATE_LIMITED`."""


def verdict_of(error: BaseException) -> Verdict:
    """What an exception stands for when nobody has said anything better."""
    name = type(error).__name__
    if isinstance(error, Exception):
        return Verdict(Outcome.TASK_FAILED, f"{name}: {error}")
    return Verdict(Outcome.CANCELLED, name)


class StartVerdict(StrEnum):
    """What follows from a browser that did not start (I5)."""

    HOLD = "hold"
    PAUSE = "pause"
    """The profile's own fault: its siblings start well."""
    BREAKER = "breaker"
    """Nothing of the launcher starts: its breaker opens, and no profile is touched."""


def severity(outcome: Outcome) -> int:
    """Place in the order from best (0, success) to worst: an attempt's outcome is its worst visit.

    The order is that of the enumeration: what says nothing about the profile first, then faults of task and site,
    then losses and faults of the machinery, and last what blames the profile.
    """
    return _ORDER[outcome]


_ORDER = {outcome: place for place, outcome in enumerate(Outcome)}
