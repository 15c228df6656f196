"""The table of Gemini's model families: which parameters each accepts on the wire.

A model belongs to the family with the longest matching prefix. An unknown name belongs to the newest family, so that a new
model works without a release of this package. No other module compares model names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Literal

DEFAULT_MODEL = "gemini-3.8-flash"
"""The default model, defined only here."""

Effort = Literal["low", "medium", "high"]
"""The amount of reasoning before an answer. Low suits short turns with tools."""


@dataclass(frozen=True)
class Thinking:
    """The parameters of one `Effort`: a level or a budget in tokens. Gemini answers 400 to both together.

    Thoughts count against the output limit, so `allowance` tokens are added to the budget of the reply.
    """

    allowance: int
    level: Effort | None = None
    budget: int | None = None


@dataclass(frozen=True)
class Family:
    """One row of the table.

    `takes_temperature`: false for 3.x, where sampling parameters are deprecated and a low temperature made models loop.
    `gives_ids`: calls have ids, which every result must echo. Older models may refuse an id that they did not give.
    `signs_calls`: a call that is sent back without its thought signature is refused.
    `output_limit`: the largest number of output tokens that a request may ask for.
    """

    prefix: str
    takes_temperature: bool
    thinking: dict[Effort, Thinking] | None
    gives_ids: bool
    signs_calls: bool
    output_limit: int


_TOKENS: dict[Effort, int] = {"low": 4096, "medium": 8192, "high": 24576}
_LEVELS: dict[Effort, Thinking] = {effort: Thinking(tokens, level=effort) for effort, tokens in _TOKENS.items()}
_LOW_OR_HIGH: dict[Effort, Thinking] = {**_LEVELS, "medium": _LEVELS["high"]}
_BUDGETS: dict[Effort, Thinking] = {
    **{effort: Thinking(tokens, budget=tokens) for effort, tokens in _TOKENS.items()},
    "low": Thinking(1024, budget=1024),
}

NEWEST = Family("gemini-3", False, _LEVELS, gives_ids=True, signs_calls=True, output_limit=65536)

FAMILIES: tuple[Family, ...] = (
    NEWEST,
    Family("gemini-3-pro", False, _LOW_OR_HIGH, gives_ids=True, signs_calls=True, output_limit=65536),
    Family("gemini-2.5", True, _BUDGETS, gives_ids=False, signs_calls=False, output_limit=65536),
    Family("gemini-2.", True, None, gives_ids=False, signs_calls=False, output_limit=8192),
    Family("gemini-1.", True, None, gives_ids=False, signs_calls=False, output_limit=8192),
)

_RETIRED = re.compile(r"gemini-(pro(-vision)?|1\..*|2\.0-.*|2\.5-(flash|pro)(-0.*|-preview.*)?|3-pro-preview|3\.[57]-flash)")
"""The names of models that are shut down, routed to another model or closed to new users: `DEFAULT_MODEL` replaces them."""

_ROUTED: dict[str, tuple[date, str]] = {
    "gemini-3.7-flash": (date(2026, 10, 8), "gemini-3.8-flash"),
    "gemini-3.5-flash": (date(2026, 10, 8), "gemini-3.6-flash"),
    "gemini-2.5-flash": (date(2026, 12, 1), "gemini-3.5-flash-lite"),
    "gemini-2.5-pro": (date(2026, 12, 1), "gemini-3.8-flash"),
}
"""Models whose requests Google answers with another model from a day on, without an error."""


def plain_name(model: str) -> str:
    """Return `gemini-x` for `models/gemini-x` and `Gemini-X`."""
    return model.strip().lower().rsplit("/", 1)[-1]


def family_of(model: str) -> Family:
    """Return the family of `model`; the newest one for an unknown name."""
    name = plain_name(model)
    matching = [family for family in FAMILIES if name.startswith(family.prefix)]
    return max(matching, key=lambda family: len(family.prefix), default=NEWEST)


def successor(model: str) -> str | None:
    """Return the model that replaces `model` if that is retired, else None."""
    return DEFAULT_MODEL if _RETIRED.fullmatch(plain_name(model)) else None


def answering_model(model: str, today: date) -> str:
    """Return the model that answers a request to `model`: its own name, unless Google routes it to another model."""
    since, answers = _ROUTED.get(plain_name(model), (date.max, model))
    return answers if today >= since else model


def routed_model(model: str, response_model: str | None) -> str:
    """Return the model whose parameters the next request to `model` must use.

    That is `response_model` if both are Gemini models. A server of other models may report an alias, so `model` is kept there.
    """
    names = [plain_name(name) for name in (model, response_model or "")]
    return names[1] if all(name.startswith("gemini-") for name in names) else model


def thinking_of(family: Family, effort: Effort) -> Thinking:
    """Return the thinking parameters of `effort`; none for a family that does not think."""
    return family.thinking[effort] if family.thinking else Thinking(0)


def output_tokens(family: Family, effort: Effort, reply_tokens: int) -> int:
    """Return the output limit that leaves `reply_tokens` for the reply after thinking."""
    return min(reply_tokens + thinking_of(family, effort).allowance, max(family.output_limit, reply_tokens))
