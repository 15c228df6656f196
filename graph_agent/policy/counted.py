"""Reads the numbers and days that a text of a user gives, each with what it counts: "3 nights", "1.234,50 €", "in 2022".

The words beside numbers are in `counted.txt`, for twenty languages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeGuard

from graph_agent.policy.word_lists import word_lists

_UNSPACED: Final = r"\u2e80-\u31ff\u3400-\u9fff\uac00-\ud7af"
_LETTER = r"[^\W\d_]"
_LETTERS = r"(?:[^\W\d_][\u0300-\u036f\u064b-\u065f\u0900-\u0963\u0966-\u09ff]*)+"
_TIMES: Final = "times "
_ARGUMENT: Final = "argument "
_MONTH: Final = "month "
_CODES: Final = "eur|usd|gbp|chf|jpy|cny|inr|pln|brl"
"""The characters that may be written before a number without a space."""
_PRICED: Final = r"(?:€|\$|£|¥|₹|₩|₺|₽|eur|usd|gbp|chf|euros?|dollars?|zł|reais|tl)(?![^\W\d_])"

_NUMBER = re.compile(
    rf"(?:(?<![\w.,:/#-])(?P<code>{_CODES})?(?P<sign_before>[$€£¥₹₩₺₽])?|(?<=[{_UNSPACED}])|(?<=[$€£¥₹₩₺₽]))(?P<sign>[-+]?)(?:"
    r"(?P<point>\d{1,3}(?:,\d{3})+(?:\.\d+)?)(?!,?\d)"
    rf"|(?P<comma>\d{{1,3}}(?:\.\d{{3}})+(?:,\d{{1,2}}(?!\d)|(?=\s?{_PRICED})))"
    rf"|(?P<space>\d{{1,3}}(?:[ '’]\d{{3}})+(?:[.,]\d{{1,2}}(?!\d)|(?=\s?{_PRICED})))"
    r"|(?P<plain>\d+(?:\.\d+|,\d{1,2})?)"
    rf")(?=\s?{_PRICED}|k(?!\w)|(?!(?![{_UNSPACED}])\w|[:/#-]|[.,]\d))"
)
"""A number with digits in groups, or without; a part of a word, a version or a time is none."""
_DIGITS = re.compile(r"(?<![\d.,:/-])(?:\d{4}|\d{1,2})(?![\d:/%-]|[.,]\d)")
_WRITTEN_DAY = re.compile(
    r"(?<![\d.-])(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})(?:[ t]\d{2}:\d{2}(?::\d{2})?)?(?![\w-])"
    r"|(?<![\d./-])(?P<year2>\d{4})/(?P<month2>\d{1,2})/(?P<day2>\d{1,2})(?![\d/-])"
    r"|(?<![\d./-])(?P<first>\d{1,2})(?P<between>[./-])(?P<second>\d{1,2})(?P=between)(?P<year3>\d{4})(?![\d/-]|\.\d)"
    r"|(?:(?P<year4>\d{4})\s?[年년]\s?)?(?<!\d)(?P<month4>\d{1,2})\s?[月월]\s?(?P<day4>\d{1,2})\s?[日号일]"
    r"|(?<!\w)(?:ngày )?(?P<day5>\d{1,2}) tháng (?P<month5>\d{1,2})(?:(?: năm|,)? (?P<year5>\d{4}))?(?!\w)"
)
_AFTER_DAY = re.compile(
    rf"(?:st|nd|rd|th|er|º|ª|\.)?(?: (?:of|de|di|del|da)(?= ))? ?(?P<month>{_LETTERS})\.?"
    r"(?:,?(?: (?:de|del|of))? (?P<year>\d{4})(?!\w))?(?!\w)"
)
_BEFORE_DAY = re.compile(rf"(?<!\w)(?P<month>{_LETTERS})\.? $")
_YEAR_AFTER = re.compile(r"(?:st|nd|rd|th)?(?:,? (?P<year>\d{4})(?!\w))?(?!\w)")
_BEFORE_YEAR = re.compile(rf"(?<!\w)(?P<month>{_LETTERS})\.?,?(?: (?:de|del|of))? $")
_NEXT_WORD = re.compile(rf"[ \u00a0-]?(?P<word>[%$€£¥₹₩₺₽]|[ap]\.m|o['’]clock|[{_UNSPACED}]+|{_LETTERS})")
_LAST_WORD = re.compile(rf"(?P<word>[$€£¥₹₩₺₽#]|[{_UNSPACED}]|{_LETTERS})[.:']? ?$")
_LONGEST: Final = 24
"""The letters before a number that are looked at."""
_YEARS: Final = range(1900, 2100)
_DAYS: Final = range(1, 32)
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Day(NamedTuple):
    """A day, of any year if the year is None."""

    month: int
    day: int
    year: int | None


class Number(NamedTuple):
    """A number of a text."""

    value: Decimal
    counts: str | None
    """A section of `counted.txt`, such as "money" or "night"; None if it counts nothing that is known."""
    before: str
    """The word before it."""
    start: int
    end: int


class Counted(NamedTuple):
    """The numbers and days of a text."""

    numbers: tuple[Number, ...]
    days: tuple[tuple[Day, int], ...]
    """Each with its place."""
    taken: tuple[tuple[int, int], ...]
    """The places of days, whose digits name nothing else."""


def counted_in(text: str) -> Counted:
    """Return the numbers and the days of a text in lower case. Those of a day are no numbers."""
    days = list(_days(text))
    taken = [(start, end) for _, start, end in days]
    numbers = list(_numbers(text, taken))
    # A year is a number for arguments that are a year.
    years = {day.year: start for day, start, _ in days if day.year is not None}
    numbers += [Number(Decimal(year), "year", "", start, start) for year, start in years.items()]
    return Counted(tuple(numbers), tuple((day, start) for day, start, _ in days if day.day), tuple(taken))


def days_in(text: str) -> Iterator[Day]:
    """Yield the days of a text in lower case."""
    return (day for day, _, _ in _days(text) if day.day)


def day_of(text: str) -> Day | None:
    """Return the day that a value in lower case is as a whole."""
    found = _WRITTEN_DAY.fullmatch(text)
    return _written(found) if found is not None else None


def counts_of(name: str) -> str | None:
    """Return what a whole number counts whose name is that of an argument: a section of `counted.txt`; None for an object."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    if names_object(name):
        return None
    sections = _arguments()
    of_words = [one for word in reversed(words) for one in sections.get(word, ()) if one != "object"]
    return next(iter(sorted(of_words, key=lambda one: one == "quantity")), None)


def names_object(name: str) -> bool:
    """True if the name of an argument says that it names an object: "order_id", but not "max_id"."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    return bool(words) and "object" in _arguments().get(words[-1], ()) and words[0] not in ("num", "max", "min")


def may_count(number: Number, counts: str | None, *, is_object: bool, name: str) -> bool:
    """True if a number of the text may be the value of an argument that `counts` something, or names an object."""
    unit = number.counts
    if unit is None or unit == counts:
        return True
    if is_object:
        # "Order 2022" is no year.
        return unit == "year?" and number.before in {word.lower() for word in _NAME_WORD.findall(name)}
    if unit in ("year", "year?", "clock"):
        return unit.rstrip("?") == counts or (unit == "clock" and counts == "hour")
    return counts in (None, "quantity")


def _numbers(text: str, taken: list[tuple[int, int]]) -> Iterator[Number]:
    for found in _NUMBER.finditer(text):
        start, end = found.span()
        if any(begin < end and start < stop for begin, stop in taken):
            continue
        before = _word_before(text, start)
        value, counts, end = _scaled(_value(found), text, end)
        if counts == "clock" and not 0 <= value <= 24:
            # "50 am Montag"
            counts = None
        if found["code"] or found["sign_before"] or _is(before, "money"):
            counts = "money"
        elif counts is None:
            counts = _by_context(value, before, found["plain"] is not None)
        yield Number(value, counts, before, start, end)


def _value(found: re.Match[str]) -> Decimal:
    if found["comma"]:
        digits = found["comma"].replace(".", "").replace(",", ".")
    elif found["space"]:
        digits = re.sub(r"[ '’]", "", found["space"]).replace(",", ".")
    elif found["point"]:
        digits = found["point"].replace(",", "")
    else:
        digits = found["plain"].replace(",", ".")
    return Decimal(f"{found['sign']}{digits}")


def _scaled(value: Decimal, text: str, end: int) -> tuple[Decimal, str | None, int]:
    """Return a number with the words after it: its value, what it counts, and its end."""
    words, counts = _words(), None
    while (found := _NEXT_WORD.match(text, end)) is not None and counts is None:
        section, length = _section_of(found["word"], words)
        if section is None:
            break
        if section.startswith(_TIMES):
            value *= int(section.removeprefix(_TIMES))
        else:
            counts = section
        end = found.start("word") + length
    return value, counts, end


def _section_of(word: str, words: Mapping[str, str]) -> tuple[str | None, int]:
    """Return the section of a word, and its length; of a script without spaces, that of its longest beginning."""
    if re.match(f"[{_UNSPACED}]", word):
        for length in range(min(3, len(word)), 0, -1):
            if (section := words.get(word[:length])) is not None:
                return section, length
        return None, 0
    return words.get(word), len(word)


def _by_context(value: Decimal, before: str, plain: bool) -> str | None:
    lists = word_lists(_FILE)
    if plain and value == int(value) and int(value) in _YEARS:
        # "Send 2000 to Ann" names no year, and "the taxes 2022" does.
        is_year = before in lists["before a year"] or (int(value) % 100 and not _is_act(before))
        return "year?" if is_year else None
    return "clock" if plain and 0 <= value <= 24 and before in lists["before a clock"] else None


def _is_act(word: str) -> bool:
    return word in word_lists(_FILE.with_name("denials.txt"))["acts"]


def _is(word: str, section: str) -> bool:
    return word in word_lists(_FILE)[section]


def _word_before(text: str, start: int) -> str:
    found = _LAST_WORD.search(text[max(0, start - _LONGEST) : start])
    return found["word"] if found is not None else ""


def _days(text: str) -> Iterator[tuple[Day, int, int]]:
    """Yield the days, and the months of a year with the day 0, with their places."""
    for found in _WRITTEN_DAY.finditer(text):
        yield _written(found) or Day(0, 0, None), *found.span()
    last = 0
    for digits in _DIGITS.finditer(text):
        named = _named_day(text, digits, last)
        if named is not None:
            yield named
            last = named[2]


def _named_day(text: str, digits: re.Match[str], last: int) -> tuple[Day, int, int] | None:
    """Return the day, or the year, that digits are beside the name of a month. The day before ends at `last`."""
    months, (start, end) = _months(), digits.span()
    head = text[max(last, start - _LONGEST) : start]
    if len(digits[0]) == 4:
        before = _BEFORE_YEAR.search(head)
        return (Day(months[before["month"]], 0, int(digits[0])), start, end) if _is_month(before) else None
    after, before = _AFTER_DAY.match(text, end), _BEFORE_DAY.search(head)
    if int(digits[0]) not in _DAYS:
        return None
    if _is_month(after):
        return _named(months[after["month"]], digits[0], after["year"]), start, after.end()
    year = _YEAR_AFTER.match(text, end)
    if _is_month(before) and year is not None:
        return _named(months[before["month"]], digits[0], year["year"]), start, year.end()
    return None


def _is_month(found: re.Match[str] | None) -> TypeGuard[re.Match[str]]:
    return found is not None and found["month"] in _months()


def _named(month: int, day: str, year: str | None) -> Day:
    return Day(month, int(day), int(year) if year else None)


def _written(found: re.Match[str]) -> Day | None:
    """Return a day in digits; None if its month may be either of two."""
    if found["between"]:
        first, second, year = int(found["first"]), int(found["second"]), int(found["year3"])
        if found["between"] == "." or first > 12 or first == second:
            return Day(second, first, year)
        return Day(first, second, year) if second > 12 else None
    for number in ("", "2", "4", "5"):
        if found[f"day{number}"]:
            return _named(int(found[f"month{number}"]), found[f"day{number}"], found[f"year{number}"])
    return None


_FILE: Final = Path(__file__).with_suffix(".txt")


@cache
def _months() -> Mapping[str, int]:
    sections = word_lists(_FILE)
    return {name: number for number in range(1, 13) for name in sections[f"{_MONTH}{number}"]}


@cache
def _words() -> Mapping[str, str]:
    """Return the section of each word that may follow a number."""
    sections = {
        name: phrases for name, phrases in word_lists(_FILE).items() if not name.startswith((_MONTH, _ARGUMENT, "before "))
    }
    return {phrase: name for name, phrases in reversed(sections.items()) for phrase in phrases}


@cache
def _arguments() -> Mapping[str, tuple[str, ...]]:
    """Return the sections that each word in the name of an argument is in."""
    found: dict[str, tuple[str, ...]] = {}
    for name, phrases in word_lists(_FILE).items():
        if name.startswith(_ARGUMENT):
            for phrase in phrases:
                found[phrase] = (*found.get(phrase, ()), name.removeprefix(_ARGUMENT))
    return found
