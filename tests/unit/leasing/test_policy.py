"""A pool's policy: the design's defaults, and what cannot be right is refused with all problems at once."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta
from typing import Any

import pytest

from poolsql.database.tables import pools
from poolsql.errors import BadInputError
from poolsql.leasing.policy import PoolPolicy

OPTIONAL = {"retire_after", "retire_rate", "max_uses", "max_age", "target_size"}
DURATIONS = {field.name for field in fields(PoolPolicy) if "timedelta" in str(field.type)}
MAY_BE_ZERO = {"rest", "lost_cooldown"}


def test_the_defaults_are_those_of_the_design() -> None:
    assert PoolPolicy() == PoolPolicy.from_values(
        ttl="90s",
        renew="30s",
        max_lease="30m",
        failure_cooldown="15m",
        failure_cooldown_cap="24h",
        lost_cooldown="30m",
        rest=0,
        hold="30s",
        hold_cap="10m",
        block_pause="15m",
        rate_pause="60s",
        site_back_off="5s",
        site_back_off_cap="10m",
        pause_cap="24h",
        retire_after=5,
        retire_rate=0.6,
        retire_window=20,
        max_uses=None,
        max_age=None,
        target_size=None,
    )


def test_each_value_is_a_column_of_the_pools() -> None:
    assert set(PoolPolicy().columns()) <= set(pools.c.keys())
    assert {name for name in PoolPolicy().columns() if pools.c[name].nullable} == OPTIONAL


def test_a_shorter_ttl_renews_more_often_unless_it_is_told_how_often() -> None:
    assert PoolPolicy.from_values(ttl="60s").renew == timedelta(seconds=20)
    assert PoolPolicy.from_values(ttl="10m").renew == PoolPolicy().renew
    assert PoolPolicy.from_values(ttl="60s", renew="29s").renew == timedelta(seconds=29)


def test_durations_are_read_as_people_write_them() -> None:
    policy = PoolPolicy.from_values(ttl="2m", renew=20, max_lease=timedelta(hours=1), max_age="30d")
    assert (policy.ttl, policy.renew) == (timedelta(minutes=2), timedelta(seconds=20))
    assert (policy.max_lease, policy.max_age) == (timedelta(hours=1), timedelta(days=30))


@pytest.mark.parametrize("name", sorted(DURATIONS - MAY_BE_ZERO))
def test_a_time_of_zero_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match=f"{name} is 0"):
        PoolPolicy.from_values(**{name: 0})


@pytest.mark.parametrize("name", sorted(MAY_BE_ZERO))
def test_some_times_may_be_zero(name: str) -> None:
    assert getattr(PoolPolicy.from_values(**{name: 0}), name) == timedelta(0)


@pytest.mark.parametrize("name", sorted({field.name for field in fields(PoolPolicy)} - OPTIONAL))
def test_a_time_out_of_none_is_refused(name: str) -> None:
    with pytest.raises(BadInputError, match=f"{name} must be"):
        PoolPolicy.from_values(**{name: None})


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_a_rule_can_be_switched_off(name: str) -> None:
    assert getattr(PoolPolicy.from_values(**{name: None}), name) is None


@pytest.mark.parametrize("name", sorted(DURATIONS))
@pytest.mark.parametrize("value", [-1, "-5s", "soon", "", True, float("nan"), float("inf"), timedelta(-1)])
def test_what_is_no_duration_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(BadInputError, match=name):
        PoolPolicy.from_values(**{name: value})


@pytest.mark.parametrize("value", [timedelta(seconds=-1), 90, "90s"])
def test_a_policy_made_directly_is_checked_too(value: Any) -> None:
    with pytest.raises(BadInputError, match="ttl must be a duration"):
        PoolPolicy(ttl=value)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"ttl": "60s", "renew": "30s"}, "renew (30s) must be less than half of ttl (1m)"),
        ({"ttl": "40m"}, "ttl (40m) must not exceed max_lease (30m)"),
        ({"failure_cooldown": "2d"}, "failure_cooldown must not exceed failure_cooldown_cap"),
        ({"hold": "11m"}, "hold must not exceed hold_cap"),
        ({"block_pause": "2d"}, "block_pause must not exceed pause_cap"),
        ({"rate_pause": "2d"}, "rate_pause must not exceed pause_cap"),
        ({"site_back_off": "11m"}, "site_back_off must not exceed site_back_off_cap"),
        ({"retire_rate": 0}, "retire_rate must be above 0 and at most 1"),
        ({"retire_rate": 1.01}, "retire_rate must be above 0 and at most 1"),
        ({"retire_rate": float("nan")}, "retire_rate must be above 0 and at most 1"),
        ({"retire_rate": "half"}, "retire_rate must be above 0 and at most 1"),
    ],
)
def test_what_contradicts_itself_is_refused(values: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputError) as raised:
        PoolPolicy.from_values(**values)
    assert problem in str(raised.value)


@pytest.mark.parametrize("name", ["retire_after", "max_uses", "retire_window", "target_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True, 2**31])
def test_a_count_is_a_whole_number_from_one(name: str, value: Any) -> None:
    with pytest.raises(BadInputError, match=f"{name} must be a whole number from 1"):
        PoolPolicy.from_values(**{name: value})


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(BadInputError) as raised:
        PoolPolicy.from_values(ttl="1h", renew="40m", max_uses=0, retire_rate=2)
    message = str(raised.value)
    assert message.startswith("pool policy: ")
    for part in ("renew (40m)", "ttl (1h)", "max_uses must", "retire_rate must"):
        assert part in message


def test_an_unknown_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(BadInputError, match=r"unknown tll; known are block_pause, .*, ttl$"):
        PoolPolicy.from_values(tll="90s")
