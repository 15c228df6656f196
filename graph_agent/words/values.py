"""A value in words: dates, times, money, lists, small objects, and texts in quotes that they cannot close.

    2027-01-15                  15 January 2027
    2027-01-15T09:30:00Z        15 January 2027, 09:30 UTC; in Europe/Berlin 15 January 2027, 10:30 CET
    60 as EUR                   €60.00; never rounded
    ["a", "b", "c"]             'a', 'b' and 'c'
    {"city": "Kiel"}            city 'Kiel'
    [{"id": 1}, {"id": 2}]      (id 1) and (id 2)
    true, null                  yes, none
    any other text              'in quotes'

A text stands without quotes only where its form leaves no room for words: an e-mail address, an enum, a pattern. A number is
never grouped, because it may be an id.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

from graph_agent.models.canonical import canonical_json
from graph_agent.models.time_zone import time_zone
from graph_agent.policy.schema.references import find_part
from graph_agent.policy.sentence import Money
from graph_agent.reply.text import exact, one_line, quoted, whole_line

MAX_SHOWN: Final = 4_000
"""The longest text that a detail shows in full, in characters."""
_MAX_PARTS: Final = 400
"""The longest list or object in words; a longer one is shown as JSON."""
_MAX_DEPTH: Final = 4
"""The number of lists and objects inside one another that are said."""
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(\.[0-9]{1,6})?)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"
)
_MAIL: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,190}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_.:/#+-]{1,80}")
_PLAIN_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}")
_WORDS_OF_VALUES: Final = frozenset({"yes", "no", "none"})
_PATH: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]+)\]")
_NUMBER: Final = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,2})?")
_EXACT: Final = Context(prec=200)
"""More digits than a number has that is said: the usual 28 would round it, and two ids could be the same."""
_OPEN_CODE: Final = re.compile("‹[^›]*$")
_ABBREVIATIONS: Final = {
    **dict.fromkeys(("CET", "WEST"), 60),
    **dict.fromkeys(("CEST", "EET"), 120),
    **dict.fromkeys(("EEST", "MSK"), 180),
    "JST": 540,
    "EDT": -240,
    "EST": -300,
    "MDT": -360,
    "MST": -420,
    "PDT": -420,
    "PST": -480,
}
"""The abbreviations that are said, with the offset that readers take each for, in minutes. CST and IST name several zones."""
_SIGNS: Final = {"EUR": "€", "GBP": "£", "USD": "$"}
_WITHOUT_CENTS: Final = frozenset({"JPY", "KRW", "ISK", "CLP", "VND"})
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


class Spoken(NamedTuple):
    """A value in words."""

    text: str
    shown: str = ""
    """A text without its quotes; empty for a value that has none."""
    length: int = 0
    """The number of characters of a value that is not shown in full."""


def spoken(value: Any, schema: Any = None, money: Money | None = None, limit: int = MAX_SHOWN, zone: str = "") -> Spoken:
    """Return a value in words, of at most about `limit` characters; a longer one says that it is cut.

    A time with an offset is said in the time zone with the name `zone`, if there is one.
    """
    if money is not None and (amount := _amount(value, money)) is not None:
        return Spoken(amount)
    if isinstance(value, str):
        return _text(value, schema, limit, zone)
    if isinstance(value, list | dict) and (parts := _listed(value, schema, _MAX_PARTS, zone)):
        return Spoken(parts)
    if value is None or isinstance(value, bool):
        return Spoken("none" if value is None else "yes" if value else "no")
    text = canonical_json(value)
    whole = len(text) <= limit
    return Spoken(exact(text, whole_line(text) if whole else limit), length=0 if whole else len(text))


def time_in_words(at: datetime, zone: str) -> str:
    """Return a time in words, to the minute."""
    return spoken(at.isoformat(timespec="minutes"), zone=zone).text


def summarized(value: Any, schema: Any, limit: int, zone: str) -> Spoken:
    """Return a value of a result in words, never as JSON: of one that is too long or too deep a part."""
    if isinstance(value, list | dict):
        return Spoken(_listed(value, schema, limit, zone, cut=True) or "none")
    return spoken(value, schema, limit=limit, zone=zone)


def label(name: str, limit: int = MAX_SHOWN) -> str:
    """Return the label of an argument or a field: `order_id` is Order."""
    if not _PLAIN_NAME.fullmatch(name):
        return quoted(name, limit if len(name) > limit else whole_line(name))
    words = re.sub(r"[_-]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)).strip()
    words = re.sub(r"(?i)(?<=.) id$", "", words)
    return words[:1].upper() + (words[1:] if words.isupper() else words[1:].lower())


def labels(names: list[str], limit: int = MAX_SHOWN) -> dict[str, str]:
    """Return a label for each of several names; two that would have the same one are named as they are."""
    found = {name: label(name, limit) for name in names}
    taken = Counter(found.values())
    return {name: one if taken[one] == 1 or not _PLAIN_NAME.fullmatch(name) else name for name, one in found.items()}


def lowered(text: str) -> str:
    """Return a label for the middle of a line: an abbreviation stays as it is."""
    return text if text[:2].isupper() or not text[:1].isalpha() else text[:1].lower() + text[1:]


def brief(text: str, shown: str, length: int, limit: int) -> str:
    """Return a value in words, cut to `limit` characters; it says that it is cut."""
    if not shown:
        return one_line(text, limit)
    if len(shown) <= limit and not length:
        return text
    quote, start = text[:1], _OPEN_CODE.sub("", shown[: limit - 1]).rstrip()
    return f"{quote}{start}… ({length or len(shown):,} characters){quote}"


def simple(value: Any) -> str:
    """Return a text by which two values are the same also if one is the text of the other, such as 10.0 and "10.00"."""
    number = _number(value)
    if number is not None:
        return f"{number.normalize(_EXACT):f}"
    return value if isinstance(value, str) else canonical_json(value)


def _number(value: Any) -> Decimal | None:
    """Return the exact number that a value, or a text, is; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not _NUMBER.fullmatch(str(value)):
        return None
    return Decimal(str(value))


def echoes(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the simple values in a JSON value as an echo repeats them: a text by itself, and anything else with its name.

    A number or a truth value under another name is the same by chance.
    """
    if isinstance(value, dict):
        for key, part in value.items():
            yield from echoes(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from echoes(part, name)
    else:
        is_text = isinstance(value, str) and _number(value) is None
        yield "" if is_text else name, simple(value)


def _text(value: str, schema: Any, limit: int, zone: str) -> Spoken:
    if _DATE.fullmatch(value) and (day := _day(value)):
        return Spoken(day)
    if (time := _TIME.fullmatch(value)) and (moment := _moment(value, time[1] or "", zone)):
        return Spoken(moment)
    if _MAIL.fullmatch(value) or (_TOKEN.fullmatch(value) and _is_closed(schema) and value not in _WORDS_OF_VALUES):
        return Spoken(value)
    whole = len(value) <= limit
    cut = whole_line(value) if whole else limit
    return Spoken(quoted(value, cut), exact(value, cut), 0 if whole else len(value))


def _is_closed(schema: Any) -> bool:
    """True if a schema leaves no room for words in a text."""
    if not isinstance(schema, dict):
        return False
    if any(_is_closed(one) for key in ("anyOf", "oneOf", "allOf") for one in schema.get(key, ())):
        return True
    return "enum" in schema or "const" in schema or bool(schema.get("pattern"))


def _listed(value: list[Any] | dict[str, Any], schema: Any, limit: int, zone: str, *, cut: bool = False, depth: int = 1) -> str:
    """Return a list or an object in words. One that is too long or too deep is `cut`, or else empty."""
    parts = [*_said_parts(value, schema, limit, zone, cut=cut, depth=depth)]
    left = len(value) - len(parts)
    if not parts or "" in parts or (left and not cut):
        return ""
    if left:
        return f"{', '.join(parts)} … and {left:,} more"
    if isinstance(value, dict) or len(parts) == 1:
        return ", ".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _said_parts(
    value: list[Any] | dict[str, Any], schema: Any, limit: int, zone: str, *, cut: bool, depth: int
) -> Iterator[str]:
    """Yield the parts of a list or an object in words, up to `limit` characters; a part without words is empty."""
    length, longest = 0, limit if cut else MAX_SHOWN
    for name, one, declared in _parts(value, schema, longest):
        if isinstance(one, list | dict) and one:
            inner = _listed(one, declared, limit, zone, cut=cut, depth=depth + 1) if depth < _MAX_DEPTH else "…" if cut else ""
            said = inner and f"({inner})"
        elif cut and one in ([], {}):
            said = "none"
        else:
            said = spoken(one, declared, limit=longest, zone=zone).text
        is_first = not length
        length += len(name) + len(said) + 2
        if length > limit + 2 and not (cut and is_first):
            return
        yield said and f"{name}{said}"


def _parts(value: list[Any] | dict[str, Any], schema: Any, limit: int) -> Iterator[tuple[str, Any, Any]]:
    """Yield each part of a list or an object with its schema, behind the start of its words: the label of a field."""
    of = schema if isinstance(schema, dict) else {}
    if isinstance(value, list):
        yield from (("", one, of.get("items")) for one in value)
        return
    known, declared = labels([*value], limit), by_name(of)
    yield from ((f"{lowered(known[name])} ", one, declared.get(name)) for name, one in value.items())


def _day(value: str) -> str:
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return ""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _moment(value: str, fraction: str, zone: str) -> str:
    try:
        at = datetime.fromisoformat(value.upper())
    except ValueError:
        return ""
    if at.tzinfo is not None and (known := time_zone(zone)) is not None:
        # A time at the end of the calendar may have none in that zone.
        with suppress(OverflowError):
            at = at.astimezone(known)
    clock = f"{at:%H:%M:%S}{fraction.rstrip('.0')}" if at.second or fraction.strip(".0") else f"{at:%H:%M}"
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}, {clock}{_zone(at)}"


def _zone(at: datetime) -> str:
    """Return the zone of a time: an abbreviation that names one offset to everybody, or else the offset."""
    offset, name = at.utcoffset(), at.tzname() or ""
    if offset is None:
        return ""
    if offset == timedelta(minutes=_ABBREVIATIONS.get(name, 24 * 60)):
        return f" {name}"
    return f" UTC{at:%z}" if offset else " UTC"


def _amount(value: Any, money: Money) -> str | None:
    """Return an amount with its currency, with all its digits; None for what is no number."""
    amount = _number(value)
    if amount is None:
        return None
    amount = amount.scaleb(-2, _EXACT) if money.in_cents else amount
    digits = max(0 if money.currency in _WITHOUT_CENTS else 2, -int(amount.normalize(_EXACT).as_tuple().exponent))
    shown = f"{amount.copy_abs():,.{digits}f}"
    sign = "-" if amount < 0 else ""
    return f"{sign}{mark}{shown}" if (mark := _SIGNS.get(money.currency)) else f"{sign}{shown} {money.currency}"


def by_name(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schemas of the properties of an object, each together with the definition to which it refers."""
    found = schema.get("properties", {})
    return {name: _defined(one, schema) for name, one in found.items()} if isinstance(found, dict) else {}


def _defined(schema: Any, root: Mapping[str, Any]) -> Any:
    named = schema.get("$ref") if isinstance(schema, dict) else None
    found = find_part(root, named) if isinstance(named, str) else None
    return {**found, **schema} if isinstance(found, dict) else schema


def part_of(value: Any, path: str) -> Any:
    """Return the part of a JSON value at a plain path such as `lines[0].name`; None if it has none."""
    for name, index in _PATH.findall(path):
        if name:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
    return value
