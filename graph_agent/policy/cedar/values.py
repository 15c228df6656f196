"""Values of a call as Cedar's JSON. The declared type alone decides how a value is converted.

Nothing of a call is passed on as it came: Cedar would read `{"__entity": ...}` in an argument of the model as an entity.
"""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from typing import Any

from graph_agent.policy.amounts import PLAIN_NUMBER, is_number
from graph_agent.policy.cedar.syntax import Reads
from graph_agent.policy.cedar.types import NUMBERS, CedarType, Kind

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
SCALE = 10_000
"""Cedar's decimals have four places."""
AMBIGUOUS = "?"
"""The domain of a text that is neither a plain address nor plain words: two parsers could read different hosts in it."""

# What is not written here is ambiguous: a list of what parsers treat differently would never be complete.
_HOST = r"(?P<host>(?:[A-Za-z0-9.-]|[^\x00-\x7f])+)"
_ATOM = r"[A-Za-z0-9_+'-]+"
# Without a second address, an encoded word ("=?") or a separator of lists in the rest, which other programs could read.
_URL = re.compile(
    rf"(?!.*=\?)(?i:https?|wss?|ftp)://{_HOST}(?::[1-9][0-9]{{0,4}})?(?:[/?#](?:[A-Za-z0-9._~!$&'()*+=:/?#-]|%[0-9A-Fa-f]{{2}})*)?"
)
_MAIL = re.compile(rf"(?!-){_ATOM}(?:\.{_ATOM})*@{_HOST}")
_MAX_HOST = 253
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
# A last label that begins with a digit could be a part of an IPv4 address, in one of its many forms.
_HOST_NAME = re.compile(rf"(?=.{{1,{_MAX_HOST}}}\Z)(?:{_LABEL}\.)*(?![0-9]){_LABEL}")
_IN_NAMES = frozenset({"Ll", "Lo", "Lm", "Mn", "Mc", "Nd"})
# Letters and marks without a shape, which UTS 46 leaves out and the standard of 2003 does not.
_SHAPELESS = re.compile("[\u115f\u1160\u17b4\u17b5\u180f\U000e0100-\U000e01ef]")
# A single word is a host for some programs, and so is a word that a question mark, a slash or a colon follows.
_WORD = r"[^\W_]+(?:['\u2019-][^\W_]+)*"
_WORDS = re.compile(rf"(?:{_WORD}(?:[,.!]?[ \n]+|[:;] +))+{_WORD}[.!?]?")

_PLAIN = "a plain number, such as 5000"
_TRUTHS = {"true": True, "false": False}
# Texts that some program reads as a number or as a truth value, besides those with digits.
_NO_DIGITS = frozenset({"", "inf", "infinity", "nan", "snan"})
_LAX_TRUTHS = frozenset({"", "0", "1", "f", "false", "n", "no", "off", "on", "t", "true", "y", "yes"})


class Unconvertible(Exception):  # noqa: N818 (caught where the call is judged: a decision, not an error)
    """The value has no equivalent in Cedar; the text is a clause for the user."""


def convert(type_: CedarType, value: Any, reads: Reads, *path: str) -> Any:
    """Return a JSON value of a call as Cedar's JSON, without the parts that no condition reads. Raises `Unconvertible`.

    `path` leads to the value from `context`.
    """
    name = ".".join(path[1:])
    match type_.kind, value:
        case Kind.BOOL, bool():
            return value
        case (Kind.LONG | Kind.DECIMAL) as kind, int() | float() if not isinstance(value, bool):
            return number_json(kind, scaled(kind, value, name))
        case Kind.STRING, str():
            return _text(value, name)
        case Kind.SET, _:
            assert type_.item is not None
            return [convert(type_.item, item, reads, *path) for item in items(value, name)]
        case Kind.RECORD, dict():
            present = [one for one in type_.fields if one.type.kind is not Kind.HIDDEN and value.get(one.name) is not None]
            return {
                one.name: convert(one.type, value[one.name], reads, *path, one.name)
                for one in present
                if reads.has(*path, one.name)
            }
        case Kind.VARIANT, _:
            own = [one for one in type_.fields if one.type.kind in _kinds_of(value)]
            found = {one.name: convert(one.type, value, reads, *path) for one in own}
            if isinstance(value, str):
                found |= _read_text(type_, value, reads, *path)
            if found:
                return found
    raise Unconvertible(f"the conditions cannot read '{name}'")


def _read_text(type_: CedarType, text: str, reads: Reads, *path: str) -> dict[str, Any]:
    """Return what a text is as the other alternatives of its type that conditions name: the tool may read "5" as it reads 5.

    Raises `Unconvertible` for a text in which the tool could see another value than the conditions.
    """
    name, found = ".".join(path[1:]), {}
    sees_text = reads.name(*path, "string")
    for field, part, _ in type_.fields:
        if part.kind is Kind.STRING or not reads.name(*path, field):
            continue
        if part.kind is Kind.SET:
            items(text, name)
        elif part.kind is Kind.BOOL and text in _TRUTHS:
            found[field] = _TRUTHS[text]
        elif part.kind in NUMBERS and PLAIN_NUMBER.fullmatch(text):
            found[field] = number_json(part.kind, scaled(part.kind, text, name))
        elif not sees_text or _may_be(part.kind, text):
            raise Unconvertible(f"'{name}' must be {'true or false' if part.kind is Kind.BOOL else _PLAIN}")
    return found


def _may_be(kind: Kind, text: str) -> bool:
    """True if some program may read `text` as a truth value or a number."""
    bare = text.strip().casefold()
    if kind is Kind.BOOL:
        return bare in _LAX_TRUTHS
    return bare.lstrip("+-") in _NO_DIGITS or any(one.isnumeric() for one in bare)


def items(value: Any, name: str) -> list[Any]:
    """Return the items of a list, or of a value that the tool takes in place of one. Raises `Unconvertible`."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        # Tools of the MCP SDK for Python read it as the list.
        raise Unconvertible(f"'{name}' must be a list and not the text of one")
    return value if isinstance(value, list) else [value]


def amount(kind: Kind, value: Any, name: str) -> int:
    """Return a number of a call, also one that is written as a text, as `scaled` does. Raises `Unconvertible`."""
    if not is_number(value):
        raise Unconvertible(f"'{name}' must be {_PLAIN}")
    return scaled(kind, value, name)


def scaled(kind: Kind, value: float | str, name: str) -> int:
    """Return a number as Cedar's integer: of a decimal, times `SCALE`. Raises `Unconvertible`."""
    try:
        exact = Decimal(str(value)) * (SCALE if kind is Kind.DECIMAL else 1)
        number = int(exact)
    except (InvalidOperation, ValueError, OverflowError):
        raise Unconvertible(f"'{name}' is not a number that conditions can read") from None
    if exact != number:
        raise Unconvertible(f"'{name}' has more than four decimals" if kind is Kind.DECIMAL else f"'{name}' is not an integer")
    return require_long(number, name)


def require_long(number: int, name: str) -> int:
    if not MIN_LONG <= number <= MAX_LONG:
        raise Unconvertible(f"'{name}' is too large")
    return number


def decimal_text(number: int) -> str:
    """Return a scaled decimal as Cedar writes it."""
    whole, places = divmod(abs(number), SCALE)
    return f"{'-' if number < 0 else ''}{whole}.{places:04d}"


def number_json(kind: Kind, number: int) -> Any:
    return number if kind is Kind.LONG else decimal_json(number)


def decimal_json(number: int) -> dict[str, Any]:
    return {"__extn": {"fn": "decimal", "arg": decimal_text(number)}}


def hosts(value: Any) -> list[str]:
    """Return the hosts of a text or of each text in a list, sorted: lower case and IDNA.

    "" is that of an empty text or of words without an address, "?" that of everything that is not plainly one of these.
    """
    return sorted({_host(one) for one in (value if isinstance(value, list) else [value])})


def _host(value: Any) -> str:
    if not isinstance(value, str):
        return AMBIGUOUS
    if match := _URL.fullmatch(value) or _MAIL.fullmatch(value):
        name = _in_ascii(match["host"])
        return name if _HOST_NAME.fullmatch(name) else AMBIGUOUS
    if value == "" or (_WORDS.fullmatch(value) and _WORDS.fullmatch(unicodedata.normalize("NFKC", value))):
        return ""
    return AMBIGUOUS


def _in_ascii(name: str) -> str:
    """Return the name of a host in lower case and IDNA; "" if the standards of 2003 and 2008 read it differently."""
    if name.isascii():
        return name.lower()
    if len(name) > _MAX_HOST:
        return ""  # The codec takes quadratic time.
    name = "".join(one.lower() if one.isascii() else one for one in name)
    # Only letters, marks and digits that no mapping changes, in any version of Unicode: not ß, and not a letter in upper case.
    if _SHAPELESS.search(name) or not all(one in ".-" or unicodedata.category(one) in _IN_NAMES for one in name):
        return ""
    if unicodedata.normalize("NFKC", name).casefold() != name:
        return ""
    try:
        found = name.encode("idna")
        return found.decode() if found.decode("idna") == name else ""
    except UnicodeError:
        return ""


def unseen(type_: CedarType, arguments: dict[str, Any]) -> list[str]:
    """Return the arguments of a call that conditions cannot see, in whole or in part, sorted."""
    return sorted(name for name, value in arguments.items() if value is not None and _is_unseen(type_, name, value))


def _is_unseen(type_: CedarType, name: str, value: Any) -> bool:
    declared = type_.field(name)
    if declared is None or declared.type.kind is Kind.HIDDEN:
        return True
    # Also inside: an object with a property that its type does not have, or that has no type.
    return declared.type.kind is Kind.RECORD and isinstance(value, dict) and bool(unseen(declared.type, value))


def _kinds_of(value: Any) -> tuple[Kind, ...]:
    """Return the kinds that a value in JSON can have."""
    if isinstance(value, bool):
        return (Kind.BOOL,)
    if isinstance(value, int | float):
        return (Kind.LONG, Kind.DECIMAL) if isinstance(value, int) or value.is_integer() else (Kind.DECIMAL,)
    return (Kind.STRING,) if isinstance(value, str) else (Kind.SET,) if isinstance(value, list) else ()


def _text(value: str, name: str) -> str:
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise Unconvertible(f"'{name}' is not valid text")
    return value
