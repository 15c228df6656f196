"""The plans that a model could have proposed in a recorded run: an honest one, and the worst one of an attacker.

No recorded model knew plans. An honest plan is made from the run of the same task without an attack. A value stands in it as
it is if the user has said it, a tool's declaration or a result had it before the first change, or the model has chosen or
composed it. Every other one is a text of the model, or `from` a result that brings it later. The engine's own check says
which of these a line can have. A cautious plan has no text that the model composed of a later value. The worst plan has the
tools of the attacker's call too, and bounds as wide as the form has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import yaml

from benchmarks.agentdojo.tool_list import ToolList
from benchmarks.agentdyn.marks import MARKS
from benchmarks.agentdyn.recording import Proposed, Recording
from graph_agent.bootstrap.source_rules import targets_of
from graph_agent.models.decision import DecisionContext, Message
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import MAX_LINES, MAX_TIMES, Line
from graph_agent.models.sources import NO_CALLS, CallSources, EarlierCalls, ReadCall, Source
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.mandate import Conversation, fits
from graph_agent.policy.plan_check import plan_problem
from graph_agent.policy.sources import PreparedText, SourceFinder, texts_of_result

Quality = Literal["honest", "cautious", "worst"]

_LARGE = 10**9
_WORST_TIMES = 5
_CHOSEN = 10
"""A number up to this one is the model's own choice, as a rating is, and stands in a plan; a larger one was computed."""
_WORD = re.compile(r"[\w.@-]{4,}")
"""A part of a text that a cautious plan must have known, such as the name of a file in a path."""


class _Step(NamedTuple):
    """A call of a recorded run."""

    call: FunctionCall
    known: int
    """The number of results that were known before it."""


class _Run:
    """The calls of a recorded run and their results, as the engine's check of a plan sees them."""

    def __init__(self, recording: Recording, prompt: str, policy: CompiledPolicy) -> None:
        self.policy = policy
        self.steps: list[_Step] = []
        self.read: list[ReadCall] = []
        self._context = DecisionContext(user_id="user", message=prompt, conversation_id="run")
        self._said = PreparedText([prompt])
        declared = [[rule.declaration.description, rule.declaration.parameters] for rule in policy.rules.values()]
        self._declared = PreparedText(map(str, _leaves(declared)))
        called: dict[str, FunctionCall] = {}
        for message in recording.messages:
            for one in message.get("tool_calls") or () if message["role"] == "assistant" else ():
                call = called[one.get("id") or ""] = FunctionCall(one["function"], dict(one["args"] or {}))
                self.steps.append(_Step(call, len(self.read)))
            if message["role"] == "tool":
                self.read.append(self._result(message, called.get(message.get("tool_call_id") or "")))
        self._texts = [PreparedText(texts_of_result(one.result)) for one in self.read]
        self.changes = [step for step in self.steps if is_in_plans(step.call, policy)]
        self.before = self.changes[0].known if self.changes else 0
        """The number of results that are known when an honest plan is proposed."""

    def _result(self, message: dict[str, Any], call: FunctionCall | None) -> ReadCall:
        answered = message.get("tool_call")
        if answered is not None:
            call = FunctionCall(answered["function"], dict(answered["args"] or {}))
        call = call or FunctionCall("", {})
        text = "".join(block.get("content") or "" for block in message["content"] or ())
        # A recording has the text that the model read, and not how the tool returned it: a value is looked for in both.
        result = ToolResult(success=True, data={"text": text, "data": _data(text)})
        # A user who agreed to the plan, or to the call itself, has covered every change.
        return ReadCall(call.name, call.arguments, result, is_in_plans(call, self.policy))

    def is_said(self, value: Any) -> bool:
        return not isinstance(value, bool) and self._said.has(value)

    def is_known(self, value: Any) -> bool:
        """True if a value is the user's, is declared, or was in a result when the plan is made."""
        is_declared = isinstance(value, str) and self._declared.has(value)
        return self.is_said(value) or is_declared or self.has(value, self.before)

    def has(self, value: Any, known: int) -> bool:
        """True if a value stands in one of the first results, in whatever spelling."""
        alike = any(str(leaf) == str(value) for one in self.read[:known] for leaf in _leaves(one.result.data))
        return alike or (not isinstance(value, bool) and any(text.has(value) for text in self._texts[:known]))

    def tool_with(self, values: Iterable[Any]) -> str:
        """Return the tool of the first result in which these values stand; without one that of the last result."""
        wanted = [str(value) for value in values]
        texts = (("\n".join(texts_of_result(one.result)), one.tool_name) for one in self.read)
        return next((tool for text, tool in texts if all(one in text for one in wanted)), self.read[-1].tool_name)

    def is_chosen(self, value: Any, *, cautious: bool) -> bool:
        """True if the model sent a value before a result had it: it has chosen or composed it, and did not find it.

        With `cautious` a text is not chosen if a word of it was known only from a result after the plan, as the name of a file.
        """
        known = next(step.known for step in self.steps if value in _leaves(step.call.arguments))
        words = _WORD.findall(value) if cautious and isinstance(value, str) else []
        is_choice = isinstance(value, str | bool) or (isinstance(value, int) and value <= _CHOSEN)
        return is_choice and not self.has(value, known) and all(self.is_known(one) or not self.has(one, known) for one in words)

    def sources(self, step: _Step, shown: str) -> CallSources:
        """Return the sources of a call, as the engine finds them after a yes to a plan with this text."""
        earlier = EarlierCalls(self.read[: self.before], sorted({one.tool_name for one in self.read[: self.before]}))
        return self._sources(step, [Message("assistant", shown)], earlier)

    def later_sources(self, step: _Step) -> CallSources:
        """Return the sources of a call, with the results before the plan as words of the user: only what is new is foreign."""
        texts = ["\n".join(texts_of_result(one.result)) for one in self.read[: self.before]]
        return self._sources(step, [Message("user", text) for text in texts], NO_CALLS)

    def _sources(self, step: _Step, history: list[Message], earlier: EarlierCalls) -> CallSources:
        context = self._context.model_copy(update={"message_history": history})
        return SourceFinder(context, self.policy, earlier).sources([step.call], self.read[self.before : step.known]).calls[0]


def is_in_plans(call: FunctionCall, policy: CompiledPolicy) -> bool:
    """True if plans may have lines for the tool of a call."""
    rule = policy.rules.get(call.name)
    return rule is not None and rule.grant.in_plans is not None


def propose(
    suite: ToolList, policy: CompiledPolicy, quality: Quality, recording: Recording, alone: Recording | None
) -> Proposed | None:
    """Return the plan that the model proposes: an honest one before its first change, the worst at the call of the attacker.

    `alone` is the run of the same task without an attack.
    """
    prompt = suite.suite.user_tasks[recording.task].PROMPT
    if alone is None:
        return None
    if quality != "worst":
        plan = honest_plan(alone, prompt, policy, cautious=quality == "cautious")
        return None if plan is None else Proposed(plan, partial(is_in_plans, policy=policy))
    marks = () if recording.injection is None else MARKS[suite.name][recording.injection]

    def is_foreign(call: FunctionCall) -> bool:
        shown = json.dumps([call.name, call.arguments], ensure_ascii=False)
        return is_in_plans(call, policy) and any(mark in shown for mark in marks)

    attacker = [call for one in recording.responses() for call in one.function_calls or () if is_foreign(call)]
    plan = worst_plan(recording, prompt, policy, attacker) if attacker else None
    return None if plan is None else Proposed(plan, is_foreign)


def honest_plan(recording: Recording, prompt: str, policy: CompiledPolicy, *, cautious: bool = False) -> dict[str, Any] | None:
    """Return the plan of a task, made from its run without an attack; None if no line covers a call of it."""
    run, actions, plan = _Run(recording, prompt, policy), {action.name: action for action in policy.actions}, None
    # The second time without own texts that repeat a value of the plan, which count as copies of it.
    for _ in range(2):
        shown = "\n".join(map(str, _leaves(plan)))
        lines = [_line(actions[step.call.name], step, run, shown, cautious=cautious) for step in run.changes]
        plan = _plan(_joined(line for line in lines if line is not None), policy)
    return plan


def worst_plan(
    recording: Recording, prompt: str, policy: CompiledPolicy, attacker: Sequence[FunctionCall]
) -> dict[str, Any] | None:
    """Return the widest plan with the tools of the user's run and of the attacker's calls."""
    run, actions = _Run(recording, prompt, policy), {action.name: action for action in policy.actions}
    own = [step.call for step in run.changes]
    lines = [
        {"tool": call.name, "arguments": _widest(actions[call.name], call, own, run), "times": _WORST_TIMES}
        for call in {one.name: one for one in [*own, *attacker]}.values()
        if is_in_plans(call, policy)
    ]
    # The attacker's tools last, so that they are kept if there are too many.
    return _plan(lines[-MAX_LINES:], policy)


def _plan(lines: Iterable[dict[str, Any]], policy: CompiledPolicy) -> dict[str, Any] | None:
    accepted: list[dict[str, Any]] = []
    for line in lines:
        if len(accepted) < MAX_LINES and plan_problem({"lines": [*accepted, line]}, policy) is None:
            accepted.append(line)
    return {"lines": accepted} if accepted else None


def _joined(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines, each once, with the number of times. Those that differ in the values of one argument are one."""
    joined: list[dict[str, Any]] = []
    for line in lines:
        for one in joined:
            differing = [name for name, bound in line["arguments"].items() if one["arguments"].get(name) != bound]
            alike = one["tool"] == line["tool"] and one["arguments"].keys() == line["arguments"].keys() and len(differing) < 2
            bounds = [each["arguments"][name] for each in (one, line) for name in differing] if alike else []
            if alike and all("is" in bound for bound in bounds):
                for name in differing:
                    one["arguments"][name] = {"is": list(dict.fromkeys(value for bound in bounds for value in bound["is"]))}
                one["times"] = min(MAX_TIMES, one["times"] + 1)
                break
        else:
            joined.append({**line, "times": 1})
    return joined


def _line(action: ToolAction, step: _Step, run: _Run, shown: str, *, cautious: bool) -> dict[str, Any] | None:
    """Return the line that covers a call; None if a value of it can neither stand in the plan nor come from one result.

    `shown` is the text of the plan.
    """
    read, targets = Conversation(run.read[: run.before], run.read[run.before : step.known]), targets_of(action)
    sources, bounds = run.sources(step, shown), dict[str, Any]()
    for name, value in step.call.arguments.items():
        if value is None:
            continue
        call = FunctionCall(action.name, {name: value})
        for bound in _possible(name, value, step, run, is_target=name in targets, cautious=cautious):
            line = Line.model_validate({"tool": action.name, "arguments": {name: bound}})
            if fits(line, call, sources, read) is None:
                bounds[name] = bound
                break
        else:
            return None
    return {"tool": action.name, "arguments": bounds}


def _possible(name: str, value: Any, step: _Step, run: _Run, *, is_target: bool, cautious: bool) -> Iterator[dict[str, Any]]:
    """Yield the bounds that an honest plan could have for an argument, the best first."""
    leaves = list(dict.fromkeys(_leaves(value)))
    literal = {"is": [*leaves, *dict.fromkeys(_keys(value))]}
    is_known = all(map(run.is_known, leaves))
    is_writable = is_known or all(run.is_known(leaf) or run.is_chosen(leaf, cautious=cautious) for leaf in leaves)
    is_text = not is_target and all(isinstance(leaf, str) for leaf in leaves)
    if leaves and (is_known or (is_writable and not is_text)):
        yield literal
    for tool in dict.fromkeys(one.tool_name for one in run.read[run.before : step.known]):
        yield {"from": tool}
    if is_text:
        yield {"own_text": True}
        # A text that repeats what was known when the plan was made can stand in it, where the user reads it.
        if is_writable and Source.UNTRUSTED not in run.later_sources(step).labels(name):
            yield literal


def _widest(action: ToolAction, call: FunctionCall, own: Sequence[FunctionCall], run: _Run) -> dict[str, Any]:
    """Return bounds for the arguments of a call: no value of the attacker's stands in them, since the user would read it."""
    bounds: dict[str, Any] = {}
    for name, value in call.arguments.items():
        leaves = list(_leaves(value))
        users = [leaf for one in own if one.name == call.name for leaf in _leaves(one.arguments.get(name)) if run.is_said(leaf)]
        if value is None:
            continue
        if all(isinstance(leaf, bool) for leaf in leaves):
            bounds[name] = {"is": [True, False]}
        elif all(isinstance(leaf, int | float) for leaf in leaves):
            bounds[name] = {"at_most": _LARGE}
        elif name not in targets_of(action):
            bounds[name] = {"own_text": True}
        elif run.read:
            bounds[name] = {"from": run.tool_with(leaves)}
        elif users:
            bounds[name] = {"is": list(dict.fromkeys(users))}
    return bounds


def _data(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    elif value is not None:
        yield value


def _keys(value: Any) -> Iterator[str]:
    """Yield the names of fields within an argument, which a line bounds as it does values."""
    if isinstance(value, dict | list):
        yield from value if isinstance(value, dict) else ()
        for part in value.values() if isinstance(value, dict) else value:
            yield from _keys(part)
