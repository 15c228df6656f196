"""Random policies about the facts of two tools, random edits of them, and the verdict of conditions on random results."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

from graph_agent.errors import ConfigurationError
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.conditions import ConditionsFile, Situation, Verdict
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from tests.fact_reading import OneAnswer, facts_of
from tests.policy.cedar_shop import TEXT, ShopTool, constitution_of, declarations_of, facts, schema

TOOLS = (
    ShopTool("get", schema("id", id=TEXT), reads=True),
    ShopTool("pay", schema("id", id=TEXT, amount={"type": "integer"})),
    ShopTool("ship", schema("id", id=TEXT)),
)
NAMES = ("pay", "ship")
FACTS: Sequence[str] = (
    "- o: get(id = arguments.id)",
    "- tags: o $.tags[*]",
    "- many: count o $.tags[*]",
    "- left: one o $.cards[?@.id == arguments.id].left",
    "- total: sum o $.lines[*].price",
    "- due: o.weight * arguments.amount",
)
OTHER_FACTS = {
    "- left": "- left: one o $.cards[?@.id != arguments.id].left",
    "- total": "- total: sum o $.cards[*].left",
    "- due": "- due: total * arguments.amount",
}
"""The facts of the same names that an edit may declare in their place."""
FIELDS: dict[str, dict[str, Any]] = {
    "status": TEXT,
    "due": TEXT,
    "weight": {"type": "integer", "minimum": 1, "maximum": 9},
    "price": {"type": "number", "maximum": 100},
    "kind": {"type": "string", "enum": ["a", "b"]},
    "place": {"type": "object", "properties": {"city": TEXT, "floor": {"type": "integer", "maximum": 3}}},
}
OUTPUT: dict[str, Any] = {
    "type": "object",
    "properties": {**FIELDS, "tags": {"type": "array", "items": TEXT}, "cards": {}, "lines": {}},
}
TESTS = {
    "status": ('{} == "open"', '{} like "o*"', '{} != "closed"'),
    "due": ("{} < context.time.now", '{} == "soon"'),
    "weight": ("{} > 5", "{} > 9", "{} == 3"),
    "price": ('{}.greaterThan(decimal("10.0"))', '{}.lessThan(decimal("-1.0"))'),
    "kind": ('{} == "a"', '["a", "b"].contains({})'),
    "place": ('{}.city == "Rome"', "{0} has floor && {0}.floor > 2", '{0} has city && {0}.city == "Oslo"'),
}
VALUES: dict[str, list[Any]] = {
    "status": ["open", "closed", "", 5, None],
    "due": ["2020-01-01", "2030-01-01", "soon", 5, None],
    "weight": [1, 5, 6, 9, 10, "heavy", True, 2.5, None],
    "price": [0, 12.5, 100, 101, -5, 0.00001, "12", None],
    "kind": ["a", "b", "c", 1, None],
    "place": [{"city": "Rome"}, {"city": "Oslo", "floor": 3}, {"city": 5}, {"floor": 9}, {"floor": "top"}, {}, "here", None],
    "tags": [[], ["x"], ["x", "y"], [1], "x", None],
    "cards": [
        [{"id": "1", "left": 5}],
        [{"id": "1", "left": "20.5"}, {"id": "2", "left": 3}],
        [],
        [{"id": "1", "left": 5}, {"id": "1", "left": 50}],
        [{"id": 1, "left": 50}],
        [{"left": 50}],
        [{"id": "1", "left": 0.00001}],
        "cards",
        None,
    ],
    "lines": [[{"price": 4}], [{"price": "4.5"}, {"price": 8}], [], [{"price": "four"}], [{"price": 10**30}], [{}], 4, None],
}
AMOUNT_TESTS = ("{} > 5", "{} < 10", "{} == 12")
DECIMAL_TESTS = ('{}.lessThan(decimal("10.0"))', '{}.greaterThan(decimal("4.5"))', "{}.lessThanOrEqual(context.result.total)")


class RandomFactEdits:
    """Makes pairs of policies that differ in a rule or in the output schema, and results of the tool that they read."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pair(self) -> tuple[CompiledPolicy, CompiledPolicy]:
        while True:
            rules, output = [self._rule() for _ in range(self._random.randrange(1, 4))], self._output()
            other_rules, other_output, other_facts = [*rules], deepcopy(output), FACTS
            for _ in range(self._random.choice([1, 1, 2])):
                match self._random.randrange(6):
                    case 0 | 1 if other_rules:
                        other_rules.remove(self._random.choice(other_rules))
                    case 2:
                        other_rules.append(self._rule())
                    case 3 if other_rules:
                        other_rules[self._random.randrange(len(other_rules))] = self._rule()
                    case 4:
                        other_facts = self._facts()
                    case _:
                        other_output = self._output()
            try:
                return policy_about(rules, output), policy_about(other_rules, other_output, other_facts)
            except ConfigurationError:
                continue

    def calls(self, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield tools, each with the data that is read before a call of it."""
        pick = self._random.choice
        for _ in range(count):
            data = {name: pick(values[: pick([2, 3, 9])]) for name, values in VALUES.items() if self._random.random() < 0.9}
            yield pick(NAMES), data

    def _rule(self) -> str:
        pick = self._random.choice
        scope = pick([*(f'action == Action::"{name}"' for name in NAMES), 'action in Action::"all writes"'])
        asks = pick(["", "", " unless { context.confirmed }"])
        return f"forbid (principal, {scope}, resource) {pick(['when', 'when', 'unless'])} {{ {self._test()} }}{asks};"

    def _test(self) -> str:
        pick = self._random.choice
        name = pick([*TESTS, "tags", "many", "o", "left", "total", "due"])
        match name:
            case "tags":
                return 'context.result has tags && context.result.tags.contains("x")'
            case "many":
                return f"context.result has many && context.result.many {pick(['>', '=='])} 1"
            case "o":
                return "context.result has o"
            case "left" | "total" | "due":
                test = pick(AMOUNT_TESTS if name == "due" else DECIMAL_TESTS).format(f"context.result.{name}")
                return f"context.result has {name} && {test}"
        guarded = f"context.result.o has {name} && " if self._random.random() < 0.6 else ""
        return f"context.result has o && {guarded}({pick(TESTS[name]).format(f'context.result.o.{name}')})"

    def _facts(self) -> Sequence[str]:
        """Return the declarations with one of them changed."""
        name = self._random.choice([*OTHER_FACTS])
        return tuple(OTHER_FACTS[name] if line.startswith(f"{name}:") else line for line in FACTS)

    def _output(self) -> dict[str, Any] | None:
        if self._random.random() < 0.3:
            return None
        properties = deepcopy(OUTPUT["properties"])
        for name in self._random.sample([*properties], self._random.randrange(3)):
            properties[name] = self._random.choice(
                [{}, {**properties[name], "maximum": 5}, {**properties[name], "maxItems": 1}]
            )
        return {"type": "object", "properties": properties}


def verdict(policy: CompiledPolicy, tool: str, data: dict[str, Any]) -> Verdict:
    """Return the verdict of conditions on a call of a tool, of whose object this is read."""
    assert policy.conditions is not None
    call = FunctionCall(tool, {"id": "1", **({"amount": 3} if tool == "pay" else {})})
    known = CallFacts()
    if policy.conditions.needs_facts(tool):
        known = facts_of(policy, call, OneAnswer(ToolResult(success=True, data=data)))
    return policy.conditions.judge(tool, call.arguments, Situation("ann", (), facts(), results=known)).verdict


def is_looser(before: Verdict, now: Verdict) -> bool:
    strictness = list(reversed(Verdict))
    return strictness.index(now) > strictness.index(before)


def policy_about(rules: list[str], output: dict[str, Any] | None, declared: Sequence[str] = FACTS) -> CompiledPolicy:
    """Return a policy with these rules about `pay` and `ship`; `output` is the output schema of the tool that is read."""
    traits = {one.name: ToolTraits(read_only=one.reads, output=output if one.name == "get" else None) for one in TOOLS}
    servers = {one.name: one.server for one in TOOLS}
    constitution = Constitution.parse("\n".join(["## Facts", *declared, "", constitution_of(TOOLS)]))
    policy = compile_policy(constitution, declarations_of(TOOLS), traits, servers=servers)
    policy = policy.with_conditions(ConditionsFile("permit (principal, action, resource);\n" + "\n".join(rules)))
    assert policy.conditions is not None
    policy.conditions.require_valid()
    return policy
