"""A plan narrowed to what runs under the rules, and the most that all of it has together."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from graph_agent.models.mandate import AtMost, Bound, From, Is, PermittedLine, Plan
from graph_agent.policy.cedar.types import NUMBERS
from graph_agent.policy.compiled import CompiledPolicy


def narrowed(plan: Plan, found: Sequence[PermittedLine]) -> Plan | None:
    """Return a plan without what never runs; None if nothing of it does."""
    lines = tuple(one.line for one in found if one.line is not None)
    return plan.replace(lines=lines) if lines else None


def largest_sums(plan: Plan, policy: CompiledPolicy) -> dict[tuple[str, str], Decimal]:
    """Return the most that all calls of a plan have together, by tool and argument, where every line bounds a number.

    Of a standing plan these are the calls of all its runs.

    An argument that may be a list has as many numbers as a call gives: only a sum bounds it.
    """
    found: dict[tuple[str, str], Decimal] = {}
    for line in plan.lines:
        for name, bound in line.arguments.items():
            largest = _largest(bound) if _is_one_number(line.tool, name, policy) else Decimal("inf")
            if largest is not None:
                most = plan.runs * min(line.times * largest, line.sum.get(name, Decimal("inf")))
                found[line.tool, name] = found.get((line.tool, name), Decimal(0)) + most
    return {of: most for of, most in found.items() if most.is_finite()}


def _is_one_number(tool: str, name: str, policy: CompiledPolicy) -> bool:
    types = next((one.arguments for one in policy.actions if one.name == tool), None)
    declared = None if types is None else types.field(name)
    return declared is not None and declared.type.kind in NUMBERS


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _largest(bound: Bound) -> Decimal | None:
    """Return the largest number within a bound, and 0 if all are negative; None if it has a value that is no number."""
    match bound:
        case AtMost():
            return Decimal(str(bound.at_most))
        case Is() if all(map(_is_number, bound.values)):
            return max(Decimal(0), *(Decimal(str(value)) for value in bound.values))
        case From():
            return Decimal("inf") if bound.at_most is None else Decimal(str(bound.at_most))
    return None
