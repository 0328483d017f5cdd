"""CSS selectors, checked before any page is loaded.

The browser has the last word. This check finds slips of the pen when a definition is read, and lets through what
browsers take; what only other programs understand (``:contains()``, ``text=``, XPath) it refuses.
"""

from __future__ import annotations

import re

from poolsql.errors import BadInputError

LONGEST_SELECTOR = 2000
"""Characters."""

_STRING = re.compile(r"""("|')(?:\\.|(?!\1)[^\\])*\1""", re.DOTALL)
_FOREIGN = re.compile(r":(?:-soup-)?contains(?:-own)?\(")
# Browsers have these, soupsieve has not; the second half of each pair decides nothing about the rest of a selector.
_ONLY_IN_BROWSERS = re.compile(r":(?:invalid|modal|target-current|user-valid|valid)(?![\w(-])")
_XPATH = re.compile(r"\(?\.{0,2}(?://|/\w)|xpath=")
_TEXT = re.compile(r"text=|:(?:has-)?text\(")


def checked_selector(css: object, place: str) -> str:
    """A CSS selector without blanks around it.

    Args:
        css: What was written.
        place: Where; the message begins with it.

    Raises:
        BadInputError: It is no selector of elements.
    """
    if not isinstance(css, str):
        raise BadInputError(f"{place}: {css!r} is no CSS selector; write a text such as '.price'")
    selector = css.strip()
    if not selector:
        raise BadInputError(f"{place}: the CSS selector is empty; write one such as '.price'")
    if len(selector) > LONGEST_SELECTOR:
        raise BadInputError(f"{place}: the CSS selector has more than {LONGEST_SELECTOR:,} characters")
    problem = _problem(selector)
    if problem is not None:
        raise BadInputError(f"{place}: {selector!r} is no CSS selector: {problem}")
    return selector


def _problem(selector: str) -> str | None:
    bare = _STRING.sub('""', selector)
    if "\0" in selector:
        return "it holds a NUL"
    if _XPATH.match(bare):
        return "it looks like XPath"
    if _TEXT.search(bare) or _FOREIGN.search(bare):
        return "CSS cannot look for text"
    return _syntax_problem(_ONLY_IN_BROWSERS.sub(":empty", selector))


def _syntax_problem(selector: str) -> str | None:
    # soupsieve stands on a whole HTML library, which takes longer to load than the rest of a command.
    import soupsieve  # noqa: PLC0415

    try:
        soupsieve.compile(selector)
    except soupsieve.SelectorSyntaxError as error:
        first = str(error).splitlines()[0].partition(". ")[0].removesuffix(".")
        return first[:1].lower() + first[1:]
    except NotImplementedError:
        return "a pseudo-element such as ::before is no element; leave it out"
    except ValueError as error:
        return str(error)
    return None
