"""What captcha walls look like. poolsql only recognises them, to stop; it never touches them."""

from __future__ import annotations

import re

WALL_SELECTORS = (
    # Each of these is the body of a page that stands in front of the wanted one.
    "#challenge-form",
    "#challenge-running",
    "#challenge-error-text",
    "#px-captcha",
    "form#captcha-form",
    'iframe[src*="captcha-delivery.com"]',
    'iframe[src*="_Incapsula_Resource"]',
    'form[action*="validateCaptcha"]',
)
"""Elements that only a wall has: one of them is enough."""

WIDGET_SELECTORS = (
    # The invisible kind sits on ordinary pages and asks nobody anything.
    'iframe[src*="recaptcha"]:not([src*="size=invisible"])',
    '.g-recaptcha:not([data-size="invisible"])',
    'iframe[src*="hcaptcha.com"]',
    '.h-captcha:not([data-size="invisible"])',
    ".cf-turnstile",
    'iframe[src*="challenges.cloudflare.com"]',
    'iframe[src*="arkoselabs.com"]',
    'iframe[src*="geetest.com"]',
    ".geetest_captcha",
    'img[src*="captcha" i]',
    "#captcha",
    "[data-captcha]",
)
"""Elements that a wall has, but an ordinary page with a contact form too: they count where other facts agree."""

_TITLE = re.compile(
    r"\b(?:re|h)?captcha\b"
    r"|\b(?:verify|confirm|prove)\b.{0,20}\b(?:human|not a (?:ro)?bot)\b"
    r"|\bare you (?:a )?(?:human|robot|bot)\b"
    r"|\b(?:human|bot) (?:verification|check)\b"
    r"|\brobot (?:check|or human)\b"
    r"|^just a moment\b"
    r"|^attention required! \| cloudflare"
    r"|^access to this page has been denied"
    r"|^pardon our interruption"
    r"|^(?:checking your browser|ddos-guard|security check|one more step)\b",
    re.IGNORECASE,
)


def title_asks_for_a_human(title: str) -> bool:
    """Whether a title is one that captcha walls have; an article about captchas may have it as well."""
    return _TITLE.search(title.strip()[:500]) is not None
