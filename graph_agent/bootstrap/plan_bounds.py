"""The bounds that every line of a plan about a tool has, for `constitution check` and `policy check`."""

from __future__ import annotations

from collections.abc import Iterator

from graph_agent.models.mandate import MAX_TIMES
from graph_agent.policy.constitution import InPlans
from graph_agent.policy.plan_check import payees_of
from graph_agent.policy.tool_rule import ToolRule


def plan_bounds(rule: ToolRule) -> Iterator[str]:
    """Yield what a line of a plan about this tool is bound to; nothing if plans may not have one."""
    if rule.grant.in_plans is None:
        return
    yield f"up to {MAX_TIMES} calls a line"
    if rule.grant.requires_confirmation:
        yield "with exactly one value for each argument"
    elif rule.grant.in_plans is InPlans.WITH_FORM:
        yield "with values from results only in a form"
    if payees := payees_of(rule):
        yield f"with {' and '.join(map(repr, payees))}, who gets money, never from a result that others can write"
