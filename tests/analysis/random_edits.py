"""Random policies of two tools, random edits of them, and what the guard decides about random calls before and after."""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from graph_agent.errors import ConfigurationError
from graph_agent.models.decision import PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.policy.cedar.conditions import ConditionsFile, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.schema.keywords import walk
from tests.judging import judge_batch
from tests.policy.cedar_shop import PERMIT, ROLES, ShopTool, facts, policy_of

KINDS: dict[str, dict[str, Any]] = {
    "s": {"type": "string"},
    "to": {"type": "array", "items": {"type": "string"}},
    "e": {"type": "string", "enum": ["a", "b"]},
    "n": {"type": "integer", "minimum": 0, "maximum": 10},
    "d": {"type": "number", "minimum": 0, "maximum": 2.5},
    "b": {"type": "boolean"},
    "h": {"type": "object"},
    "r": {"type": "object", "properties": {"k": {"type": "string"}, "i": {"type": "integer"}}, "required": ["k"]},
    "x": {"$ref": "#/$defs/X"},
    "o": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "l": {"type": "array", "items": {"type": "object", "properties": {"q": {"type": "integer"}}}},
    "any": {},
    "user_id": {"type": "string"},
}
VALUES: dict[str, list[Any]] = {
    "s": ["", "a", "abc", "ann", "bob", "a@e.com", "ABCDEFGH", 5, None],
    "to": [[], ["a"], ["a", "b"], ["b", "b"], ["a", "b", "c", "d"], ["x@e.com"]],
    "e": ["a", "b", "c", "", None],
    "n": [-1, 0, 1, 3, 5, 7, 10, 11, 12, 100, 2.5, None],
    "d": [-0.5, 0, 0.5, 1.25, 2.5, 2.50001, 3, 9, None],
    "b": [True, False, None],
    "h": [{}, {"z": 1}, {"user_id": "bob"}],
    "r": [{"k": "a"}, {"k": "abc", "i": 3}, {}, {"k": "a", "z": 1}, {"k": "a", "i": 99}],
    "x": ["a", "c", 7, {"k": "a"}],
    "o": [0, 5, 50, None],
    "l": [[], [{"q": 1}], [{"q": 1, "w": 2}], [{}] * 4, [{"q": "text"}]],
    "any": [1, "a", {"user_id": "bob"}],
    "user_id": ["ann", "bob"],
    "new": [1, "a"],
}
WORDS: dict[str, list[Any]] = {
    "pattern": ["^a", "^.{0,3}$"],
    "format": ["email"],
    "minLength": [1, 3],
    "maxLength": [1, 4],
    "minimum": [0, 1, 3, 0.5],
    "maximum": [3, 10, 2.5, 2.50005],
    "exclusiveMinimum": [0, 1],
    "exclusiveMaximum": [10, 11],
    "multipleOf": [2, 5],
    "minItems": [1, 2],
    "maxItems": [1, 3],
    "uniqueItems": [True],
    "enum": [["a", "b"], ["a"], ["a", "b", "c"], [True], [1, 3, 5], ["a", None], [True, False]],
    "const": ["a", 3],
    "not": [{"const": "a"}, {"minimum": 5}],
    "type": ["string", "integer", "number", ["string", "null"], ["integer", "string"], ["integer", "null"]],
    "properties": [{"k": {"type": "string"}}, {"k": {}, "z": {"type": "integer"}}, {"q": {"type": "integer"}}],
    "required": [["k"], ["k", "i"], []],
    "additionalProperties": [True, False, {}, {"type": "integer"}],
    "items": [
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string"},
        {"type": "object"},
        {"type": "string", "maxLength": 1},
    ],
    "default": ["a", 3],
    "title": ["A"],
    "description": ["It."],
    "anyOf": [[{"type": "integer"}, {"type": "string"}], [{"minimum": 3}, {"maximum": 1}]],
    "allOf": [[{"properties": {"z": {}}}], [{"maxLength": 2}]],
}
ROOT_WORDS: dict[str, list[Any]] = {
    "additionalProperties": [True, False, {}, {"type": "integer"}],
    "unevaluatedProperties": [True, False],
    "patternProperties": [{"^ne": {}}],
    "dependentRequired": [{"s": ["n"]}],
    "not": [{"required": ["s", "n"]}],
    "anyOf": [[{"required": ["s"]}, {"required": ["n"]}]],
    "allOf": [[{"properties": {"new": {"type": "integer"}}}], [{"required": ["n"]}]],
    "if": [{"properties": {"e": {"const": "a"}}}],
    "then": [{"required": ["n"]}, {"properties": {"new": {}}}],
    "maxProperties": [1, 3],
    "minProperties": [1],
    "propertyNames": [{"maxLength": 1}],
    "$defs": [{"X": {"type": "string"}}, {"X": {"type": "string", "enum": ["a"]}}, {"X": {"type": ["string", "integer"]}}],
}
MARKERS = (
    "(requires confirmation)",
    "(without confirmation)",
    "(reads)",
    "(at most 1 per message)",
    "(at most 3 per message)",
    "(s is the signed-in user)",
    "(e is the signed-in user)",
)
RULES = (
    'forbid (principal, action == Action::"t", resource) when { context.arguments has n && context.arguments.n > 5 };',
    'forbid (principal, action == Action::"t", resource) when { context.arguments has n && context.arguments.n > 5 }'
    " unless { context.confirmed };",
    'forbid (principal, action == Action::"t", resource)'
    ' when { context.arguments has d && context.arguments.d.greaterThan(decimal("1.0")) };',
    'forbid (principal, action == Action::"t", resource) when { context.arguments has s && context.arguments.s like "a*" };',
    'forbid (principal, action == Action::"t", resource) when { context.arguments has e && context.arguments.e == "b" };',
    'forbid (principal, action == Action::"t", resource) unless { context.arguments has b && context.arguments.b };',
    'forbid (principal, action == Action::"t", resource) when { context.arguments has x };',
    'forbid (principal, action == Action::"t", resource) when { context.length has to && context.length.to > 2 };',
    'forbid (principal, action == Action::"t", resource) when { context.domain has s && context.domain.s.contains("e.com") };',
    'forbid (principal, action in Action::"all writes", resource) unless { context.hidden.isEmpty() || context.confirmed };',
    'forbid (principal, action in Action::"all writes", resource) when { context.used.message.writes > 2 };',
    'forbid (principal, action in Action::"all reads", resource) unless { context.confirmed };',
    'forbid (principal, action in Action::"server a", resource);',
    'forbid (principal, action, resource == Server::"b") unless { context.confirmed };',
    'forbid (principal, action == Action::"t", resource) when { context.arguments has r && context.arguments.r has i };',
    'forbid (principal, action == Action::"t", resource) unless { principal in Role::"manager" };',
)
_EFFECTS = (Verdict.REFUSED, Verdict.ASKS, Verdict.RUNS)


class RandomEdits:
    """Makes a policy of the tools `t` and `u`, edits of it, and calls of `t`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pair(self) -> tuple[CompiledPolicy, CompiledPolicy]:
        """Return a policy, and the policy after one to three edits."""
        while True:
            try:
                before = self._draft()
                after = deepcopy(before)
                for _ in range(self._random.choice([1, 1, 1, 2, 3])):
                    self._edit(after)
                return _policy(before), _policy(after)
            except ConfigurationError:
                # The schema, the marker or the rule is not valid.
                continue

    def calls(self, count: int, *policies: CompiledPolicy) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield arguments, mostly those that one of the policies declares, and the circumstances of a call with them."""
        pick = self._random.choice
        declared = {one for policy in policies for one in policy.rules["t"].declaration.parameters.get("properties", ())}
        required = {one for policy in policies for one in policy.rules["t"].declaration.parameters.get("required", ())}
        for _ in range(count):
            names = {one for one in sorted(declared & VALUES.keys()) if self._random.random() < 0.4}
            names |= {one for one in sorted(required & VALUES.keys()) if self._random.random() < 0.9}
            names |= {pick(list(VALUES))} if self._random.random() < 0.15 else set()
            arguments = {name: pick(VALUES[name]) for name in sorted(names)}
            past = [PastCall(n, pick("ttu"), {"s": f"other {n}"}) for n in range(pick([0, 0, 0, 1, 2, 3]))]
            again = self._random.random() < 0.2
            yield (
                arguments,
                {"again": again, "past": past, "roles": tuple(self._random.sample(ROLES, self._random.randrange(3)))},
            )

    def _draft(self) -> dict[str, Any]:
        names = self._random.sample(list(KINDS), self._random.randrange(1, 6))
        properties = {name: deepcopy(KINDS[name]) for name in names}
        draft: dict[str, Any] = {
            "schema": {"type": "object", "properties": properties, "$defs": {"X": {"type": "string"}}},
            "markers": {"(without confirmation)"},
            "server": "a",
            "reads": False,
            "rules": set(self._random.sample(RULES, self._random.randrange(4))),
        }
        for _ in range(self._random.randrange(7)):
            self._edit(draft)
        return draft

    def _edit(self, draft: dict[str, Any]) -> None:
        pick, schema = self._random.choice, draft["schema"]
        properties: dict[str, Any] = schema.setdefault("properties", {})
        match pick(["word", "word", "word", "root", "property", "required", "marker", "rule", "server", "reads", "nested"]):
            case "word" if properties:
                _toggle(pick(list(properties.values())), pick(list(WORDS)), pick)
            case "nested":
                _toggle(pick([part for _, part in walk(schema)]), pick(list(WORDS)), pick)
            case "root":
                word = pick(list(ROOT_WORDS))
                _toggle(schema, word, pick, ROOT_WORDS)
                schema.setdefault("$defs", {"X": {"type": "string"}})
            case "property":
                name = pick([*KINDS, "new"])
                if name in properties:
                    del properties[name]
                else:
                    properties[name] = deepcopy(KINDS.get(name, {}))
            case "required" if properties:
                schema["required"] = sorted({*schema.get("required", ())} ^ {pick(list(properties))})
            case "marker":
                draft["markers"] ^= {pick(MARKERS)}
            case "rule":
                draft["rules"] ^= {pick(RULES)}
            case "server":
                draft["server"] = pick("ab")
            case "reads":
                draft["reads"] = not draft["reads"]


def effect(policy: CompiledPolicy, arguments: dict[str, Any], given: dict[str, Any]) -> tuple[Verdict, dict[str, Any]]:
    """Return what the guard decides about a call of `t` by Ann, and the arguments that the tool would get.

    It is the second call with these arguments if it is made `again`.
    """
    call = FunctionCall(name="t", arguments=arguments)
    situation: dict[str, Any] = {"policy": policy, "user_id": "ann", "decision_id": "d", "max_calls_per_turn": 50}
    situation |= {"facts": facts(), "past": given["past"], "roles": given["roles"]}
    (judged,) = judge_batch([call], **situation)
    if given["again"]:
        # The first one had the arguments that this policy gave it.
        situation["past"] = [*given["past"], PastCall(len(given["past"]), "t", judged.arguments)]
        (judged,) = judge_batch([call], **situation)
    if judged.disposition is not CallDisposition.AWAITING:
        return Verdict.RUNS if judged.disposition is CallDisposition.EXECUTED else Verdict.REFUSED, judged.arguments
    asked = {"id": "d", "tool_name": "t", "arguments": judged.arguments, "description": "d"}
    yes = PendingAction.model_validate({**asked, "created_at": situation["facts"].now})
    (judged,) = judge_batch([call], **situation, confirmed=yes)
    return Verdict.ASKS if judged.disposition is CallDisposition.EXECUTED else Verdict.REFUSED, judged.arguments


def is_newly_possible(old: CompiledPolicy, new: CompiledPolicy, arguments: dict[str, Any], given: dict[str, Any]) -> bool:
    """True if the tool gets a call under `new` that it did not get under `old`, or not without a yes."""
    now, received = effect(new, arguments, given)
    before, _ = effect(old, received, given)
    return _EFFECTS.index(now) > _EFFECTS.index(before)


def _toggle(schema: dict[str, Any], word: str, pick: Any, words: dict[str, list[Any]] = WORDS) -> None:
    if word in schema and pick([True, False]):
        del schema[word]
    else:
        schema[word] = deepcopy(pick(words[word]))


def _policy(draft: dict[str, Any]) -> CompiledPolicy:
    marker = " ".join(sorted(draft["markers"]))
    tools = [ShopTool("t", draft["schema"], draft["server"], draft["reads"], marker), ShopTool("u", {"type": "object"}, "a")]
    policy = policy_of(tools, None)
    return policy.with_conditions(ConditionsFile(PERMIT + "\n".join(sorted(draft["rules"])), roles=ROLES))
