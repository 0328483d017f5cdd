"""Numbers as pages write them: ``€ 1.234,56``, ``1,234.56 $``, ``1 299 kr``, ``-5 °C``.

A text has to hold one number; what stands around it does not matter. The rules:

- Where both a point and a comma occur, the last one is the decimal mark and the other one groups digits.
- A mark that occurs more than once groups digits, and so do apostrophes and non-breaking or thin blanks. Groups have
  three digits, or are grouped as in India (``1,23,456``). A plain blank groups digits only where no letter stands
  before the number: "Phone 15 128 GB" holds two numbers.
- A single mark is the decimal mark, unless three digits follow it: ``1,234`` can be both. There a decimal number has
  to be told its decimal mark; a whole number has none, so that the mark can only group.

What is left unclear is refused, never guessed.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal
from enum import StrEnum

from poolsql.errors import PoolsqlError

MOST_DIGITS = 100
"""Of one number."""

_SHOWN = 60
_MINUS = "-\u2212"
_BLANKS = "\u00a0\u2007\u2009\u202f"
_APOSTROPHES = "'\u2019"
_CURRENCY = "$\u00a2-\u00a5\u20a0-\u20cf"
_NUMBER = re.compile(
    rf"(?P<sign>(?<!\w)[{_MINUS}+](?:\s*[{_CURRENCY}]\s*)?)?"
    rf"(?P<digits>(?:(?<![\w.,])[.,])?[0-9]+(?:[.,{_APOSTROPHES}{_BLANKS} ][0-9]+)*)"
)
# 1.2k is no 1.2.
_ABBREVIATION = re.compile(r"(?:[kKMB]|\s?(?i:bn|mln|mio|mrd|million|billion)\.?)(?!\w)")
_MINUS_APART = re.compile(rf"(?:^|\s)[{_MINUS}]\s+$")
_GROUPED = re.compile(r"(?!0)(?:[0-9]{1,3}(?:([^0-9])[0-9]{3})(?:\1[0-9]{3})*|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3})")


class NotANumberError(PoolsqlError):
    """A text does not hold one clear number."""


class DecimalMark(StrEnum):
    """What stands between a number's whole part and its fraction."""

    POINT = "."
    COMMA = ","


def read_integer(text: str) -> int:
    """The whole number in a text; marks between its digits can only group them.

    Raises:
        NotANumberError: The text holds none, several, or one with a fraction.
    """
    sign, digits = _only_number(text)
    if not digits.isdigit() and not _is_grouped(digits):
        raise NotANumberError(f"{_shown(text)}: {digits!r} is no whole number; decimal reads fractions")
    return int(sign + _without_marks(digits))


def read_decimal(text: str, *, mark: DecimalMark | None = None) -> Decimal:
    """The number in a text, with the digits that it has there.

    Args:
        text: One number, with anything else around it.
        mark: The site's decimal mark, where its numbers do not tell it.

    Raises:
        NotANumberError: The text holds no number or several, or one that can be read in two ways.
    """
    sign, digits = _only_number(text)
    whole, fraction = digits, ""
    mark = mark or _mark_of(text, digits)
    if mark is not None and mark in digits:
        whole, _, fraction = digits.rpartition(mark)
        if not fraction.isdigit() or mark in whole:
            raise _not_written_so(text, digits)
    if whole and not whole.isdigit() and not _is_grouped(whole):
        raise _not_written_so(text, digits)
    return Decimal(sign + (_without_marks(whole) or "0") + (f".{fraction}" if fraction else ""))


def _only_number(text: str) -> tuple[str, str]:
    """The sign, and the digits with their marks, of the one number in a text."""
    _check_digits(text)
    found = list(_NUMBER.finditer(text))
    if not found:
        raise NotANumberError(f"{_shown(text)}: holds no number")
    if len(found) > 1:
        numbers = ", ".join(repr(number["digits"][:_SHOWN]) for number in found[:3])
        raise NotANumberError(f"{_shown(text)}: holds several numbers ({numbers}); choose a selector for one of them")
    [number] = found
    sign, digits = number["sign"] or "", number["digits"]
    before = text[: number.start()]
    if len(digits) > MOST_DIGITS:
        raise NotANumberError(f"{_shown(text)}: a number of more than {MOST_DIGITS} digits")
    if " " in digits and any(character.isalpha() for character in before):
        raise NotANumberError(f"{_shown(text)}: {digits!r} can be several numbers or one; choose a selector for one")
    if _ABBREVIATION.match(text, number.end()):
        raise NotANumberError(f"{_shown(text)}: the number is abbreviated")
    if _MINUS_APART.search(before):
        raise NotANumberError(f"{_shown(text)}: the minus stands apart, so that it can be a sign or a dash")
    return "-" if sign[:1] in tuple(_MINUS) else "", digits


def _check_digits(text: str) -> None:
    """Digits that are not 0 to 9 would be read past: 19 with a raised 99 after it, or Arabic ones."""
    before = ""
    for character in text:
        kind = unicodedata.category(character) if not character.isascii() else ""
        # The raised two of a unit such as m² is no part of the number.
        if kind == "Nd" or (kind in {"No", "Nl"} and not before.isalpha()):
            raise NotANumberError(f"{_shown(text)}: holds the digit {character!r}; only 0 to 9 are read")
        before = character


def _mark_of(text: str, digits: str) -> DecimalMark | None:
    """The decimal mark that a number's own digits and marks tell; None: it has no fraction."""
    present = [mark for mark in DecimalMark if mark in digits]
    if not present:
        return None
    if len(present) > 1:
        return max(present, key=digits.rfind)
    [mark] = present
    if digits.count(mark) > 1:
        return None
    whole, _, rest = digits.partition(mark)
    grouped_otherwise = bool(whole) and not whole.isdigit()
    if len(rest) != 3 or not 1 <= len(whole) <= 3 or whole.startswith("0") or grouped_otherwise:
        return mark
    raise NotANumberError(
        f"{_shown(text)}: {digits!r} can be {whole}{rest} or {whole}.{rest}; tell which by decimal_mark"
    )


def _is_grouped(digits: str) -> bool:
    return _GROUPED.fullmatch(digits) is not None


def _without_marks(digits: str) -> str:
    return re.sub(r"[^0-9]", "", digits)


def _not_written_so(text: str, digits: str) -> NotANumberError:
    return NotANumberError(f"{_shown(text)}: {digits!r} is not written as a number")


def _shown(text: str) -> str:
    folded = " ".join(text.split())
    return repr(folded if len(folded) <= _SHOWN else f"{folded[:_SHOWN]}…")
