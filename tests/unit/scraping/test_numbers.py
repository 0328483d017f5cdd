from __future__ import annotations

from decimal import Decimal

import pytest

from poolsql.scraping.numbers import MOST_DIGITS, DecimalMark, NotANumberError, read_decimal, read_integer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", "12"),
        ("007", "7"),
        ("€ 1.234,56", "1234.56"),
        ("1,234.56 $", "1234.56"),
        ("1.234,50 EUR incl. VAT", "1234.50"),
        ("Price: 5", "5"),
        ("12,5", "12.5"),
        ("3.99", "3.99"),
        ("3.9900", "3.9900"),
        (".99", "0.99"),
        ("0,125", "0.125"),
        ("0.125", "0.125"),
        ("1234,567", "1234.567"),
        ("1.234.567", "1234567"),
        ("1,234,567.891", "1234567.891"),
        ("1,23,456", "123456"),
        ("1,23,456.78", "123456.78"),
        ("1'234.50", "1234.50"),
        ("1\u2019234,567", "1234.567"),
        ("1\u00a0299,50 €", "1299.50"),
        ("1\u202f299 €", "1299"),
        ("1 299,00 kr", "1299.00"),
        ("€ 1 299", "1299"),
        ("-5 °C", "-5"),
        ("\u22127", "-7"),
        ("-€5.00", "-5.00"),
        ("€ -5.00", "-5.00"),
        ("+3.5 %", "3.5"),
        ("SKU-5", "5"),
        ("5,- €", "5"),
        ("Rs.500", "500"),
        ("85 m²", "85"),
        ("5m", "5"),
        ("(12)", "12"),
        ("99999999999999999999.99", "99999999999999999999.99"),
    ],
)
def test_a_number_is_read_with_all_its_digits(text: str, number: str) -> None:
    read = read_decimal(text)
    assert str(read) == number
    assert read == Decimal(number)


@pytest.mark.parametrize(
    ("text", "mark", "number"),
    [
        ("1,234", ".", "1234"),
        ("1,234", ",", "1.234"),
        ("1.234", ".", "1.234"),
        ("1.234", ",", "1234"),
        ("1.234,5", ",", "1234.5"),
        ("12", ",", "12"),
        ("12,50", ",", "12.50"),
    ],
)
def test_a_site_s_decimal_mark_settles_it(text: str, mark: str, number: str) -> None:
    assert str(read_decimal(text, mark=DecimalMark(mark))) == number


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no number"),
        ("sold out", "'sold out': holds no number"),
        ("1,234", "can be 1234 or 1.234; tell which by decimal_mark"),
        ("€ 1.234", "can be 1234 or 1.234"),
        ("4.5 out of 5", "holds several numbers \\('4.5', '5'\\)"),
        ("5.00 \u2013 7.00", "holds several numbers"),
        ("10-20", "holds several numbers"),
        ("12:30", "holds several numbers"),
        ("1e5", "holds several numbers"),
        ("iPhone 15 128 GB", "'15 128' can be several numbers or one"),
        ("5 10", "'5 10' is not written as a number"),
        ("12.05.2026", "is not written as a number"),
        ("1,234,56", "is not written as a number"),
        ("1.234,567.89", "is not written as a number"),
        ("12345.678,90", "is not written as a number"),
        ("1.2k", "the number is abbreviated"),
        ("3 Mio. €", "the number is abbreviated"),
        ("2B", "the number is abbreviated"),
        ("- 5", "the minus stands apart"),
        ("19⁹⁹", "holds the digit '⁹'"),
        ("½", "holds the digit '½'"),
        ("٣", "holds the digit '٣'; only 0 to 9"),
        ("9" * (MOST_DIGITS + 1), "more than 100 digits"),
    ],
)
def test_what_is_unclear_is_refused(text: str, told: str) -> None:
    with pytest.raises(NotANumberError, match=told):
        read_decimal(text)


def test_a_wrong_decimal_mark_is_refused_and_not_read_past() -> None:
    for text in ("12.5", "1.234.5", "1.5,00.5"):
        with pytest.raises(NotANumberError, match="is not written as a number"):
            read_decimal(text, mark=DecimalMark.COMMA)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12 reviews", 12),
        ("1,234", 1234),
        ("1.234", 1234),
        ("1 234 567", 1234567),
        ("-1'000", -1000),
        ("99999999999999999999", 99999999999999999999),
    ],
)
def test_marks_in_a_whole_number_group_its_digits(text: str, number: int) -> None:
    assert read_integer(text) == number


@pytest.mark.parametrize("text", ["12.5", "3,00", "0.125", "1,234.00", ".99", "1,23", "2026.1"])
def test_a_number_with_a_fraction_is_no_whole_number(text: str) -> None:
    with pytest.raises(NotANumberError, match="is no whole number"):
        read_integer(text)
