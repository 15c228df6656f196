"""Numbers as JSON has them: which values are one, also as a text, and exact sums and products of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal, localcontext
from math import prod
from typing import Any, Final

from graph_agent.policy.fact_errors import UnreadableError

PLAIN_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_PRECISION: Final = 1000
"""The digits of a sum or a product."""
_MOST_DIGITS: Final = 40
"""The digits before or after the point of a number in one: no amount has more."""


def is_number(value: Any) -> bool:
    """True for a number, also one that is plainly written as a text."""
    if isinstance(value, str):
        return PLAIN_NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def total(values: Iterable[Any]) -> int | str:
    """Return an exact sum. Raises `UnreadableError` for a value that is no number."""
    with localcontext(prec=_PRECISION):
        return _as_json(sum(map(_number, values), Decimal(0)))


def product(values: Iterable[Any]) -> int | str:
    """Return an exact product. Raises `UnreadableError` for a value that is no number."""
    with localcontext(prec=_PRECISION):
        return _as_json(prod(map(_number, values), start=Decimal(1)))


def _number(value: Any) -> Decimal:
    if is_number(value) and len(text := str(value)) <= _PRECISION // 10:
        number = Decimal(text)
        if number.is_finite() and abs(number.adjusted()) <= _MOST_DIGITS:
            return number
    raise UnreadableError("a value that it is made from is no number")


def _as_json(number: Decimal) -> int | str:
    """Return a number without loss: a whole one, or a text."""
    return int(number) if number == number.to_integral_value() else f"{number.normalize():f}"
