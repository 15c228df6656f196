"""Random schemas, rules, promises and conversations, judged by the guard with the sources that the real finder gives."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graph_agent.analysis.questions import Answer, prove
from graph_agent.errors import ConfigurationError
from graph_agent.models.decision import DecisionContext, PendingAction
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import CallSources, EarlierCalls, ReadCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.call_in_hand import CallInHand, Setting
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsFile, Situation, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import judge, judge_fact_read, sources_of_read
from graph_agent.policy.sources import SourceFinder
from tests.policy.cedar_shop import PERMIT, TEXT, ShopTool, facts, policy_of, schema

INTEGER = {"type": "integer"}
OBJECT = schema(name=TEXT, on={"type": "boolean"}, kind={"type": "string", "enum": ["x", "y"]})
KINDS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "text": (TEXT, ["", "ann@e.com", "mallory", "on", "x", "a b", "2026-05-19"]),
    "maybe": ({"type": ["string", "null"]}, ["mallory", "", None]),
    "choice": ({"type": "string", "enum": ["x", "y", "on"]}, ["x", "on"]),
    "default": ({"type": "string", "default": "mallory"}, ["mallory", "ann@e.com"]),
    "open_choice": ({"anyOf": [{"enum": ["x"]}, TEXT]}, ["x", "mallory"]),
    "fixed": ({"const": 7}, [7]),
    "null_choice": ({"enum": ["x", None]}, ["x", None]),
    "number": ({"type": "number"}, [0, 7, 450, 12.5]),
    "whole": (INTEGER, [0, 7, 450, 2026]),
    "rank": ({"type": "integer", "enum": [1, 7]}, [1, 7]),
    "switch": ({"type": "boolean"}, [True, False]),
    "flags": ({"type": "array", "items": {"type": "boolean"}}, [[], [True], [False, True], [True] * 1_001]),
    "choices": ({"type": "array", "items": {"enum": ["x", "on"]}}, [[], ["x"], ["on", "x"]]),
    "texts": ({"type": "array", "items": TEXT}, [[], ["mallory"], ["ann@e.com", "mallory"], [""], ["x"] * 1_001]),
    "gaps": ({"type": "array", "items": {"type": ["string", "null"]}}, [[], [None], ["mallory", None]]),
    "one_or_more": ({"anyOf": [TEXT, {"type": "array", "items": TEXT}]}, ["mallory", "", ["ann@e.com"], []]),
    "switches": ({"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "boolean"}}]}, [True, [], [False]]),
    "counts": ({"type": "array", "items": INTEGER}, [[], [7], [450, 7]]),
    "mixed": ({"type": ["string", "integer", "boolean"]}, ["mallory", 450, True, ""]),
    "object": (OBJECT, [{}, {"on": True}, {"kind": "x"}, {"name": "mallory", "on": False}]),
    "nested": (schema("inner", inner=OBJECT), [{"inner": {}}, {"inner": {"name": "ann@e.com"}}]),
    "objects": ({"type": "array", "items": OBJECT}, [[], [{}], [{"on": True}], [{"name": "mallory"}, {}]]),
    "free": ({"type": "object"}, [{}, {"mallory": 1}, {"on": True}, {"name": None}]),
    "any": ({}, [1, "mallory", True, None, [True], {"a": ["mallory"]}]),
    "__entity": (TEXT, ["mallory", "ann@e.com"]),
    "user_id": (TEXT, ["ann", "bob"]),
}
"""The schema of each argument, with values of it."""
PARTS = {
    "text": "$.text",
    "texts": "$.texts[*]",
    "gaps": "$.gaps[*]",
    "choices": "$.choices[*]",
    "object": "$.object.name",
    "nested": "$.nested.inner",
    "objects": "$.objects[*].name",
    "any": "$.any.a[*]",
}
"""A path into arguments, whose sources conditions name as those of `part_ARGUMENT`."""
_ALIKE = (("text", "choice", "open_choice"), ("whole", "rank"), ("texts", "choices", "gaps"), ("object", "free"))
READS = (
    ShopTool("mail", schema("q", "kind", "on", q=TEXT, kind={"enum": ["x", "y"]}, on={"type": "boolean"}), "mail", reads=True),
    ShopTool("list", schema(), reads=True, marker="(trusted results)"),
)
LABELS = ("user", "trusted", "untrusted", "model")
WORDS = ("ann@e.com", "mallory", "450", "on", "x", "a b", "7", "May 19th 2026", "")


@dataclass
class Found:
    proved: int = 0
    accepted: int = 0
    broken: list[str] = field(default_factory=list)


class RandomSources:
    """Makes policies of one change and two reads, promises about them, and conversations."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pick = self._random.choice
        self.arguments = self._random.sample([*KINDS], self._random.randrange(1, 5))
        self._tools: list[ShopTool] = []
        self._parts = {f"part_{name}": PARTS[name] for name in self.arguments if name in PARTS}

    def policy(self) -> CompiledPolicy:
        return self._policy_of(*self._files())

    def _policy_of(self, tools: list[ShopTool], rules: str, *, others: bool = False) -> CompiledPolicy:
        """Return the policy with the parts of the arguments as facts, or with `others` of the same names."""
        paths = {name: "$.objects[*].on" if others and "objects" in name else path for name, path in self._parts.items()}
        return policy_of(tools, "".join(f"- {name}: arguments {path}\n" for name, path in paths.items()) + rules)

    def pair(self) -> tuple[CompiledPolicy, CompiledPolicy]:
        """Return two policies that differ in what the sources of a call are found by, or in a rule."""
        while True:
            (act, *reads), text = self._files()
            rules = text.splitlines(keepends=True)
            others = False
            match self._random.randrange(6):
                case 5:
                    others = True
                case 0 | 1:
                    at = self._random.randrange(len(reads))
                    reads[at] = reads[at]._replace(marker="" if reads[at].marker else "(trusted results)")
                case 2:
                    act = self._tool()
                case 3:
                    rules.remove(self._pick(rules[1:]))
                case _:
                    rules.append(f"{self._rule(9)}\n")
            try:
                return self._policy_of(self._tools, text), self._policy_of([act, *reads], "".join(rules), others=others)
            except ConfigurationError:
                continue

    def _files(self) -> tuple[list[ShopTool], str]:
        """Return tools, and rules that fit them."""
        self._tools = [self._tool(), *READS]
        while True:
            rules = [self._rule(number) for number in range(self._random.randrange(1, 4))]
            text = PERMIT + "\n".join(rules) + "\n"
            try:
                self._policy_of(self._tools, text)
            except ConfigurationError:
                continue
            return [*self._tools], text

    def _tool(self) -> ShopTool:
        properties = {name: KINDS[self._like(name)][0] for name in self.arguments}
        parameters = schema(*(name for name in self.arguments if self._random.random() < 0.3), **properties)
        parameters["additionalProperties"] = self._random.random() < 0.25
        bindable = [name for name in ("text", "choice", "user_id") if name in self.arguments]
        marker = f"({self._pick(bindable)} is the signed-in user)" if bindable and self._random.random() < 0.4 else ""
        return ShopTool("t", parameters, marker=marker)

    def _like(self, name: str) -> str:
        """Return the kind of an argument: now and then that of another one of the same values."""
        alike = next((one for one in _ALIKE if name in one), (name,))
        return self._pick(alike) if self._random.random() < 0.2 else name

    def promises(self, policy: CompiledPolicy, count: int) -> list[str]:
        """Return the rules themselves and others, as far as they fit the tools."""
        assert policy.conditions is not None
        kept = [line for line in policy.conditions.file.text.splitlines() if line.startswith('@id("rule')]
        return [*kept, *(self._rule(number).replace("rule", "promise") for number in range(count))]

    def conversations(self, count: int) -> Iterator[tuple[DecisionContext, EarlierCalls, list[ReadCall], FunctionCall]]:
        for _ in range(count):
            words = " ".join(self._random.sample(WORDS, 3))
            called = (FunctionCall(name="t"),) if self._random.random() < 0.1 else ()
            context = DecisionContext(user_id="ann", message=f"please {words}", conversation_id="c", called=called)
            earlier = EarlierCalls(results=self._reads()) if self._random.random() < 0.4 else EarlierCalls()
            yield context, earlier, self._reads(), self._call()

    def _reads(self) -> list[ReadCall]:
        found = []
        for _ in range(self._random.randrange(3)):
            data: dict[str, Any] = {"text": " ".join(self._random.sample(WORDS, 2)), "on": True}
            found.append(ReadCall(self._pick(READS).name, {"q": self._pick(WORDS)}, ToolResult(success=True, data=data)))
        return found

    def _call(self) -> FunctionCall:
        if self._random.random() < 0.2:
            return FunctionCall("mail", {"q": self._pick(WORDS), "kind": "x", "on": True})
        given = {name: self._pick(KINDS[name][1]) for name in self.arguments if self._random.random() < 0.75}
        extra: dict[str, Any] = {"other": "mallory"} if self._random.random() < 0.1 else {}
        return FunctionCall("t", given | extra)

    def _rule(self, number: int) -> str:
        scope = self._pick([*['action == Action::"t"'] * 4, 'action == Action::"mail"', "action"])
        names = {'action == Action::"t"': self.arguments, 'action == Action::"mail"': ["q", "kind", "on"]}.get(scope, [])
        tests = " && ".join(self._test(names) for _ in range(self._pick([1, 2, 2])))
        asks = self._pick(["", " unless { context.confirmed }"])
        return f'@id("rule {number}") forbid (principal, {scope}, resource) when {{ {tests} }}{asks};'

    def _test(self, names: list[str]) -> str:
        pick = self._pick
        name, label = pick(names or ["q"]), pick(LABELS)
        source = f"context.source[{name!r}]".replace("'", '"')
        if f"part_{name}" in self._parts and self._random.random() < 0.5:
            source = f"context.source.part_{name}"
        own = [f'{source}.contains("{label}")'] * 3 + [f'["{label}"].containsAll({source})', f"{source}.isEmpty()"]
        given = f'context.arguments has "{name}"'
        own += [given, f"(context.length has {name} && context.length.{name} > 0)", f"({given} && {source}.isEmpty())"]
        if name in ("texts", "flags", "choices", "counts", "gaps", "switches", "one_or_more"):
            own.append(f'({given} && !context.arguments["{name}"].isEmpty())')
        shared = ["context.tainted", f'context.sources.contains("{label}")', "context.sources.isEmpty()"]
        shared += ["context.hidden.isEmpty()", f'context.hidden.contains("{name}")']
        return f"{pick(['', '', '!'])}({pick([*own, *shared] if names else shared)})"


def check(seed: int, found: Found, *, promises: int = 6, conversations: int = 25, seconds: float = 5) -> None:
    """Add to `found` the promises that are proved, and the accepted calls that break one of them."""
    made = RandomSources(seed)
    policy = made.policy()
    for promise in made.promises(policy, promises):
        try:
            (result,) = prove(policy, ConditionsFile(promise, "promises.cedar"), seconds)
        except ConfigurationError:
            continue
        if result.answer is not Answer.PROVED:
            continue
        found.proved += 1
        kept = policy.with_conditions(ConditionsFile(PERMIT + promise)).conditions
        assert kept is not None
        for context, earlier, reads, call in made.conversations(conversations):
            sources = SourceFinder(context, policy, earlier).sources([call], reads).calls[0]
            for confirmed, judged, given in _accepted(policy, call, sources):
                found.accepted += 1
                if _breaks(kept, judged, given, confirmed=confirmed):
                    assert policy.conditions is not None
                    found.broken.append(f"{seed}: {promise}\n{policy.conditions.file.text}\n{judged} {given} {confirmed}")


def _accepted(
    policy: CompiledPolicy, call: FunctionCall, sources: CallSources
) -> Iterator[tuple[bool, FunctionCall, CallSources]]:
    """Yield the calls that are sent, with the yes that they have: the call itself, and a read that the runtime makes for it."""
    setting = Setting(policy=policy, user_id="ann", decision_id="d", facts=facts(), max_calls_per_turn=50)
    judged = judge(CallInHand(call=call, setting=setting, sources=sources))
    if judged.disposition is CallDisposition.EXECUTED:
        yield False, FunctionCall(call.name, judged.arguments), sources
    if judged.disposition is CallDisposition.AWAITING:
        asked = {"id": "d", "tool_name": call.name, "arguments": judged.arguments, "description": "d"}
        yes = PendingAction.model_validate({**asked, "created_at": facts().now})
        confirmed = Setting(policy=policy, user_id="ann", decision_id="d", facts=facts(), max_calls_per_turn=50, confirmed=yes)
        judged = judge(CallInHand(call=call, setting=confirmed, sources=sources))
        if judged.disposition is CallDisposition.EXECUTED:
            yield True, FunctionCall(call.name, judged.arguments), sources
    if call.name == "t":
        read = FunctionCall("mail", {"q": "mallory", "kind": "x", "on": True})
        hand = CallInHand(call=read, setting=setting.of_reads(), sources=sources)
        if judge_fact_read(hand, 1).disposition is CallDisposition.EXECUTED:
            yield False, read, sources_of_read(sources, read.arguments)


def newly_possible(old: CompiledPolicy, new: CompiledPolicy, made: RandomSources, conversations: int) -> Iterator[str]:
    """Yield the tools that get a call under `new` that they did not get under `old`, or not without a yes.

    Each policy finds the sources of the call.
    """

    for context, earlier, reads, call in made.conversations(conversations):
        finders = [SourceFinder(context, policy, earlier) for policy in (old, new)]
        for confirmed, sent in _sent(new, call, finders[1].sources([call], reads).calls[0]):
            before = [yes for yes, _ in _sent(old, sent, finders[0].sources([sent], reads).calls[0])]
            if not before or (before == [True] and not confirmed):
                yield call.name


def _sent(policy: CompiledPolicy, call: FunctionCall, sources: CallSources) -> list[tuple[bool, FunctionCall]]:
    return [(confirmed, sent) for confirmed, sent, _ in _accepted(policy, call, sources) if sent.name == call.name]


def _breaks(promise: Conditions, call: FunctionCall, sources: CallSources, *, confirmed: bool) -> bool:
    decided = promise.judge(call.name, call.arguments, Situation("ann", (), facts(), sources=sources))
    is_broken = decided.verdict is Verdict.REFUSED or (decided.verdict is not Verdict.RUNS and not confirmed)
    return is_broken and any(one.startswith(("rule", "promise")) for one in decided.reasons)
