"""The tools and arguments without a suggested rule, and the values that were not learned, each with its reason."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.counted import names_object
from graph_agent.reply.text import counted, one_line
from graph_agent.suggestions.evidence import ToolEvidence
from graph_agent.suggestions.samples import OUTLIERS, Choices, Numbers, Value, largest_ordinary, with_margin

MIN_CALLS: Final = 50
"""A tool with fewer calls gets no rule."""
MAX_NAME: Final = 120
SHOWN: Final = 3
"""The values of an argument that are named because they were not learned."""

_IDENTIFYING: Final = 4
"""A text with so many digits may identify a person, and is never printed. So may one with an @."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something about which there is no rule, or that no rule was learned from, with the reason."""

    tool: str
    what: str
    """The argument; empty for all of the tool."""
    why: str

    def __str__(self) -> str:
        return f"{self.tool}: {self.what}: {self.why}" if self.what else f"{self.tool}: {self.why}"


def seen(tool: ToolEvidence) -> str:
    return f"{counted(tool.calls, 'call')} of {counted(len(tool.users), 'user')}"


def without_rule(tool: ToolEvidence, explained: Collection[str]) -> Iterator[LeftOut]:
    """Yield the arguments that are not `explained`, with the reason why there is no rule about their values."""
    for name, type_, _ in tool.action.arguments.fields:
        if name not in ("user_id", tool.action.bound_argument, *explained):
            yield LeftOut(tool.action.name, name, _why(tool, name, type_))


def _why(tool: ToolEvidence, name: str, type_: CedarType) -> str:
    paths = [part.path for part in tool.parts if part.path[0] == name]
    given = max((tool.given[path] for path in paths), default=0)
    unreadable = sum(tool.unreadable[path] for path in paths)
    choices = [tool.choices[path] for path in paths if path in tool.choices]
    if type_.kind is Kind.HIDDEN and not type_.is_list:
        return f"conditions cannot see it: {type_.why}"
    if given < MIN_CALLS:
        return f"given in {counted(given, 'call')}: too little for a rule"
    if unreadable > tool.calls * OUTLIERS:
        return f"conditions cannot read {counted(unreadable, 'value')}"
    if type_.is_numeric:
        return "a number that is always a text has no limit"
    if type_.number is not None and names_object(name):
        return "it names an object, of which no number is too large"
    if type_.number is not None or any(path in tool.lengths for path in paths):
        return "too many of the largest numbers are those of few users"
    if not choices:
        return "conditions about such values are not suggested"
    if all(one.is_usual(one.common()) for one in choices):
        return "all of its values are usual"
    return f"its values differ: those of enough users are {max(one.share(one.common()) for one in choices):.0%} of the calls"


def other_values(tool: ToolEvidence, what: str, choices: Choices, learned: Collection[str]) -> Iterator[LeftOut]:
    """Yield the values that are not learned, the most frequent first."""
    others = sorted((one for one in choices.calls if one not in learned), key=lambda one: (-choices.calls[one], one))
    for one in others[:SHOWN]:
        shown = "a value" if may_identify(one) or not one else one_line(one, MAX_NAME)
        yield LeftOut(tool.action.name, f"{what} {shown}", _made(choices.calls[one], len(choices.users[one])))
    if len(others) > SHOWN:
        calls, users = choices.others({*learned, *others[:SHOWN]})
        yield LeftOut(
            tool.action.name, f"{what} other values", f"{counted(calls, 'call')} of {counted(len(users), 'user')}, not learned"
        )


def numbers_above(tool: ToolEvidence, what: str, limit: Limit) -> Iterator[LeftOut]:
    """Yield the numbers above a limit, the smallest first."""
    above = sorted({one.number for one in limit.above})
    for one in above[:SHOWN]:
        yield LeftOut(
            tool.action.name, f"{what} {digits(one)}", _made_by([value for value in limit.above if value.number == one])
        )
    if rest := [one for one in limit.above if one.number in above[SHOWN:]]:
        yield LeftOut(tool.action.name, f"{what} {digits(rest[0].number)} to {digits(above[-1])}", _made_by(rest))


def _made_by(values: Sequence[Value]) -> str:
    return _made(len(values), len({one.user for one in values}))


def _made(calls: int, users: int) -> str:
    return f"{counted(calls, 'call')} of {counted(users, 'user')}, not learned"


class Limit(NamedTuple):
    """The limit of what is ordinary."""

    border: float
    share: str
    """The share of the values that are not above it."""
    above: Sequence[Value]


def limit_of(numbers: Numbers, enough: int) -> Limit | None:
    values = numbers.sorted
    index = largest_ordinary(values, numbers, enough) if values and values[-1].number > 0 else None
    if index is None or not math.isfinite(values[index].number):
        return None
    border = with_margin(values[index].number, whole=numbers.whole)
    if not 0 < border < 10**13:
        return None
    above = [one for one in values[index + 1 :] if one.number > border]
    return Limit(border, f"{1 - len(above) / len(values):.1%}", above)


def digits(value: float) -> str:
    # All digits: an amount in cents has many, and no one reads 1.2e+06.
    return f"{value:.15g}"


def may_identify(text: str) -> bool:
    return "@" in text or sum(map(str.isdigit, text)) >= _IDENTIFYING or len(text) > 80
