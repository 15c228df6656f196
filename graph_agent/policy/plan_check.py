"""The check of a plan before anybody is asked about it: whether the rules admit such lines at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import ValidationError

from graph_agent.models.base import located_violation
from graph_agent.models.mandate import AtMost, From, Is, Line, Plan
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import InPlans
from graph_agent.policy.counted import counts_of
from graph_agent.policy.tool_rule import ToolRule

_PAYEE: Final = re.compile(
    r"(?:^|_)(?:to|recipients?|payees?|beneficiar(?:y|ies)|receivers?|creditors?|destinations?|iban|bic|accounts?|wallets?|cards?)"
    r"(?:_(?:id|iban|number|name|address|email))?$"
)
"""The names of arguments that say who gets money, of a tool that has an amount of money."""
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")


class PlanError(Exception):
    """The plan cannot be asked about; the text says why, as a clause for the model."""


def read_plan(arguments: Mapping[str, Any], policy: CompiledPolicy) -> Plan:
    """Return the plan that a model proposes. Raises `PlanError`."""
    try:
        plan = Plan.model_validate(dict(arguments))
    except ValidationError as exc:
        raise PlanError(located_violation(exc)) from None
    if plan.job:
        raise PlanError("a plan for a job is made from a decision alone")
    require_permitted(plan, policy)
    return plan


def require_permitted(plan: Plan, policy: CompiledPolicy) -> None:
    """Raise `PlanError` if the rules admit no such line."""
    for number, line in enumerate(plan.lines, 1):
        if (why := next(problems_of_line(line, policy, standing=bool(plan.job)), None)) is not None:
            raise PlanError(f"line {number}: {why}")


def plan_problem(arguments: Mapping[str, Any], policy: CompiledPolicy) -> str | None:
    """Return the reason why a plan cannot be asked about; None if it can."""
    try:
        read_plan(arguments, policy)
    except PlanError as exc:
        return str(exc)
    return None


def payees_of(rule: ToolRule) -> tuple[str, ...]:
    """Return the arguments of a tool that say who gets money; none if it has no amount of money."""
    names = tuple(rule.declaration.parameters.get("properties", {}))
    if not any(counts_of(name) == "money" for name in names):
        return ()
    return tuple(name for name in names if _PAYEE.search("_".join(_WORD.findall(name)).lower()))


def problems_of_line(line: Line, policy: CompiledPolicy, *, standing: bool = False) -> Iterator[str]:
    """Yield why no plan, or no `standing` one, may have a line, as clauses."""
    rule = policy.rules.get(line.tool)
    if rule is None or rule.grant.in_plans is None:
        yield f"{line.tool} is in no plan"
        return
    if rule.grant.requires_confirmation and not line.is_exact:
        yield f"{line.tool} needs exactly one value for each argument"
    known = rule.declaration.parameters.get("properties", {})
    own = {rule.grant.bound_argument, *([] if rule.takes_user_id else ["user_id"])}
    for name, bound in line.arguments.items():
        if name not in known:
            yield f"{line.tool} has no argument {name}"
        if name in own:
            yield f"the runtime sets {name}"
        if isinstance(bound, From):
            yield from _problems_of_source(name, bound, rule, policy, standing=standing)
    for name in line.sum:
        bound = line.arguments[name]
        numbers = isinstance(bound, AtMost) or (isinstance(bound, Is) and all(_is_number(value) for value in bound.values))
        if not numbers and not (isinstance(bound, From) and bound.form == "number"):
            yield f"{name} is no number, and has no sum"


def _problems_of_source(name: str, bound: From, rule: ToolRule, policy: CompiledPolicy, *, standing: bool) -> Iterator[str]:
    source = policy.rules.get(bound.tool)
    if source is None:
        yield f"there is no tool {bound.tool}"
        return
    if bound.at is not None and source.traits.output is None:
        yield f"{bound.tool} declares no results, so that a path in them is not known"
    # Each run of a job begins with an empty conversation: whatever is read there is new, so only the form bounds it.
    if (standing or rule.grant.in_plans is InPlans.WITH_FORM) and bound.form is None and bound.at is None:
        yield f"{name} needs a form or a path"
    if name in payees_of(rule) and not source.grant.trusted_results:
        yield f"{name} says who gets money: it is a value that the user is shown, and none from a result"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
