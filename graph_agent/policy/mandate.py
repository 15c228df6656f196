"""The check of a call against the lines of a mandate. Pure and closed: what is not within the bounds of a line does not fit.

A line never lets a call run that the rules refuse: the guard asks it only about a call that needs the user's yes, and nothing
else. How often a line was drawn is counted where a call is committed (`graph_agent.record.mandates`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import AtMost, Bound, Form, From, Is, Line, OwnText
from graph_agent.models.sources import CallSources, ReadCall, Source
from graph_agent.policy.cedar.result_data import whole_data
from graph_agent.policy.fact_errors import UnreadableError
from graph_agent.policy.sources import MIN_TEXT, PreparedText, Words, texts_of_result

_EMPTY: Final = object()
"""The only leaf of an empty list or object, which no bound contains."""
_CODE: Final = re.compile(r"(?=.*[0-9])[A-Za-z0-9_-]{1,14}")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9._%+-]+@(?P<host>[A-Za-z0-9.-]+)")
_LETTER: Final = r"[\w\u0300-\u036f]"
_HOST: Final = re.compile(rf"(?<!{_LETTER})(?<![.-])[a-z0-9-]+(?:\.[a-z0-9-]+)+(?!{_LETTER}|-|\.\w)")
"""A whole host: the end of one with other letters, such as `bücher.example`, is another host."""
_AMOUNT: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_OPENS, _CLOSES = r"(?:^|(?<=[\s\"'`<>()\[\]{},;|“”‘’„«»]))", r"(?=$|[\s\"'`<>()\[\]{},;|“”‘’„«»]|[.!?:](?:\s|$))"


class Conversation(NamedTuple):
    """The results that a conversation has read, and the words of its user, in view of one mandate."""

    before: Sequence[ReadCall] = ()
    """The results from before the yes: their values were known when the plan was made, and stand in it as they are."""
    since: Sequence[ReadCall] = ()
    """The results from after the yes, oldest first."""
    said: Sequence[str] = ()
    """The messages of the user."""
    is_whole: bool = True
    """False if a result from before the yes is not known any more: then nothing is certainly new."""


def fits(line: Line, call: FunctionCall, sources: CallSources | None, read: Conversation) -> str | None:
    """Return the reason why a call does not fit a line, as a clause; None if it fits.

    The arguments are without those that the runtime sets. An argument that the line names must be given, because a default of
    the tool was not shown; null and absent are one.
    """
    if call.name != line.tool:
        return "it is a call of another tool"
    given = {name: value for name, value in call.arguments.items() if value is not None}
    if unnamed := given.keys() - line.arguments.keys():
        return f"the line does not name {min(unnamed)}"
    if missing := line.arguments.keys() - given.keys():
        return f"{min(missing)} is not given"
    for name, bound in line.arguments.items():
        if (why := _misfit(name, given[name], bound, sources, read)) is not None:
            return f"{name} {why}"
    return None


def fitting_lines(
    lines: Sequence[Line], call: FunctionCall, sources: CallSources | None, read: Conversation, *, exact: bool = False
) -> tuple[int, ...]:
    """Return the numbers of the lines that a call fits, from 1; with `exact` only of lines that permit exactly one call."""
    numbered = enumerate(lines, 1)
    return tuple(n for n, line in numbered if (line.is_exact or not exact) and fits(line, call, sources, read) is None)


def _misfit(name: str, value: Any, bound: Bound, sources: CallSources | None, read: Conversation) -> str | None:
    leaves = list(leaves_of(value))
    match bound:
        case Is():
            return None if are_among(leaves, bound.values) else "is another value"
        case AtMost():
            return None if all(is_up_to(leaf, bound.at_most) for leaf in leaves) else f"is no number up to {bound.at_most}"
        case OwnText():
            return _no_own_text(name, leaves, sources)
        case From():
            return next((why for leaf in leaves if (why := _not_from(leaf, bound, read)) is not None), None)


def _no_own_text(name: str, leaves: Iterable[Any], sources: CallSources | None) -> str | None:
    if not all(isinstance(leaf, str) for leaf in leaves):
        return "is no text"
    if sources is None:
        return "has a source that is not known"
    return "is a copy of what others wrote" if Source.UNTRUSTED in sources.labels(name) else None


def _not_from(value: Any, bound: From, read: Conversation) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return "is no text and no number"
    if (why := not_of_form(value, bound, read.said)) is not None:
        return why
    if not read.is_whole:
        return "may have been known before the yes"
    if any(_mentions(one, value) for one in read.before):
        return "was known before the yes, and the line does not have it as it is"
    known = [*read.before, *read.since]
    for at, one in enumerate(read.since, len(read.before) + 1):
        # A tool may return what it was sent, or have stored it: that is no value from a result.
        if one.tool_name == bound.tool and stands_in(one, value, bound) and not _was_sent(value, known[:at]):
            return None
    return f"is no new value from a result of {bound.tool}"


def not_of_form(value: str | float, bound: From, said: Sequence[str]) -> str | None:
    """Return why a value does not have the form of a bound, as a clause; None if it does, or if no form is demanded.

    `said` are the messages of the user, whose hosts links and addresses may have.
    """
    match bound.form:
        case Form.CODE:
            return None if _CODE.fullmatch(str(value)) else "is no code"
        case Form.NUMBER:
            most = float("inf") if bound.at_most is None else bound.at_most
            return None if is_up_to(value, most) else "is no such number"
        case Form.LINK:
            return None if _host_of_link(value) in _hosts(said) else "is no link to a host that you have named"
        case Form.ADDRESS:
            found = _ADDRESS.fullmatch(str(value))
            return None if found and found["host"].lower() in _hosts(said) else "is no address at a host that you have named"
    return None


def _host_of_link(value: Any) -> str | None:
    """Return the host of a link; None for anything else, also for a link that another reader could take for one elsewhere."""
    text = str(value)
    if not re.fullmatch(r"https?://[!-~]+", text) or "\\" in text:
        return None
    try:
        parts = urlsplit(text)
        return None if "@" in parts.netloc or parts.port not in (None, 80, 443) else parts.hostname
    except ValueError:
        return None


def _hosts(said: Iterable[str]) -> frozenset[str]:
    """Return the hosts that the user has named, but for those that the user has forbidden anywhere."""
    found = [one for text in said for one in Words(unicodedata.normalize("NFC", text)).matches(_HOST)]
    return frozenset(host for host, _ in found) - {host for host, is_denied in found if is_denied}


def stands_in(read: ReadCall, value: str | float, bound: From) -> bool:
    """True if a value is a leaf of a result, at the path if there is one; without one also words of a leaf."""
    if not read.result.success:
        return False
    try:
        data = whole_data(read.result)
    except UnreadableError:
        return False
    if bound.at is not None:
        return any(is_same(leaf, value) for leaf in _at(data, re.findall(r"\[\*\]|[A-Za-z_][A-Za-z0-9_-]*", bound.at)))
    leaves = list(_values(data))
    if any(is_same(leaf, value) for leaf in leaves):
        return True
    text = str(value)
    if len(text) < MIN_TEXT or text != text.strip():
        return False
    words = re.compile(f"{_OPENS}{re.escape(text)}{_CLOSES}")
    return any(words.search(leaf) for leaf in leaves if isinstance(leaf, str))


def _mentions(read: ReadCall, value: str | float) -> bool:
    """True if a value stands in a result in whatever spelling. What others may have hidden there is found, too."""
    return _has(list(texts_of_result(read.result)), value)


def _was_sent(value: str | float, calls: Iterable[ReadCall]) -> bool:
    """True if the model has sent a value in a call that neither a yes nor a line has covered."""
    return any(_has([str(leaf) for leaf in leaves_of(one.arguments)], value) for one in calls if not one.agreed)


def _has(texts: Sequence[str], value: str | float) -> bool:
    """True if a value stands in texts in whatever spelling: a tool may return 5000.0 for a 5000 that it was sent."""
    prepared = PreparedText(texts)
    spellings = [value, Decimal(value)] if isinstance(value, str) and _AMOUNT.fullmatch(value) else [value]
    return any(map(prepared.has, spellings)) or any(_is_within(value, text) for text in texts)


def _is_within(value: str | float, text: str) -> bool:
    wanted, text = str(value).casefold(), text.casefold()
    return wanted == text or (len(wanted) >= MIN_TEXT and wanted in text)


def _at(data: Any, steps: Sequence[str]) -> Iterator[Any]:
    if not steps:
        yield data
    elif steps[0] == "[*]":
        for part in data if isinstance(data, list) else ():
            yield from _at(part, steps[1:])
    elif isinstance(data, Mapping) and steps[0] in data:
        yield from _at(data[steps[0]], steps[1:])


def leaves_of(value: Any) -> Iterator[Any]:
    """Yield every value within an argument; the names of an object's fields too, because a call may choose them."""
    if isinstance(value, dict | list):
        if not value:
            yield _EMPTY
        yield from value if isinstance(value, dict) else ()
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves_of(part)
    else:
        yield value


def _values(data: Any) -> Iterator[Any]:
    """Yield the values of a result, without the names of its fields."""
    if isinstance(data, dict | list):
        for part in data.values() if isinstance(data, dict) else data:
            yield from _values(part)
    else:
        yield data


def are_among(leaves: Iterable[Any], values: Iterable[Any]) -> bool:
    """True if each leaf is one of the values, and none is there more often: a list is no longer than its line shows."""
    return Counter(map(_exact, leaves)) <= Counter(map(_exact, values))


def _exact(value: Any) -> tuple[bool, Any]:
    """Return what is compared of a value. A switch is no number: 1 and true are two values."""
    return isinstance(value, bool), value


def is_same(leaf: Any, value: str | float) -> bool:
    """True if a leaf of a result is a value. A result may have a number as text."""
    return not isinstance(leaf, bool) and leaf is not None and (leaf == value or str(leaf) == str(value))


def is_up_to(leaf: Any, most: float) -> bool:
    """True for a number from 0 up to this one."""
    return isinstance(leaf, int | float) and not isinstance(leaf, bool) and 0 <= leaf <= most
