"""What each family of Gemini models takes on the wire, in one table.

A name belongs to the longest prefix that fits; a name nobody knows belongs to the newest family, so that a model which comes
out tomorrow works without a release. Every other file asks this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

DEFAULT_MODEL = "gemini-3.8-flash"
"""The model that is used where nobody chose one. The only place that says so."""

Effort = Literal["low", "medium", "high"]
"""How long a model may think before it answers; low suits short turns with tools."""


@dataclass(frozen=True)
class Thinking:
    """One family's way to say an `Effort`: a level or a budget in tokens, never both (that is a 400).

    Thoughts count against the output limit, so `allowance` tokens are added to the reply's own budget.
    """

    allowance: int
    level: Effort | None = None
    budget: int | None = None


@dataclass(frozen=True)
class Family:
    """One row of the table.

    `takes_temperature`: on 3.x sampling parameters are deprecated, ignored or harmful, so none is sent.
    `gives_ids`: calls come with ids, which every result must echo; older models may refuse an id they never gave.
    `signs_calls`: a call that comes back without a thought signature is refused.
    `output_limit`: the most output tokens that may be asked for.
    """

    prefix: str
    takes_temperature: bool
    thinking: dict[Effort, Thinking] | None
    gives_ids: bool
    signs_calls: bool
    output_limit: int


_LEVELS: dict[Effort, Thinking] = {
    "low": Thinking(4096, level="low"),
    "medium": Thinking(8192, level="medium"),
    "high": Thinking(24576, level="high"),
}
_LOW_OR_HIGH: dict[Effort, Thinking] = {**_LEVELS, "medium": _LEVELS["high"]}
_BUDGETS: dict[Effort, Thinking] = {
    "low": Thinking(1024, budget=1024),
    "medium": Thinking(8192, budget=8192),
    "high": Thinking(24576, budget=24576),
}

NEWEST = Family("gemini-3", False, _LEVELS, gives_ids=True, signs_calls=True, output_limit=65536)

FAMILIES: tuple[Family, ...] = (
    NEWEST,
    Family("gemini-3-pro", False, _LOW_OR_HIGH, gives_ids=True, signs_calls=True, output_limit=65536),
    Family("gemini-2.5", True, _BUDGETS, gives_ids=False, signs_calls=False, output_limit=65536),
    Family("gemini-2.", True, None, gives_ids=False, signs_calls=False, output_limit=8192),
    Family("gemini-1.", True, None, gives_ids=False, signs_calls=False, output_limit=8192),
)

RETIRED: dict[str, str] = {
    "gemini-pro": DEFAULT_MODEL,
    "gemini-pro-vision": DEFAULT_MODEL,
    "gemini-1.*": DEFAULT_MODEL,
    "gemini-2.0-*": DEFAULT_MODEL,
    "gemini-2.5-flash": DEFAULT_MODEL,
    "gemini-2.5-flash-0*": DEFAULT_MODEL,
    "gemini-2.5-flash-preview*": DEFAULT_MODEL,
}
"""Names that no longer answer, as patterns -> what to use instead."""


def plain_name(model: str) -> str:
    """`models/gemini-x` and `Gemini-X` are both `gemini-x`."""
    return model.strip().lower().rsplit("/", 1)[-1]


def family_of(model: str) -> Family:
    """The row for `model`; the newest one for a name that fits none."""
    name = plain_name(model)
    fitting = [family for family in FAMILIES if name.startswith(family.prefix)]
    return max(fitting, key=lambda family: len(family.prefix), default=NEWEST)


def successor(model: str) -> str | None:
    """What replaces `model` if it is retired, else None."""
    name = plain_name(model)
    return next((new for pattern, new in RETIRED.items() if fnmatchcase(name, pattern)), None)


def thinking_of(family: Family, effort: Effort) -> Thinking:
    """How `family` says `effort`; a family that does not think says nothing and needs no allowance."""
    return family.thinking[effort] if family.thinking else Thinking(0)


def output_tokens(family: Family, effort: Effort, reply_tokens: int) -> int:
    """The limit to send so that `reply_tokens` are left for the reply after thinking."""
    return min(reply_tokens + thinking_of(family, effort).allowance, max(family.output_limit, reply_tokens))
