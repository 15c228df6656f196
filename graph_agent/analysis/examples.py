"""Examples: a call and its circumstances that the solver found, made small, and judged by the guard itself."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, cast

import z3

from graph_agent.analysis.encoding import text_of
from graph_agent.analysis.pattern_samples import matching_text
from graph_agent.analysis.schema_samples import MAX_BRANCHES, Samples
from graph_agent.analysis.small_models import USUAL, small_model
from graph_agent.analysis.symbols import SymbolicCall, SymbolicSet, Value
from graph_agent.models.decision import PendingAction
from graph_agent.models.facts import WINDOWS, Facts, ToolUse, WindowUse
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import CallSources, FoundSource, Source
from graph_agent.policy.call_in_hand import Before, CallInHand, Evidence, GuardVerdict, Setting
from graph_agent.policy.cedar import values
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import Situation, Verdict
from graph_agent.policy.cedar.types import Kind
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import judge
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.schema.check import CheckTooExpensiveError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ELSEWHERE = "elsewhere.test"
_OTHERS: dict[Kind, Any] = {Kind.STRING: _ELSEWHERE, Kind.LONG: 987_654, Kind.DECIMAL: 9_876_545_000, Kind.BOOL: True}
_OTHER = "something else"
"""The name of an argument that no schema declares, and of the tool whose result was read before."""
_SAMPLES: dict[Any, Any] = {"object": {}, "array": [], "integer": 1, "number": 1, "boolean": True}


@dataclass(frozen=True)
class Example:
    """A call in a state, with what the guard decides about it."""

    tool: str
    arguments: dict[str, Any]
    state: dict[str, Any]
    """Everything unusual: roles, calls that were made, earlier uses, time."""
    guard: str
    confirmed: bool
    """True if the guard decides what the analysis said."""

    def __str__(self) -> str:
        given = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.arguments.items())
        parts = {name: ", ".join(_facts(value)) if name == "facts" else _in_words(value) for name, value in self.state.items()}
        state = "; ".join(f"{name}: {words}" for name, words in parts.items())
        return f"{self.tool}({given}){f'  [{state}]' if state else ''}"


def find_example(
    solver: z3.Solver,
    call: SymbolicCall,
    expected: Sequence[tuple[CompiledPolicy, Collection[Verdict]]],
    forbidden_by: Conditions | None = None,
) -> Example:
    """Return a small example of what `solver` has found, judged by the guard under each of the policies.

    It is confirmed if the guard decides as `expected` under each policy, and if `forbidden_by`, a promise, forbids the call.
    """
    found = _Reader(small_model(solver, call), call, [policy for policy, _ in expected], forbidden_by)

    def judged() -> Example:
        effects = [found.judged(policy) for policy, _ in expected]
        agrees = all(effect in wanted for effect, (_, wanted) in zip(effects, expected, strict=True))
        confirmed = agrees and (forbidden_by is None or found.is_forbidden(forbidden_by))
        return Example(call.action.name, found.arguments, found.state, " -> ".join(effects), confirmed)

    # The solver knows no patterns. A text that another value is equal to is replaced in both, if that is what was meant.
    found.match_patterns(everywhere=False)
    example = judged()
    if not example.confirmed and found.match_patterns(everywhere=True):
        example = judged()
    # Nor does it know what a schema demands of the arguments that conditions do not see.
    if not example.confirmed and found.complete():
        example = judged()
    return example


class _Reader:
    """Reads a model as a call and its circumstances."""

    def __init__(
        self, model: z3.ModelRef, call: SymbolicCall, policies: Sequence[CompiledPolicy], promises: Conditions | None = None
    ) -> None:
        self._model = model
        self._call = call
        self._conditions = [one for one in (promises, *(policy.conditions for policy in policies)) if one is not None]
        self._policies = [one for one in policies if call.action.name in one.rules]
        self._policy = self._policies[-1]
        self._others = self._other_elements()
        self._context: dict[str, Any] = self._value(call.context)
        self.arguments = self._arguments()
        self.roles = tuple(sorted(name for name, bit in call.roles.items() if self._holds(bit)))
        self.user = text_of(model.eval(call.user, model_completion=True))
        self.facts, self.past = self._facts(), self._past()
        self.results = self._results()
        self._matching: dict[str, str] = {}
        self.sources = self._sources(self._context)
        self._old = policies[0] if call.sourced_apart else None

    @property
    def state(self) -> dict[str, Any]:
        """Everything unusual, for the reader of the example."""
        shown: dict[str, Any] = {"user": "" if self.user == "ann" else self.user, "roles": list(self.roles)}
        succeeded, attempted = self._context["succeeded"], self._context["attempted"]
        shown |= {"succeeded": succeeded, "attempted": [name for name in attempted if name not in succeeded]}
        for window in WINDOWS:
            calls, writes, sums = self._before(window)
            before = {**self._amounts(sums), "calls": calls, "writes": writes}
            shown[f"{window} before"] = {name: amount for name, amount in before.items() if amount}
        if self._call.reads_sources:
            sources = {name: ", ".join(labels) for name, labels in self._context["source"].items() if labels}
            shown |= {"sources": sources, "tainted": self._context["tainted"]}
            shown["under the old policy"] = self._otherwise_before()
        time = self._context["time"]
        usual = {name: USUAL[f"context.time.{name}"] for name in ("weekday", "hour")}
        shown["facts"] = self.results
        shown["approvals"] = {role: count for role, count in self._context["approvals"].items() if count}
        shown["time"] = {name: time[name] for name in usual if time[name] != usual[name]}
        return {name: value for name, value in shown.items() if value}

    def judged(self, policy: CompiledPolicy) -> Verdict:
        """Return what the guard decides: without a yes and, if it asks, with one."""
        requested = FunctionCall(name=self._call.action.name, arguments=self.arguments)
        approvals = self._context["approvals"]
        setting = Setting(policy=policy, user_id=self.user, roles=self.roles, facts=self.facts, approvals=approvals)
        known = Before(self.past), Evidence(results=CallFacts(values=self.results))
        sources = self._sources(self._found_before) if policy is self._old else self.sources

        def judged_by(given: Setting) -> GuardVerdict:
            hand = CallInHand(call=requested, setting=given, sources=sources, before=known[0], evidence=known[1])
            return judge(hand)

        judged = judged_by(setting)
        if judged.needs is not None:
            return Verdict.WAITS
        if judged.disposition is not CallDisposition.AWAITING:
            return Verdict.RUNS if judged.disposition is CallDisposition.EXECUTED else Verdict.REFUSED
        asked = {"id": "example", "tool_name": requested.name, "arguments": judged.arguments, "description": "example"}
        yes = PendingAction.model_validate({**asked, "created_at": self.facts.now})
        judged = judged_by(replace(setting, confirmed=yes))
        return Verdict.ASKS if judged.disposition is CallDisposition.EXECUTED else Verdict.REFUSED

    def is_forbidden(self, promises: Conditions) -> bool:
        situation = Situation(
            self.user,
            self.roles,
            self.facts,
            self.past,
            sources=self.sources,
            results=CallFacts(values=self.results),
            approvals=self._context["approvals"],
        )
        return promises.judge(self._call.action.name, self.arguments, situation).verdict is not Verdict.RUNS

    def _holds(self, term: Any) -> bool:
        return bool(z3.is_true(self._model.eval(term, model_completion=True)))

    def _value(self, value: Value) -> Any:
        """Return a value as Python's; a decimal stays times 10,000."""
        if value.kind is Kind.RECORD:
            return {name: self._value(part) for name, (part, present) in value.term.items() if self._holds(present)}
        if isinstance(found := value.term, SymbolicSet):
            elements = [element for element, bit in found.elements.items() if self._holds(bit)]
            return [*elements, *self._others.get(found.name, [])]
        return self._constant(value.kind, value.term)

    def _constant(self, kind: Kind | str, value: Any) -> Any:
        term = self._model.eval(value, model_completion=True)
        if kind is Kind.BOOL:
            return z3.is_true(term)
        return text_of(term) if kind is Kind.STRING else term.as_long()

    def _other_elements(self) -> dict[str, list[Any]]:
        """Return, for each set with elements that no condition names, such elements: those that the model says it shares."""
        sets = [one for one in self._call.variables.values() if isinstance(one, SymbolicSet) and self._holds(one.other)]
        compared = {name for pair in self._call.overlaps for name in pair}
        found: dict[str, list[Any]] = {one.name: [] for one in sets}
        for asked in self._call.memberships.values():
            element = self._constant(asked.group.kind, asked.element)
            if asked.group.name in found and element not in asked.group.elements and self._holds(asked.holds):
                found[asked.group.name].append(element)
        for number, one in enumerate(sets):
            if not found[one.name]:
                other = _OTHERS[one.kind]
                # Two sets that a condition compares share only what the model says.
                is_own = one.name in compared and one.kind is not Kind.BOOL
                found[one.name].append(
                    other if not is_own else f"{other}/{number}" if isinstance(other, str) else other + number
                )
        for overlap in self._call.overlaps.values():
            if overlap.group.name in found and self._holds(z3.Or(overlap.all, overlap.some)):
                shared = found.get(overlap.part.name, [])
                found[overlap.group.name] += shared if self._holds(overlap.all) else shared[:1]
        return {name: list(dict.fromkeys(elements)) for name, elements in found.items()}

    def _arguments(self) -> dict[str, Any]:
        """Return arguments as JSON that have the domains, lengths and hidden parts of the model."""
        context, action, arguments = self._context, self._call.action, {}
        for one in action.arguments.fields:
            if one.name not in context["arguments"]:
                continue
            value = _json(one.type, context["arguments"][one.name])
            if one.name in action.texts and self._reads_domain(one.name):
                value = _with_hosts(value, context["domain"][one.name])
            if one.name in action.lists and value:
                value = [*value, *[value[-1]] * min(1000, context["length"][one.name] - len(value))]
            arguments[one.name] = value
        properties = self._properties
        # Facts read what conditions do not see.
        seen = [one for one in action.seen_arguments if one not in arguments and self._holds(self._call.is_given(one))]
        for name in [*context["hidden"], *sorted(seen)]:
            if name not in arguments:
                declared = properties.get(name)
                arguments[name] = Samples(self._schema).sample(declared) if declared else "x"
                if name in action.lists:
                    items = declared.get("items") if isinstance(declared, dict) else None
                    type_ = items.get("type") if isinstance(items, dict) else "object"
                    known = isinstance(type_, str) and type_ in _SAMPLES
                    item = _SAMPLES[type_] if known else Samples(self._schema).sample(items)
                    if item == {} and name in action.seen_arguments and name in context["hidden"]:
                        # With something that no path shows.
                        item = dict.fromkeys((items or {}).get("properties", {"other": {}}), "x")
                    arguments[name] = [item] * min(1000, context["length"][name])
        return arguments

    @property
    def _schema(self) -> dict[str, Any]:
        """The schema of the tool."""
        return self._policy.rules[self._call.action.name].declaration.parameters

    @cached_property
    def _properties(self) -> dict[str, Any]:
        """The schemas of the arguments by name."""
        found: dict[str, Any] = {}
        for policy in self._policies:
            found |= policy.rules[self._call.action.name].declaration.parameters.get("properties", {})
        return found

    def match_patterns(self, *, everywhere: bool) -> bool:
        """Replace each argument by a text that its pattern matches, and `everywhere` what is equal to one. False if none is."""
        for name, value in self._context["arguments"].items():
            schema = self._properties.get(name)
            pattern = schema.get("pattern") if isinstance(schema, dict) else None
            sample = matching_text(pattern, value) if isinstance(value, str) and isinstance(pattern, str) else None
            if sample is not None:
                self._matching[value] = self.arguments[name] = sample
        if everywhere:
            self.arguments, self.results = (_replaced(one, self._matching) for one in (self.arguments, self.results))
        return bool(self._matching)

    def complete(self) -> bool:
        """Add to the arguments what their schema demands besides. False if they are valid, or none of its alternatives fits."""
        check = self._policy.rules[self._call.action.name].check
        with suppress(CheckTooExpensiveError):
            if check.first_issue(self.arguments) is None:
                return False
            for branch in range(MAX_BRANCHES):
                completed = Samples(self._schema, branch).completed(self.arguments, self._schema)
                if check.first_issue(completed) is None:
                    self.arguments = completed
                    return True
        return False

    def _results(self) -> dict[str, Any]:
        """Return the facts of the model by name, as JSON."""
        action = self._call.action
        return {} if action.result is None else cast("dict[str, Any]", _json(action.result, self._context["result"]))

    def _reads_domain(self, name: str) -> bool:
        """True if a condition reads the domain of an argument: without one, the domain of the model means nothing."""
        return any(one.reads.has("domain", name) for one in self._conditions)

    def _before(self, window: str) -> tuple[int, int, dict[str, int]]:
        """Return the calls, the writes and the sums in a window, without this call."""
        used, given = self._context["used"][window], self._context["arguments"]
        numbers = {one.name: _number(given.get(one.name, 0)) for one in self._call.action.numbers}
        sums = {name: total - max(0, numbers[name]) for name, total in used["sum"].items()}
        return used["calls"] - 1, used["writes"] - self._call.action.writes, sums

    def _amounts(self, sums: dict[str, int]) -> dict[str, float]:
        """Return the sums that are not 0 as JSON."""
        return {one.name: _json(one.type, sums[one.name]) for one in self._call.action.numbers if sums[one.name]}

    def _past(self) -> list[PastCall]:
        """Return the earlier calls of the message."""
        action = self._call.action
        calls, writes, sums = self._before("message")
        # One earlier call of the message has all of the amounts.
        amounts = self._amounts(sums)
        past = [PastCall(0, action.name, {"earlier": str(n), **({} if n else amounts)}) for n in range(calls)]
        other = next((one.name for one in self._policy.actions if one.writes and one.name != action.name), "")
        others = min(writes - (calls if action.writes else 0), 1000)
        return [*past, *(PastCall(0, other, {"earlier": f"other {n}"}) for n in range(others))]

    def _facts(self) -> Facts:
        message_calls, message_writes, message_sums = self._before("message")
        used = {}
        for window in WINDOWS[1:]:
            calls, writes, sums = self._before(window)
            earlier = {name: total - message_sums[name] for name, total in sums.items()}
            tool = ToolUse(calls=calls - message_calls, sums=earlier)
            used[window] = WindowUse(writes=writes - message_writes, tools={self._call.action.name: tool})
        now = datetime.fromtimestamp(self._context["time"]["now"] / 1000, UTC)
        made = {part: sorted(self._context[part]) for part in ("succeeded", "attempted")}
        return Facts(**{**self._context["time"], "now": now, "used": used, **made})

    @cached_property
    def _found_before(self) -> dict[str, Any]:
        """The sources that the old one of two policies finds, as the parts of a context."""
        bits = self._call.source_variables
        held = {name for name, bit in bits.items() if self._holds(self._call.as_found_before(bit))}
        labels = {
            place: [one for one in Source if f"{place} {one}" in held] for place in dict.fromkeys(_place(one) for one in bits)
        }
        source = {place.removeprefix("source."): found for place, found in labels.items() if place.startswith("source.")}
        return {"source": source, "sources": labels.get("sources", []), "tainted": "tainted" in held}

    def _otherwise_before(self) -> dict[str, Any]:
        """Return which sources the old policy finds where it finds others."""
        if not self._call.sourced_apart:
            return {}
        now, before = self._context, self._found_before
        found = {
            name: ", ".join(labels) for name, labels in before["source"].items() if set(labels) != set(now["source"][name])
        }
        return {name: labels or "nowhere" for name, labels in found.items()} | (
            {} if now["tainted"] is before["tainted"] else {"tainted": before["tainted"]}
        )

    def _sources(self, context: Mapping[str, Any]) -> CallSources:
        labels = {name: [Source(one) for one in found] for name, found in context["source"].items()}
        named = self._call.action.source_parts
        parts = {part.path: [FoundSource(source=one) for one in labels.pop(part.name, [])] for part in named}
        beside = [Source(one) for one in context["sources"] if all(one not in found for found in labels.values())]
        # Those of no declared argument are those of another one.
        found = {name: [FoundSource(source=one) for one in given] for name, given in {**labels, _OTHER: beside}.items()}
        return CallSources(arguments=found, parts=parts, after=_OTHER if context["tainted"] else None)


def _place(variable: str) -> str:
    return variable.rpartition(" ")[0]


def _json(type_: Any, value: Any) -> Any:
    """Return a value of the model as the JSON that the tool would get."""
    match type_.kind:
        case Kind.DECIMAL:
            return int(value) // values.SCALE if value % values.SCALE == 0 else float(values.decimal_text(value))
        case Kind.DATETIME:
            return (_EPOCH + timedelta(milliseconds=value)).isoformat(timespec="milliseconds")
        case Kind.SET:
            return [_json(type_.item, one) for one in value]
        case Kind.RECORD:
            return {one.name: _json(one.type, value[one.name]) for one in type_.fields if one.name in value}
        case Kind.VARIANT:
            given = {one.name: _json(one.type, value[one.name]) for one in type_.fields if one.name in value}
            written = [one for name, one in given.items() if name != "string" and not isinstance(one, list)]
            # Both at once are a text that is read as the other value.
            return json.dumps(written[0]) if "string" in given and written else next(iter(given.values()), None)
    return value


def _replaced(value: Any, texts: Mapping[str, str]) -> Any:
    """Return a JSON value with these texts replaced."""
    if isinstance(value, dict):
        return {name: _replaced(one, texts) for name, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, texts) for one in value]
    return texts.get(value, value) if isinstance(value, str) else value


def _number(value: Any) -> int:
    """Return the number that an argument of the model has; 0 if it has a value of another type."""
    if not isinstance(value, dict):
        return int(value)
    return int(next((one for name, one in value.items() if name in ("long", "decimal")), 0))


def _with_hosts(value: Any, wanted: list[str]) -> Any:
    """Return a text or list whose hosts are `wanted`, with as much of `value` as fits."""
    if isinstance(value, str):
        return value if values.hosts(value) == wanted or not wanted else _text_at(wanted[0], "https://{}/")
    kept = [one for one in value if values.hosts(one)[0] in wanted]
    present = values.hosts(kept)
    return [*kept, *(_text_at(host, "a@{}") for host in wanted if host not in present)]


def _text_at(host: str, form: str) -> str:
    return {"": "some text", values.AMBIGUOUS: "a@x.test,b@y.test"}.get(host, form.format(host))


def _in_words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={part}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _facts(value: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the values of facts as JSON, with their names."""
    for name, part in value.items():
        if isinstance(part, dict) and part:
            yield from _facts(part, f"{path}{name}.")
        else:
            yield f"{path}{name}={json.dumps(part, ensure_ascii=False)}"
