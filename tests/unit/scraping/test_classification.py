from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from poolsql.leasing.outcomes import Outcome
from poolsql.scraping.captcha_markers import WALL_SELECTORS, WIDGET_SELECTORS
from poolsql.scraping.classification import PROBE_SELECTORS, PageFacts, classify_page

URL = "https://shop.example/p/1"


def _facts(
    status: int | None = 200,
    *,
    title: str = "Oak desk tray",
    retry_after: str | None = None,
    date: str | None = None,
    matched: frozenset[str] = frozenset(),
    text_length: int | None = 300,
) -> PageFacts:
    return PageFacts(
        status=status,
        url=URL,
        title=title,
        retry_after=retry_after,
        date=date,
        matched_selectors=matched,
        text_length=text_length,
    )


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.SUCCESS),
        (206, Outcome.SUCCESS),
        (304, Outcome.SUCCESS),
        (None, Outcome.SUCCESS),
        (400, Outcome.TASK_FAILED),
        (401, Outcome.SESSION_LOST),
        (403, Outcome.BLOCKED),
        (404, Outcome.NOT_FOUND),
        (405, Outcome.TASK_FAILED),
        (407, Outcome.PROXY_FAILED),
        (408, Outcome.SITE_ERROR),
        (410, Outcome.NOT_FOUND),
        (429, Outcome.RATE_LIMITED),
        (451, Outcome.BLOCKED),
        (500, Outcome.SITE_ERROR),
        (502, Outcome.SITE_ERROR),
        (503, Outcome.SITE_ERROR),
        (599, Outcome.SITE_ERROR),
    ],
)
def test_status_of_an_ordinary_page(status: int | None, outcome: Outcome) -> None:
    verdict = classify_page(_facts(status))
    assert verdict.outcome is outcome
    assert verdict.retry_after is None
    assert str(status) in verdict.detail or status is None


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_makes_a_rate_limit_and_is_kept_in_full(status: int) -> None:
    verdict = classify_page(_facts(status, retry_after="172800"))
    assert (verdict.outcome, verdict.retry_after) == (Outcome.RATE_LIMITED, timedelta(days=2))


def test_retry_after_with_a_date_is_measured_by_the_answer_or_by_now() -> None:
    until = "Mon, 30 Nov 2026 12:01:00 GMT"
    by_answer = classify_page(_facts(429, retry_after=until, date="Mon, 30 Nov 2026 12:00:00 GMT"))
    assert by_answer.retry_after == timedelta(seconds=60)
    by_now = classify_page(_facts(429, retry_after=until), now=datetime(2026, 11, 30, 12, 0, 30, tzinfo=UTC))
    assert by_now.retry_after == timedelta(seconds=30)


def test_a_503_with_an_unreadable_retry_after_is_the_sites_trouble() -> None:
    assert classify_page(_facts(503, retry_after="soon")).outcome is Outcome.SITE_ERROR


@pytest.mark.parametrize("status", [200, 302, 500])
def test_retry_after_means_nothing_elsewhere(status: int) -> None:
    verdict = classify_page(_facts(status, retry_after="60"))
    assert verdict.retry_after is None
    assert verdict.outcome is not Outcome.RATE_LIMITED


@pytest.mark.parametrize("selector", WALL_SELECTORS)
def test_a_wall_is_a_captcha_with_any_status_and_text(selector: str) -> None:
    for status in (200, 403, 404, 503, None):
        verdict = classify_page(_facts(status, matched=frozenset({selector}), text_length=50_000))
        assert verdict.outcome is Outcome.CAPTCHA
        assert selector in verdict.detail


@pytest.mark.parametrize("selector", WIDGET_SELECTORS)
def test_a_widget_is_a_captcha_where_other_facts_agree(selector: str) -> None:
    matched = frozenset({selector})
    for status, text_length in ((200, 300), (200, None), (None, None), (403, 50_000), (429, 50_000), (503, 50_000)):
        assert classify_page(_facts(status, matched=matched, text_length=text_length)).outcome is Outcome.CAPTCHA
    for status, text_length in ((200, 2000), (404, 300), (500, 300)):
        assert classify_page(_facts(status, matched=matched, text_length=text_length)).outcome is not Outcome.CAPTCHA


@pytest.mark.parametrize(
    "title",
    [
        "Verify you are human",
        "Please verify that you are a human",
        "Confirm you're not a bot",
        "Are you a robot?",
        "Robot Check",
        "Human Verification",
        "reCAPTCHA required",
        "Just a moment...",
        "Attention Required! | Cloudflare",
        "Access to this page has been denied",
        "Pardon Our Interruption",
        "  DDoS-Guard",
    ],
)
def test_titles_of_walls(title: str) -> None:
    verdict = classify_page(_facts(403, title=title))
    assert verdict.outcome is Outcome.CAPTCHA
    assert title.strip() in verdict.detail


@pytest.mark.parametrize(
    "title",
    [
        "Oak desk tray",
        "Human resources",
        "Robot vacuum cleaner",
        "A moment, just for you",
        "Identity check-in",
        "Botany",
    ],
)
def test_titles_of_shops(title: str) -> None:
    assert classify_page(_facts(200, title=title)).outcome is Outcome.SUCCESS


def test_an_article_about_captchas_is_no_wall() -> None:
    assert classify_page(_facts(200, title="How a CAPTCHA works", text_length=9000)).outcome is Outcome.SUCCESS


def test_own_rules_go_first_and_in_order() -> None:
    rules = {"form#login": Outcome.SESSION_LOST, ".banned": Outcome.BLOCKED}
    both = _facts(503, retry_after="5", matched=frozenset({".banned", "form#login", WALL_SELECTORS[0]}))
    assert classify_page(both, own_rules=rules).outcome is Outcome.SESSION_LOST
    banned = _facts(200, matched=frozenset({".banned"}))
    assert classify_page(banned, own_rules=rules).outcome is Outcome.BLOCKED
    assert classify_page(_facts(200), own_rules=rules).outcome is Outcome.SUCCESS


def test_detail_is_storable_whatever_the_page_says() -> None:
    verdict = classify_page(_facts(200, title="captcha \0 \ud800" + "x" * 10_000))
    verdict.detail.encode()
    assert "\0" not in verdict.detail
    assert len(verdict.detail) < 400


def test_probes_are_distinct() -> None:
    assert len(set(PROBE_SELECTORS)) == len(PROBE_SELECTORS) == len(WALL_SELECTORS) + len(WIDGET_SELECTORS)
