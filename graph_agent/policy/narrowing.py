"""The comparison of two plans: whether one permits no call that the other does not. Pure."""

from __future__ import annotations

from typing import Final

from graph_agent.models.mandate import AtMost, Bound, From, Is, Line, OwnText, Plan
from graph_agent.policy.mandate import are_among, is_up_to
from graph_agent.reply.text import counted

_WIDER: Final = "permits more than a line of the record, or stands in another order"


def narrows(plan: Plan, proposed: Plan) -> str | None:
    """Return why a proposed plan permits more than `plan`, as a sentence; None if it is as narrow, or narrower."""
    if proposed.job != plan.job:
        return "It is for another job."
    if proposed.minutes > plan.minutes:
        return f"It lasts {proposed.minutes} minutes, and at most {plan.minutes} are possible."
    if proposed.runs > plan.runs:
        return f"It has {counted(proposed.runs, 'run')}, and at most {plan.runs} are possible."
    wider = next((number for number, at in enumerate(narrowed_lines(plan, proposed), 1) if at is None), None)
    return None if wider is None else f"Line {wider} {_WIDER}."


def narrowed_lines(plan: Plan, proposed: Plan) -> list[int | None]:
    """Return for each proposed line the position of the line that it narrows: another one for each, in their order.

    None for a line that narrows none of those that are left.
    """
    found: list[int | None] = []
    first = 0
    for line in proposed.lines:
        at = next((at for at in range(first, len(plan.lines)) if line_narrows(plan.lines[at], line)), None)
        found.append(at)
        first = first if at is None else at + 1
    return found


def line_narrows(line: Line, proposed: Line) -> bool:
    """True if every call that fits the proposed line fits the other one, for as many calls, and as large sums, at most."""
    # A line that does not name an argument permits calls without it, which the other one does not.
    same = proposed.tool == line.tool and proposed.arguments.keys() == line.arguments.keys()
    return (
        same
        and proposed.times <= line.times
        and all(name in proposed.sum and proposed.sum[name] <= limit for name, limit in line.sum.items())
        and all(_is_within(proposed.arguments[name], bound) for name, bound in line.arguments.items())
    )


def _is_within(proposed: Bound, bound: Bound) -> bool:
    match bound, proposed:
        case Is(), Is():
            return are_among(proposed.values, bound.values)
        case AtMost(), Is():
            return all(is_up_to(value, bound.at_most) for value in proposed.values)
        case AtMost(), AtMost():
            return proposed.at_most <= bound.at_most
        case OwnText(), OwnText():
            return True
        case From(), From():
            return proposed.tool == bound.tool and _has_form_within(proposed, bound)
        case _:
            return False


def _has_form_within(proposed: From, bound: From) -> bool:
    if bound.form is None and bound.at is None:
        return True
    same = (proposed.form, proposed.at) == (bound.form, bound.at)
    if not same or bound.at_most is None:
        return same
    return proposed.at_most is not None and proposed.at_most <= bound.at_most
