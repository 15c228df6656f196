"""The check of a declared fact against the tools that it is read from. It needs no Cedar."""

from __future__ import annotations

from collections.abc import Mapping

from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.facts import Fact, FactKind


def problem_of(fact: Fact, actions: Mapping[str, ToolAction]) -> str | None:
    """Return why a fact cannot come from its tools, as a clause; None if it can."""
    for name in fact.tools:
        action = actions.get(name)
        if action is None:
            return f"there is no tool '{name}'"
        if not action.gives_facts:
            return f"the server of '{name}' is not trusted: its line in the constitution needs (trusted results)"
        if fact.kind is FactKind.READ and action.writes:
            return f"the tool '{name}' may change something: only reads give facts"
    named = {field.name for action in actions.values() for field in action.arguments.fields}
    if unknown := sorted(fact.arguments - named):
        return f"no tool has an argument '{unknown[0]}'"
    if fact.kind is not FactKind.READ:
        return None
    action = actions[fact.tools[0]]
    given = {parameter for parameter, _ in fact.parameters}
    for parameter in sorted(given):
        if action.arguments.field(parameter) is None:
            return f"the tool '{action.name}' has no parameter '{parameter}'"
    filled = {*given, action.bound_argument}
    missing = [one.name for one in action.arguments.fields if one.required and one.name not in filled]
    return f"the tool '{action.name}' needs the parameter '{missing[0]}'" if missing else None
