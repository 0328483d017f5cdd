"""A pool's policy: the durations and limits by which its leases, cooldowns and retirements go."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from poolsql.durations import Duration, format_duration, parse_duration
from poolsql.errors import BadInputError

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """Durations and limits of one pool; each is a column of ``poolsql.pools``."""

    ttl: timedelta = timedelta(seconds=90)
    """A lease that is not renewed for this long has expired."""
    renew: timedelta = timedelta(seconds=30)
    """How often a worker renews its leases; less than half of `ttl`, so that one lost renewal costs nothing."""
    max_lease: timedelta = timedelta(minutes=30)
    """Longest time that one lease can be held, renewed or not."""
    failure_cooldown: timedelta = timedelta(minutes=15)
    """First cooldown after an outcome that blames the profile; doubles with each further one in a row."""
    failure_cooldown_cap: timedelta = _DAY
    lost_cooldown: timedelta = timedelta(minutes=30)
    """Cooldown after a worker was lost while its browser had started."""
    rest: timedelta = timedelta(0)
    """Pause of the profile after a success."""
    hold: timedelta = timedelta(seconds=30)
    """First hold after somebody else's fault (proxy, browser, launcher); doubles in a row."""
    hold_cap: timedelta = timedelta(minutes=10)
    block_pause: timedelta = timedelta(minutes=15)
    """First pause of a host after blocked or captcha; doubles in a row."""
    rate_pause: timedelta = timedelta(seconds=60)
    """First pause of a host after a 429 or 503 that named no time; doubles in a row."""
    site_back_off: timedelta = timedelta(seconds=5)
    """First pause of a host after a site error; doubles in a row, up to `site_back_off_cap`."""
    site_back_off_cap: timedelta = timedelta(minutes=10)
    pause_cap: timedelta = _DAY
    """Longest pause of a host that poolsql sets by itself; a Retry-After is obeyed in full all the same."""
    retire_after: int | None = 5
    """Retire a profile after this many blamed attempts in a row; None: never."""
    retire_rate: float | None = 0.6
    """Retire a profile when this share of its last `retire_window` attempts were blamed on it; None: never."""
    retire_window: int = 20
    max_uses: int | None = None
    max_age: timedelta | None = None
    target_size: int | None = None
    """How many profiles the pool should have; a shortfall is shown, nothing is created."""

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def from_values(cls, **values: Any) -> PoolPolicy:
        """Build a policy from durations as people write them (``ttl="90s"``).

        A `ttl` without a `renew` renews three times in it, at least every 30 s.

        Raises:
            BadInputError: A name is unknown, or a value contradicts another; all of them are named at once.
        """
        known = {field.name: field for field in fields(cls)}
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise BadInputError(f"pool policy: unknown {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        typed = {name: _typed(name, value, str(known[name].type)) for name, value in values.items()}
        if "ttl" in typed and "renew" not in typed and typed["ttl"]:
            # Whoever shortens the one means the other too.
            typed["renew"] = min(known["renew"].default, typed["ttl"] / 3)
        return cls(**typed)

    def columns(self) -> dict[str, Any]:
        """The policy as column values of ``poolsql.pools``."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _typed(name: str, value: Duration | None, declared: str) -> Any:
    if value is None or "timedelta" not in declared:
        return value
    return parse_duration(value, name=name)


_POSITIVE = (
    *("ttl", "renew", "max_lease", "failure_cooldown", "failure_cooldown_cap", "hold", "hold_cap"),
    *("block_pause", "rate_pause", "site_back_off", "site_back_off_cap", "pause_cap"),
)
_FROM_ZERO = ("lost_cooldown", "rest")
_OPTIONAL_COUNTS = ("retire_after", "max_uses", "target_size")
_CAPPED = (
    ("failure_cooldown", "failure_cooldown_cap"),
    ("hold", "hold_cap"),
    ("block_pause", "pause_cap"),
    ("rate_pause", "pause_cap"),
    ("site_back_off", "site_back_off_cap"),
)
_LARGEST_COUNT = 2**31 - 1
"""What an integer column holds."""


def _check(policy: PoolPolicy) -> None:
    problems = _problems_of_durations(policy) or _contradictions(policy)
    for name in (*_OPTIONAL_COUNTS, "retire_window"):
        number = getattr(policy, name)
        if not _is_count(number) and not (number is None and name in _OPTIONAL_COUNTS):
            problems.append(f"{name} must be a whole number from 1")
    rate = policy.retire_rate
    if rate is not None and not (_is_number(rate) and 0 < rate <= 1):
        problems.append("retire_rate must be above 0 and at most 1")
    if problems:
        raise BadInputError("pool policy: " + "; ".join(problems))


def _problems_of_durations(policy: PoolPolicy) -> list[str]:
    problems: list[str] = []
    for name in (*_POSITIVE, *_FROM_ZERO, "max_age"):
        value = getattr(policy, name)
        if value is None and name == "max_age":
            continue
        if not isinstance(value, timedelta) or value < timedelta(0):
            problems.append(f"{name} must be a duration; write seconds or text such as '90s' or '2m'")
        elif not value and name in _POSITIVE:
            problems.append(f"{name} is 0; a time-out or pause of 0 would never end or never pause")
        elif not value and name == "max_age":
            problems.append("max_age is 0; leave it out to switch it off")
    return problems


def _contradictions(policy: PoolPolicy) -> list[str]:
    problems: list[str] = []
    if policy.renew >= policy.ttl / 2:
        problems.append(
            f"renew ({format_duration(policy.renew)}) must be less than half of ttl ({format_duration(policy.ttl)})"
        )
    if policy.ttl > policy.max_lease:
        problems.append(
            f"ttl ({format_duration(policy.ttl)}) must not exceed max_lease ({format_duration(policy.max_lease)})"
        )
    problems += [
        f"{first} must not exceed {cap}" for first, cap in _CAPPED if getattr(policy, first) > getattr(policy, cap)
    ]
    return problems


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _LARGEST_COUNT


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
