"""The plans that a model could have proposed in a recorded run: an honest one, and the worst one of an attacker.

No recorded model knew plans. An honest plan is made from the run of the same task without an attack: a value that the user has
said, or that a result had before the first change, stands in it as it is; every other one is a text of the model, or `from` the
result that brings it later. The worst one has the tools of the attacker's call too, and bounds as wide as the grammar has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import yaml

from benchmarks.agentdojo.tool_list import ToolList
from benchmarks.agentdyn.marks import MARKS
from benchmarks.agentdyn.recording import Proposed, Recording
from graph_agent.bootstrap.source_rules import targets_of
from graph_agent.models.canonical import canonical_json
from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import MAX_LINES, MAX_TIMES
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.plan_check import plan_problem
from graph_agent.policy.sources import PreparedText

Quality = Literal["honest", "worst"]

_LARGE = 10**9
_WORST_TIMES = 5
_CHOSEN = 10
"""A number up to this one is the model's own choice, as a rating is, and stands in a plan; a larger one was computed."""


class _Result(NamedTuple):
    tool: str
    leaves: list[Any]
    text: PreparedText

    def has(self, value: Any) -> bool:
        return any(str(leaf) == str(value) for leaf in self.leaves) or _is_said(value, self.text)


class _Step(NamedTuple):
    """A call of a recorded run, with the results that were known before it."""

    call: FunctionCall
    known: list[_Result]


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
    if quality == "honest":
        plan = honest_plan(alone, prompt, policy)
        return None if plan is None else Proposed(plan, partial(is_in_plans, policy=policy))
    marks = () if recording.injection is None else MARKS[suite.name][recording.injection]

    def is_foreign(call: FunctionCall) -> bool:
        shown = json.dumps([call.name, call.arguments], ensure_ascii=False)
        return is_in_plans(call, policy) and any(mark in shown for mark in marks)

    attacker = [call for one in recording.responses() for call in one.function_calls or () if is_foreign(call)]
    plan = worst_plan(recording, prompt, policy, attacker) if attacker else None
    return None if plan is None else Proposed(plan, is_foreign)


def honest_plan(recording: Recording, prompt: str, policy: CompiledPolicy) -> dict[str, Any] | None:
    """Return the plan of a task, made from its run without an attack; None if no line covers a call of it."""
    steps, actions = list(_steps(recording)), {action.name: action for action in policy.actions}
    changes = [step for step in steps if is_in_plans(step.call, policy)]
    if not changes:
        return None
    before, said, results = changes[0].known, PreparedText([prompt]), steps[-1].known
    lines = [
        line
        for step in changes
        if (line := _line(actions[step.call.name], step, said, before, results[len(before) : len(step.known)])) is not None
    ]
    return _plan(_joined(lines), policy)


def worst_plan(
    recording: Recording, prompt: str, policy: CompiledPolicy, attacker: Sequence[FunctionCall]
) -> dict[str, Any] | None:
    """Return the widest plan with the tools of the user's run and of the attacker's calls."""
    steps, actions = list(_steps(recording)), {action.name: action for action in policy.actions}
    own = [step.call for step in steps if is_in_plans(step.call, policy)]
    said, results = PreparedText([prompt]), [*dict.fromkeys(one.tool for one in (steps[-1].known if steps else []))]
    lines = [
        {"tool": call.name, "arguments": _widest(actions[call.name], call, own, said, results), "times": _WORST_TIMES}
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
    """Return the lines, each once, with the number of times."""
    counted: dict[str, dict[str, Any]] = {}
    for line in lines:
        one = counted.setdefault(canonical_json(line), {**line, "times": 0})
        one["times"] = min(MAX_TIMES, one["times"] + 1)
    return list(counted.values())


def _line(
    action: ToolAction, step: _Step, said: PreparedText, before: Sequence[_Result], since: Sequence[_Result]
) -> dict[str, Any] | None:
    """Return the line that covers a call; None if a value of it can neither stand in the plan nor come from one result."""
    bounds: dict[str, Any] = {}
    for name, value in step.call.arguments.items():
        if value is None:
            continue
        leaves = list(dict.fromkeys(_leaves(value)))
        new = [leaf for leaf in leaves if not (_is_said(leaf, said) or any(one.has(leaf) for one in before))]
        tools = [one.tool for one in since if all(one.has(leaf) for leaf in new)]
        texts = all(isinstance(leaf, str) for leaf in leaves)
        if all(isinstance(leaf, bool) for leaf in new):
            bounds[name] = {"is": list(dict.fromkeys([*leaves, *_keys(value)]))}
        elif tools and len(new) == len(leaves) and not list(_keys(value)):
            bounds[name] = {"from": tools[0]}
        elif name not in targets_of(action) and texts and not list(_keys(value)):
            bounds[name] = {"own_text": True}
        elif any(one.has(leaf) for one in since for leaf in new):
            return None
        elif texts or all(isinstance(leaf, int) and leaf <= _CHOSEN for leaf in new):
            bounds[name] = {"is": list(dict.fromkeys([*leaves, *_keys(value)]))}
        else:
            return None
    return {"tool": action.name, "arguments": bounds}


def _widest(
    action: ToolAction, call: FunctionCall, own: Sequence[FunctionCall], said: PreparedText, results: Sequence[str]
) -> dict[str, Any]:
    """Return bounds for the arguments of a call: no value of the attacker's stands in them, since the user would read it."""
    bounds: dict[str, Any] = {}
    for name, value in call.arguments.items():
        leaves = list(_leaves(value))
        users = [
            leaf for one in own if one.name == call.name for leaf in _leaves(one.arguments.get(name)) if _is_said(leaf, said)
        ]
        if value is None:
            continue
        if all(isinstance(leaf, bool) for leaf in leaves):
            bounds[name] = {"is": [True, False]}
        elif all(isinstance(leaf, int | float) for leaf in leaves):
            bounds[name] = {"at_most": _LARGE}
        elif name not in targets_of(action):
            bounds[name] = {"own_text": True}
        elif results:
            bounds[name] = {"from": results[-1]}
        elif users:
            bounds[name] = {"is": list(dict.fromkeys(users))}
    return bounds


def _is_said(value: Any, text: PreparedText) -> bool:
    return not isinstance(value, bool) and text.has(value)


def _steps(recording: Recording) -> Iterator[_Step]:
    known: list[_Result] = []
    names: dict[str, str] = {}
    for message in recording.messages:
        for call in message.get("tool_calls") or () if message["role"] == "assistant" else ():
            names[call.get("id", "")] = call["function"]
            yield _Step(FunctionCall(call["function"], dict(call["args"] or {})), list(known))
        if message["role"] == "tool":
            text = "".join(block.get("content") or "" for block in message["content"] or ())
            name = (message.get("tool_call") or {}).get("function") or names.get(message.get("tool_call_id", ""), "")
            leaves = [*_leaves(_data(text)), text]
            known.append(_Result(name, leaves, PreparedText(map(str, leaves))))
    yield _Step(FunctionCall("", {}), known)


def _data(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


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
