"""Random rules and calls, and the comparison of the encoder with Cedar on them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import z3

from graph_agent.analysis.encoding import outcomes, text_of
from graph_agent.analysis.questions import Analysis
from graph_agent.analysis.symbols import SymbolicCall, SymbolicSet, Unencodable, Value, text
from graph_agent.errors import ConfigurationError
from graph_agent.models.facts import Facts
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import CallSources, FoundSource, Source
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.conditions import ConditionsFile, Situation, Verdict
from graph_agent.policy.cedar.evaluation import CedarConditions
from graph_agent.policy.cedar.types import Kind
from graph_agent.policy.cedar.values import Unconvertible, scaled
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.past_call import PastCall
from tests.fact_lines import facts_in
from tests.policy.cedar_shop import TEXT, ShopTool, facts, judge, policy_of, schema

LONG_MAX = 2**63 - 1
INTEGER = {"type": "integer"}
TOOLS = (
    ShopTool(
        "t",
        schema(
            "n",
            "s",
            "d",
            n=INTEGER,
            m=INTEGER,
            s=TEXT,
            o={"type": "string", "enum": ["x", "y"]},
            d={"type": "number", "minimum": -9, "maximum": 4.0001},
            b={"type": "boolean"},
            l={"type": "array", "items": TEXT},
            k={"type": "array", "items": INTEGER},
            v={"type": ["string", "integer"]},
            r=schema(k=TEXT, i=INTEGER),
            h={"type": "object"},
        ),
        "srv",
    ),
    ShopTool("u", schema(), "srv", reads=True),
    ShopTool("v", schema(), "srv"),
)
FACTS = """- f: u()
- g: u() $.l[*]
- c: count u() $.l[*]
- p: one f $.cards[?@.id == arguments.s].left
- z: sum f $.lines[*].price
- q: f.n * arguments.n
"""
"""Facts about an object, a set, a number, the one element that an argument picks, a sum, and a product."""
PATTERNS = ("a*", "*b", "a*b", "*a*", "*", "ab", "a*b*", "*é*", "**a", "\\*", "")
BASE = policy_of(TOOLS, None).with_facts(facts_in(FACTS))
EVERYTHING = BASE.with_conditions(
    ConditionsFile(
        """permit (principal, action, resource) when { context == context };
forbid (principal, action, resource) when {
  context.result.f.s == "" && context.result.f.n > 0 && context.result.f.d.lessThan(decimal("0.0")) && context.result.f.b &&
  context.result.f.t < context.time.now && context.result.f has o && context.result.f.o == "" &&
  context.result.g.contains("") && context.result.c > 0 && context.result.p.lessThan(decimal("0.0")) &&
  context.result.z.lessThan(decimal("0.0")) && context.result.q > 0
};"""
    )
)
"""A policy that reads all of a call, and of the facts all that random rules name."""


@dataclass
class Compared:
    """The result of a comparison. A call is undetermined if the encoder leaves a membership open."""

    calls: int = 0
    undetermined: int = 0
    not_encoded: int = 0
    effects: dict[Verdict, int] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)


def compare_with_cedar(
    policy: CompiledPolicy, calls: Iterator[tuple[dict[str, Any], Situation]], found: Compared, encode: Any = outcomes
) -> None:
    """Judge calls of the tool `t` by Cedar and by the encoder, whose `outcomes` is `encode`; add the result to `found`."""
    conditions = policy.conditions
    assert isinstance(conditions, CedarConditions)
    try:
        call = Analysis(policy, seconds=4).call("t")
        silent, accepted, approvable = encode(call, policy, left_out := {})
    except Unencodable:
        left_out = {"": "the call"}
    if left_out:
        found.not_encoded += 1
        return
    for arguments, situation in calls:
        try:
            context = conditions.context(call.action, arguments, situation)
        except Unconvertible:
            continue
        given = [*_values(call.context, context), (call.user, text(situation.user_id))]
        given += [(bit, z3.BoolVal(name in situation.roles)) for name, bit in call.roles.items()]
        given += _shared(call, context, given)
        decided = [z3.simplify(z3.substitute(term, *given)) for term in (silent, accepted, approvable)]
        if not all(z3.is_true(one) or z3.is_false(one) for one in decided):
            found.undetermined += 1
            continue
        possible = (Verdict.RUNS, Verdict.ASKS, Verdict.WAITS)
        encoded = next((one for one, holds in zip(possible, decided, strict=True) if z3.is_true(holds)), Verdict.REFUSED)
        judged = conditions.judge("t", arguments, situation)
        effect = judged.verdict if judged.needs is None else Verdict.WAITS
        found.calls += 1
        found.effects[effect] = found.effects.get(effect, 0) + 1
        if encoded is not effect:
            found.different.append(f"{conditions.file.text} {arguments} {situation}: Cedar {effect}, encoder {encoded}")


def compare_with_guard(
    policy: CompiledPolicy, calls: Iterable[tuple[dict[str, Any], int]], encode: Any = outcomes
) -> Iterator[str]:
    """Yield the calls of the tool `t`, each after so many others of the message, that guard and encoder judge differently."""
    conditions = EVERYTHING.conditions
    assert isinstance(conditions, CedarConditions)
    call = Analysis(policy, seconds=4).call("t")
    silent, accepted, _ = encode(call, policy, {})
    for arguments, before in calls:
        # About other objects: the guard does not ask about one that the message has changed already.
        past = [PastCall(number, "t", {"n": -number, "s": f"other {number}", "d": -number}) for number in range(1, before + 1)]
        verdict = judge(policy, "t", arguments, past, facts=facts()).disposition
        # The yes to a call that waits comes with another message.
        before_it = [] if verdict is CallDisposition.AWAITING else past
        situation = Situation("ann", (), facts(), before_it, sources=CallSources(), results=CallFacts())
        given = list(_values(call.context, conditions.context(call.action, arguments, situation)))
        decided = [z3.is_true(z3.simplify(z3.substitute(term, *given))) for term in (silent, accepted)]
        encoded = (
            CallDisposition.EXECUTED if decided[0] else CallDisposition.AWAITING if decided[1] else CallDisposition.REFUSED
        )
        if verdict is not encoded:
            yield f"{arguments} after {before} others: guard {verdict}, encoder {encoded}"


def excluded(calls: Iterable[tuple[dict[str, Any], Situation]]) -> Iterator[str]:
    """Yield the facts that the solver takes for granted and that a call does not have: it would overlook the call."""
    conditions = EVERYTHING.conditions
    assert isinstance(conditions, CedarConditions)
    call = Analysis(EVERYTHING, seconds=4).call("t")
    for arguments, situation in calls:
        try:
            context = conditions.context(call.action, arguments, situation)
        except Unconvertible:
            continue  # The guard refuses it.
        given = [*_values(call.context, context), (call.user, text(situation.user_id))]
        # What no call without the optional arguments decides stays open.
        if z3.is_false(z3.simplify(z3.substitute(z3.And(call.facts), *given))):
            yield f"{arguments} {situation}"


def _values(value: Value, given: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the variables of a symbolic record with the values of a context; what no condition reads is left out of it."""
    for name, (part, present) in value.term.items():
        if not z3.is_true(present) and not z3.is_false(present):
            yield present, z3.BoolVal(name in given)
        if name not in given:
            # Also if the fields of an absent record were present, nothing may depend on them.
            fields = part.term.values() if isinstance(part.term, dict) else ()
            yield from ((one, z3.BoolVal(True)) for _, one in fields if not z3.is_true(one) and not z3.is_false(one))
            continue
        if isinstance(part.term, dict):
            yield from _values(part, given[name])
        elif isinstance(part.term, SymbolicSet):
            elements = [_plain(one) for one in given[name]]
            yield from ((bit, z3.BoolVal(element in elements)) for element, bit in part.term.elements.items())
            if not z3.is_false(part.term.other):
                yield part.term.other, z3.BoolVal(any(one not in part.term.elements for one in elements))
        elif part.kind is Kind.STRING:
            yield part.term, text(given[name])
        elif part.kind is Kind.BOOL:
            yield part.term, z3.BoolVal(given[name])
        else:
            yield part.term, z3.IntVal(_plain(given[name]))


def _shared(call: SymbolicCall, context: dict[str, Any], given: list[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield the variables about elements that no condition names, with their values in a context."""

    def elements(group: SymbolicSet) -> set[Any]:
        found: Any = context
        for name in group.name.split(".")[1:]:
            found = found.get(name, {})
        return {_plain(one) for one in found}

    for asked in call.memberships.values():
        element = z3.simplify(z3.substitute(asked.element, *given))
        known = z3.is_string_value(element) or z3.is_int_value(element)
        value = None if not known else text_of(element) if z3.is_string_value(element) else element.as_long()
        yield asked.holds, z3.BoolVal(value in elements(asked.group))
    for overlap in call.overlaps.values():
        others = [one in elements(overlap.group) for one in elements(overlap.part) - overlap.part.elements.keys()]
        yield from ((overlap.all, z3.BoolVal(all(others))), (overlap.some, z3.BoolVal(any(others))))


def _plain(value: Any) -> Any:
    """Return a value of Cedar's JSON as the encoder has it."""
    if not isinstance(value, dict):
        return value
    if "__entity" in value:
        return value["__entity"]["id"]
    written = value["__extn"]["arg"]
    if value["__extn"]["fn"] == "decimal":
        return scaled(Kind.DECIMAL, written, "value")
    return round(datetime.fromisoformat(written).timestamp() * 1000)


def _window(counts: dict[str, int]) -> dict[str, Any]:
    """Return the uses of a window. Without a call nothing was summed, and each call of the tool is a write."""
    sums = {name: counts[name] if counts["calls"] else 0 for name in "nd"}
    return {"writes": counts["writes"] + counts["calls"], "tools": {"t": {"calls": counts["calls"], "sums": sums}}}


class RandomPolicies:
    """Makes rules about the tool `t`, and calls of it, near the values that the rules name."""

    def __init__(self, seed: int, *, with_facts: bool = False) -> None:
        self._random = random.Random(seed)
        self._with_facts = with_facts

    def policy(self) -> CompiledPolicy:
        """Return a policy that Cedar can read; it need not fit the tools, so that evaluations fail too."""
        while True:
            try:
                return BASE.with_conditions(ConditionsFile(self._rules(), roles=("p", "q")))
            except ConfigurationError:
                continue

    def promise(self) -> str:
        """Return a promise about the tool `t`; it need not fit the tools."""
        return f'@id("it") forbid (principal, action == Action::"t", resource) when {{ {self._condition(1)} }};'

    def call(self) -> tuple[dict[str, Any], Situation]:
        pick, chance = self._random.choice, self._random.random
        arguments: dict[str, Any] = {
            "n": pick([0, 1, 2, 5, 6, 10, -3, LONG_MAX, -LONG_MAX - 1]),
            "s": pick(["", "a", "ab", "x", "b", "aéb", "ba", "xab", "bab", "a@e.com", "q@f.org", "*", "a\\b"]),
            "d": pick([0, 1.5, 1.6, -2.25, -9, 4.0001]),
        }
        optional: dict[str, Any] = {
            "m": pick([0, 1, 7, -1]),
            "o": pick("xy"),
            "b": chance() < 0.5,
            "l": self._random.sample(["a", "x", "b", "", "k@e.com"], self._random.randrange(4)),
            "k": self._random.sample([0, 1, 5, 9], self._random.randrange(3)),
            "v": pick(["a", "x", "5", "-3", 0, 5]),
            "r": {name: value for name, value in (("k", pick(["a", "ab"])), ("i", pick([0, 3, 9]))) if chance() < 0.6},
            "h": {"any": 1},
        }
        arguments |= {name: value for name, value in optional.items() if chance() < 0.55}
        hour = {"calls": pick([0, 4, 9]), "n": pick([0, 4]), "d": pick([0, 20_000]), "writes": pick([0, 3])}
        day = {name: count + pick([0, 0, 1, 15_000]) for name, count in hour.items()}
        facts = {
            "now": pick(["2026-11-23T10:00:00Z", "2026-11-23T19:30:00Z", "2026-11-24T00:00:00Z"]),
            "hour": pick([0, 5, 10, 19]),
            "weekday": pick(["Mon", "Sun"]),
            "used": {"hour": _window(hour), "day": _window(day)},
            **self._made(),
        }
        earlier = [PastCall(1, "t", {"n": 3}), PastCall(2, "v", {})][: self._random.randrange(3)]
        roles = tuple(self._random.sample("pq", self._random.randrange(3)))
        known = Facts.model_validate(facts)
        given: dict[str, Any] = {"sources": self._sources(arguments), "results": self._results()}
        given["approvals"] = {role: pick([0, 0, 1, 2]) for role in "pq"}
        return arguments, Situation(pick(["ann", "bob"]), roles, known, earlier, **given)

    def _sources(self, arguments: dict[str, Any]) -> CallSources:
        """Return sources as the finder gives them: of a text or a number one, of a list some, of a choice none."""
        after = self._random.choice([None, "u"])
        labels = [one for one in Source if after is not None or one is not Source.UNTRUSTED]
        counts = {name: 1 for name in arguments if name not in "ob"}
        counts |= {name: min(len(arguments[name]), self._random.randrange(1, 3)) for name in "lk" if name in arguments}
        found = {name: self._random.sample(labels, count) for name, count in counts.items()}
        return CallSources(
            arguments={name: [FoundSource(source=one) for one in given] for name, given in found.items() if given}, after=after
        )

    def _results(self) -> CallFacts:
        pick, chance = self._random.choice, self._random.random
        if not self._with_facts:
            return CallFacts()
        f: dict[str, Any] = {
            "s": pick(["", "a", "ab", "x"]),
            "n": pick([0, 1, 5, 6, LONG_MAX]),
            "d": pick([0, 1.5, -2.25]),
            "b": chance() < 0.5,
            "t": pick(["2026-11-23", "2026-11-23T12:00:00Z", "2026-11-23T23:00:00-02:00", "0001-01-01", "9999-12-31"]),
        }
        f |= {"o": pick("xy")} if chance() < 0.5 else {}
        if chance() < 0.05:
            del f[pick("sndbt")]
        g = self._random.sample(["a", "x", "b", "", "k@e.com", "q"], self._random.randrange(4))
        found = {
            "f": f,
            "g": g,
            "c": len(g),
            "p": pick([0, 1.5, "3.10", -2, "999999999999999.9999"]),
            "z": pick([0, 4, "1.5", "-2.25", 2, 3]),
            "q": pick([0, 1, 5, 7, -6, LONG_MAX, -LONG_MAX - 1]),
        }
        # Of another type, with more decimals than conditions read, or too large: Cedar never sees the call.
        if chance() < 0.1:
            found |= {pick("pz"): pick(["x", True, "0.00001", 10**15, {}, []]), "q": pick([LONG_MAX + 1, "1.5", "5", False])}
        failed = {name: "the read failed" for name in "pzq" if chance() < 0.03}
        return CallFacts({name: value for name, value in found.items() if chance() < 0.8 and name not in failed}, failed)

    def _made(self) -> dict[str, list[str]]:
        attempted = self._random.sample("tuv", self._random.randrange(4))
        return {"succeeded": self._random.sample(attempted, self._random.randrange(len(attempted) + 1)), "attempted": attempted}

    def _rules(self) -> str:
        pick = self._random.choice
        rules = "permit (principal, action, resource)" + pick(["", f" when {{ {self._condition(1)} }}"]) + ";\n"
        for _ in range(self._random.randrange(1, 4)):
            scope = [
                pick(["principal", 'principal in Role::"q"', 'principal == User::"ann"', "principal is User"]),
                pick(["action", 'action == Action::"t"', 'action in Action::"all writes"', 'action == Action::"u"']),
                pick(["resource", 'resource == Server::"srv"', 'resource == Server::"other"', "resource is Server"]),
            ]
            effect, clause = pick(["forbid", "forbid", "permit"]), pick(["when", "unless"])
            approved = "context.approvals.p + context.approvals.q >= 2"
            asks = pick(["", "", *[" unless { context.confirmed }"] * 2, f" unless {{ {approved} }}"])
            rules += f"{effect} ({', '.join(scope)}) {clause} {{ {self._condition()} }}{asks};\n"
        return rules

    def _number(self) -> str:
        pick, here = self._random.choice, "context.arguments."
        literal = pick(["0", "1", "5", "10", "-3", str(LONG_MAX)])
        product = f"({here}n {pick('+-*')} {pick(['1', '3', f'{here}n', f'{here}m', str(LONG_MAX)])})"
        used = pick(["used.day.sum.n", "used.hour.calls", "used.message.calls", "used.message.writes", "length.l", "time.hour"])
        return pick(
            [
                f"{here}n",
                f"{here}n",
                f"{here}m",
                f"{here}r.i",
                f"context.{used}",
                literal,
                product,
                f"-({here}n)",
                f"{here}v.long",
            ]
        )

    def _fact(self) -> str:
        """Return a condition on facts. Some are not guarded by `has`, so that evaluations fail too."""
        pick = self._random.choice
        f, g, c, p, z, q = (f"context.result.{name}" for name in "fgcpzq")
        compares = pick(["lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"])
        named, test = pick(
            [
                ("f", f"{f}.s {pick(['==', '!='])} {self._text()}"),
                ("f", f'{f}.s like "{pick(PATTERNS)}"'),
                ("f", f"{f}.n {pick(['<', '<=', '>', '=='])} {self._number()}"),
                ("f", f"{f}.n + 1 > {pick(['1', '6'])}"),
                ("f", f'{f}.d.lessThan(decimal("{pick(["0.0", "1.5"])}"))'),
                ("f", f"{f}.b"),
                ("f", f"{f}.t {pick(['<', '>='])} context.time.now"),
                ("f", f'{f}.t.offset(duration("1d")) < datetime("2026-11-24")'),
                ("f", f'{f} has o && {f}.o == "x"'),
                ("f", f"{f} has o || {f}.b"),
                ("f", "true"),
                ("g", f"{g}.contains({self._text()})"),
                ("g", f"{g}.containsAll(context.arguments.l)"),
                ("g", f"context.arguments.l.containsAny({g})"),
                ("g", f'["a", "x", ""].containsAll({g})'),
                ("g", f"{g}.isEmpty()"),
                ("c", f"{c} {pick(['<', '>='])} {pick(['1', '2', 'context.length.l'])}"),
                ("p", f'{p}.{compares}(decimal("{pick(["0.0", "1.5"])}"))'),
                ("p", f"{p}.{compares}({pick([z, 'context.arguments.d'])})"),
                ("z", f'{z}.{compares}(decimal("{pick(["0.0", "1.5"])}"))'),
                ("z", f"{z}.{compares}({pick(['context.arguments.d', f'{f}.d'])})"),
                ("q", f"{q} {pick(['<', '<=', '>', '=='])} {self._number()}"),
                ("q", f"{q} - context.arguments.n > {pick(['1', '6'])}"),
            ]
        )
        return pick([f"(context.result has {named} && {test})"] * 3 + [f"({test})"])

    def _text(self) -> str:
        attributes = ["arguments.s", "arguments.s", "arguments.o", "arguments.r.k", "arguments.v.string", "time.weekday"]
        return self._random.choice([*(f"context.{one}" for one in attributes), '"a"', '"x"', '"ab"'])

    def _condition(self, depth: int = 2) -> str:
        kind = self._random.randrange(20)
        if depth and kind < 6:
            return f"({self._condition(depth - 1)} {self._random.choice(['&&', '||'])} {self._condition(depth - 1)})"
        if depth and kind == 6:
            return f"!({self._condition(depth - 1)})"
        if depth and kind == 7:
            parts = [self._condition(depth - 1) for _ in range(3)]
            return f"(if {parts[0]} then {parts[1]} else {parts[2]})"
        return self._test()

    def _test(self) -> str:
        if self._with_facts and self._random.random() < 0.5:
            return self._fact()
        pick, here = self._random.choice, "context.arguments."
        decimals = pick(["lessThan", "lessThanOrEqual", "greaterThan", "greaterThanOrEqual"])
        return pick(
            [
                f"{self._number()} {pick(['<', '<=', '>', '>=', '==', '!='])} {self._number()}",
                f"{self._text()} {pick(['==', '!='])} {self._text()}",
                f'{self._text()} like "{pick(PATTERNS)}"',
                f"context.arguments has {pick(['m', 'o', 'b', 'l', 'r', 'zz', 'r.k', 'r.i', 'v', 'v.string', 'h'])}",
                f'{here}d.{decimals}(decimal("{pick(["0.0", "1.5", "-2.25"])}"))',
                'context.used.day.sum.d.greaterThan(decimal("3.0"))',
                f"{here}b",
                f"{here}l.{pick(['contains', 'contains'])}({self._text()})",
                f'{here}l.containsAll(["a", "x"])',
                f'["a", "x", ""].containsAll({here}l)',
                f'["a", "b"].containsAny({here}l)',
                f'{here}l == ["a", "x"]',
                f"{here}l.{pick(['containsAll', 'containsAny'])}(context.domain.{pick('sl')})",
                f"context.{pick(['hidden', 'domain.s'])}.{pick(['containsAll', 'containsAny'])}({here}l)",
                f"{here}l == context.domain.l",
                f"{here}k.contains({self._number()})",
                "context.attempted.containsAll(context.succeeded)",
                f"{here}l.isEmpty()",
                f"{here}k.contains({pick(['0', '5'])})",
                f"[0, 1].containsAll({here}k)",
                f'context.{pick(["succeeded", "attempted"])}.contains(Action::"{pick("tuv")}")',
                f'[Action::"u"].containsAll(context.{pick(["succeeded", "attempted"])})',
                'context.hidden.contains("h")',
                "context.tainted",
                f'["user"].containsAll(context.source.{pick("sldo")})',
                f'context.source.{pick("nlk")}.contains("{pick(["user", "model", "untrusted"])}")',
                f'context.sources.contains("{pick(["trusted", "untrusted"])}")',
                "context.hidden.isEmpty()",
                f'principal in Role::"{pick("pq")}"',
                'principal in [Role::"p", Role::"q"]',
                'principal == User::"ann"',
                'action in Action::"all writes"',
                'action == Action::"t"',
                'resource == Server::"srv"',
                'principal is User in Role::"p"',
                "context.confirmed",
                f"context.approvals.{pick('pq')} {pick(['>=', '<', '=='])} {pick('12')}",
                "context.approvals.p + context.approvals.q >= 2",
                '["e.com"].containsAll(context.domain.s)',
                'context.domain.l.contains("e.com")',
                f'context.time.now {pick(["<", ">="])} datetime("2026-11-23T12:00:00Z")',
                'context.time.now.toTime() >= duration("18h")',
                'context.time.now.toDate() == datetime("2026-11-23")',
                'context.time.now.offset(duration("-1d2h")) < datetime("2026-11-22T14:00:00+0200")',
                'context.time.now.durationSince(datetime("2026-11-23")).toHours() > 11',
                f'[{self._text()}, "a"].contains({self._text()})',
            ]
        )
