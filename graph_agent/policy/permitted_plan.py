"""A plan narrowed to what runs under the rules, and the most that all of it has together."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from graph_agent.models.mandate import AtMost, Bound, Is, PermittedLine, Plan


def narrowed(plan: Plan, found: Sequence[PermittedLine]) -> Plan | None:
    """Return a plan without what never runs; None if nothing of it does."""
    lines = tuple(one.line for one in found if one.line is not None)
    return plan.replace(lines=lines) if lines else None


def largest_sums(plan: Plan) -> dict[tuple[str, str], Decimal]:
    """Return the most that all calls of a plan have together, by tool and argument, where a line bounds a number."""
    found: dict[tuple[str, str], Decimal] = {}
    for line in plan.lines:
        for name, bound in line.arguments.items():
            if (largest := _largest(bound)) is not None:
                most = min(line.times * largest, line.sum.get(name, Decimal("inf")))
                found[line.tool, name] = found.get((line.tool, name), Decimal(0)) + most
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _largest(bound: Bound) -> Decimal | None:
    """Return the largest number within a bound, and 0 if all are negative; None if it has values that are no numbers."""
    if isinstance(bound, AtMost):
        return Decimal(str(bound.at_most))
    if isinstance(bound, Is) and all(map(_is_number, bound.values)):
        return max(Decimal(0), *(Decimal(str(value)) for value in bound.values))
    return None
