"""Reads account, card and phone numbers in the groups in which people write them, each as a whole."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_BEFORE = r"(?<![\w.,:/#+-])"
_AFTER = r"(?![\w+]|[.,:/-]\d)"
_ACCOUNT = re.compile(
    rf"{_BEFORE}[a-z]{{2}}\d{{2}}(?:[a-z0-9]{{8,30}}"
    r"|(?P<between>[ -])[a-z0-9]{4}(?:(?P=between)(?=[a-z]*\d)[a-z0-9]{4}){2,6}(?:(?P=between)(?=[a-z]*\d)[a-z0-9]{1,3})?)"
    rf"{_AFTER}"
)
"""An IBAN, in groups of four or without: all groups but the code of the bank have a digit, which a following word has not."""
_DIGITS = re.compile(
    rf"{_BEFORE}(?:\+?\d{{7,19}}"
    r"|(?:\+\d{1,3}|\+?\(\d{1,5}\)|0\d+)(?:[ ./-]?\(\d{1,5}\)|[ ./-]\d+|(?<=\))\d+)+"
    r"|(?:\d{3}[.-])?\d{3}[.-]\d{4}"
    r"|\d{4}(?P<space>[ -])\d{4}(?P=space)\d{4}(?P=space)\d{4}"
    rf"){_AFTER}"
)
"""A card, or a phone number with a sign that it is one: a list of numbers is none."""
_SEPARATORS: Final = str.maketrans("", "", " ()./-")
_PLAIN = re.compile(r"\+?\d{7,19}|[a-z]{2}\d{2}[a-z0-9]{8,30}")
_OTHER = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|\d{4}([-/.])\d{1,2}\1\d{1,2}|\d{1,2}([-/.])\d{1,2}\2\d{4}")
"""An address of a host, or a day."""


class Code(NamedTuple):
    """A number of a text that names an account, a card or a phone, without its separators."""

    plain: str
    start: int
    end: int


def codes_in(text: str) -> list[Code]:
    """Return the codes of a text in lower case."""
    accounts = [Code(plain, *one.span()) for one in _ACCOUNT.finditer(text) if (plain := _plain(one[0])) is not None]
    found = [
        Code(plain, *one.span())
        for one in _DIGITS.finditer(text)
        if (plain := _plain(one[0])) is not None and (not one["space"] or _is_card(plain))
    ]
    return accounts + [
        one for one in found if not any(one.start < account.end and account.start < one.end for account in accounts)
    ]


def code_of(value: str) -> str | None:
    """Return a value in lower case without its separators, if it is a code as a whole."""
    return next((code.plain for code in codes_in(value) if code.end - code.start == len(value)), None)


def _is_card(digits: str) -> bool:
    """True if the last digit is the check digit of a card: four numbers in a row are none."""
    doubled = [int(digit) * (2 - at % 2) for at, digit in enumerate(digits)]
    return sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


def _plain(written: str) -> str | None:
    plain = written.translate(_SEPARATORS)
    return plain if _PLAIN.fullmatch(plain) and not _OTHER.fullmatch(written) else None
