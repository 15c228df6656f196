"""Values of a call as Cedar's JSON. The declared type alone decides how a value is converted.

Nothing of a call is passed on as it came: Cedar would read `{"__entity": ...}` in an argument of the model as an entity.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from graph_agent.policy.cedar.types import CedarType, Kind

MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
SCALE = 10_000
"""Cedar's decimals have four places."""
AMBIGUOUS = "?"
"""The domain of a text in which two parsers could see different hosts."""

# One address and nothing else: no user information, no second address, no character that parsers treat differently.
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?P<host>[^\s/?#\\@:\[\]%]+)(?::\d+)?(?:[/?#][^\s\\]*)?", re.IGNORECASE)
_MAIL = re.compile(r"[^\s@,;:<>\"()\\\[\]%]+@(?P<host>[^\s@,;:<>\"()\\/\[\]%?#]+)")
# A browser reads `https:evil.org` as it reads `https://evil.org`, and passes over spaces before it and tabs in it.
_ADDRESS = re.compile(r"@|//|\\|^[\x00-\x20]*(?:https?|wss?|ftp|file):", re.IGNORECASE)
_IGNORED = dict.fromkeys(map(ord, "\t\r\n"))
_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?")

IsRead = Callable[..., bool]
"""True if a rule reads the value at a path below `context`."""


class Unconvertible(Exception):  # noqa: N818 (caught where the call is judged: a verdict, not an error)
    """The value has no equivalent in Cedar; the text is a clause for the user."""


def convert(type_: CedarType, value: Any, is_read: IsRead, *path: str) -> Any:
    """Return a JSON value of a call as Cedar's JSON, without the parts that no rule reads. Raises `Unconvertible`."""
    name = ".".join(path[1:])
    match type_.kind, value:
        case Kind.BOOL, bool():
            return value
        case (Kind.LONG | Kind.DECIMAL) as kind, int() | float() if not isinstance(value, bool):
            number = scaled(kind, value, name)
            return number if kind is Kind.LONG else decimal_json(number)
        case Kind.STRING, str():
            return _text(value, name)
        case Kind.SET, _:
            assert type_.item is not None
            items = value if isinstance(value, list) else [value]
            return [convert(type_.item, item, is_read, *path) for item in items]
        case Kind.RECORD, dict():
            present = [one for one in type_.fields if one.type.kind is not Kind.HIDDEN and value.get(one.name) is not None]
            return {
                one.name: convert(one.type, value[one.name], is_read, *path, one.name)
                for one in present
                if is_read(*path, one.name)
            }
        case Kind.VARIANT, _:
            for one in type_.fields:
                if one.type.kind in _kinds_of(value):
                    return {one.name: convert(one.type, value, is_read, *path)}
    raise Unconvertible(f"the rules cannot read '{name}'")


def scaled(kind: Kind, value: float | str, name: str) -> int:
    """Return a number as Cedar's integer: of a decimal, times `SCALE`. Raises `Unconvertible`."""
    try:
        exact = Decimal(str(value)) * (SCALE if kind is Kind.DECIMAL else 1)
        number = int(exact)
    except (InvalidOperation, ValueError, OverflowError):
        raise Unconvertible(f"'{name}' is not a number that rules can read") from None
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


def decimal_json(number: int) -> dict[str, Any]:
    return {"__extn": {"fn": "decimal", "arg": decimal_text(number)}}


def hosts(value: Any) -> list[str]:
    """Return the hosts of a text or of each text in a list, sorted: lower case and IDNA, "" for a text without a host.

    A text that two parsers could read differently has the host "?".
    """
    return sorted({_host(text) for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)})


def _host(text: str) -> str:
    match = _URL.fullmatch(text) or _MAIL.fullmatch(text)
    if match is None:
        return AMBIGUOUS if _ADDRESS.search(unicodedata.normalize("NFKC", text.translate(_IGNORED))) else ""
    name = "".join(one.lower() if one.isascii() else one for one in match["host"].removesuffix("."))
    try:
        host = name.encode("idna").decode()
        # Letters that the standards of 2003 and 2008 read differently, such as ß, do not come back.
        unchanged = host == name or host.encode().decode("idna") == name
    except UnicodeError:
        return AMBIGUOUS
    return host if unchanged and _HOST.fullmatch(host) else AMBIGUOUS


def unseen(type_: CedarType, arguments: dict[str, Any]) -> list[str]:
    """Return the arguments of a call that rules cannot see, in whole or in part, sorted."""
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
