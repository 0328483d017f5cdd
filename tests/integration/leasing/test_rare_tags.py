"""Tags that few profiles carry are looked up by tag; whichever way, the same profile is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poolsql.leasing import rare_tags
from poolsql.leasing.checkout import CHECKOUT, CHECKOUT_BY_TAG, checkout
from poolsql.leasing.rare_tags import COUNT_TAGS, rare_tag
from tests.fixtures.clocks import ManualClock
from tests.fixtures.fleets import Desk, FaultyDatabase

pytestmark = pytest.mark.usefixtures("no_leaked_locks")

NewDesk = Callable[..., Desk]


@pytest.fixture
def desk(new_desk: NewDesk) -> Desk:
    """Of each tag a few profiles; those with the odd ones first in turn."""
    made = new_desk(profiles=0)
    made.add_profiles(2, tags=["odd"])
    made.add_profiles(2, tags=["de", "win11"])
    made.add_profiles(1, tags=["de"])
    return made


@pytest.mark.parametrize("few", [0, 2, 500])
def test_the_same_profiles_are_found_whichever_way(
    desk: Desk, faulty: FaultyDatabase, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(rare_tags, "FEW", few)
    found = []
    while (grant := checkout(faulty, desk.worker, desk.request(tags=("de",)))) is not None:
        found.append(grant.profile.id)
    assert found == desk.profile_ids[2:]
    assert set(faulty.ran) >= {CHECKOUT_BY_TAG if few == 500 else CHECKOUT}
    assert checkout(faulty, desk.worker, desk.request(tags=("de", "win11"))) is None
    assert checkout(faulty, desk.worker, desk.request(tags=("nobody",))) is None
    assert checkout(faulty, desk.worker, desk.request(tags=("odd",), without_tags=("odd",))) is None
    assert checkout(faulty, desk.worker, desk.request(tags=("odd",), without_tags=("de",))) is not None


def test_the_tag_with_the_fewest_is_taken_if_those_are_few(
    desk: Desk, faulty: FaultyDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rare_tag(faulty, ["de", "win11"]) == "win11"
    assert rare_tag(faulty, ["nobody", "de"]) == "nobody"
    monkeypatch.setattr(rare_tags, "FEW", 1)
    assert rare_tag(faulty, ["de", "win11"]) is None


def test_tags_are_counted_anew_after_a_while(
    desk: Desk, faulty: FaultyDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(rare_tags, "elapsed_clock", clock)
    monkeypatch.setattr(rare_tags, "FEW", 3)
    tag = f"new-{desk.pool.name}"
    assert rare_tag(faulty, [tag]) == tag
    desk.add_profiles(4, tags=[tag])
    assert rare_tag(faulty, [tag]) == tag
    assert faulty.ran.count(COUNT_TAGS) == 1
    clock.now += rare_tags.COUNT_AGAIN_AFTER + 1
    assert rare_tag(faulty, [tag]) is None
