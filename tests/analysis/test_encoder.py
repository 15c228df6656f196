"""The encoder and Cedar decide the same: on random rules and calls, and at the edges of texts, numbers, sets and times."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from graph_agent.analysis import encoding
from graph_agent.models.facts import Facts
from graph_agent.policy.cedar.conditions import ConditionsFile, Situation
from tests.analysis.random_policies import (
    BASE,
    LONG_MAX,
    TOOLS,
    Compared,
    RandomPolicies,
    compare_with_cedar,
    compare_with_guard,
    excluded,
)
from tests.policy.cedar_shop import policy_of

CALLS = 2_000
HERE = "context.arguments."
FORBID = "permit (principal, action, resource); forbid (principal, action, resource) when { %s };"
BIG = f'permit (principal, action, resource);\nforbid (principal, action == Action::"t", resource) when {{ {HERE}n > 5 }}%s;'
MARKERS = ("(requires confirmation)", "(at most 2 per message)")
LIKE = ("a*", "*b", "a*b", "*a*", "*", "ab", "", "a*b*", "*a*b", "aba*aba", "\\*a*", "*é", "a**b", "*ab*b*")
TEXTS = (
    "",
    "a",
    "b",
    "ab",
    "ba",
    "xab",
    "abx",
    "bab",
    "aba",
    "ababa",
    "abaaba",
    "*a",
    "a*",
    "é",
    "e\u0301",
    "xé",
    "a\\u{62}",
    "abb",
)
NUMBERS = (
    "{n} + 1 > 0",
    "{n} - 1 < 0",
    "{n} * 2 >= 0",
    "-({n}) < 5",
    "{n} + 1 > 0 || true",
    "true || {n} + 1 > 0",
    "false && {n} + 1 > 0",
    "{n} > 0 && {n} + 1 > 0",
    "{n} < 0 || {n} + 1 > 0",
    "!({n} * {n} >= 0)",
    "if {n} > 0 then {n} - 1 > 0 else {n} + 1 < 5",
    "if {n} + 1 > 0 then true else true",
    "context.confirmed || {n} + 1 > 0",
    "!context.confirmed || {n} + 1 > 0",
    "{n} >= 5",
    "{n} > 5",
    "{n} <= 5",
    "{n} != 5",
    "{m} > 0",
    "context.arguments has m && {m} > 0",
    "context.arguments has m || {m} > 0",
    "context.used.message.calls > 1",
    "context.used.message.sum.n > 3",
    "context.used.day.writes >= 1",
)
LISTS = (
    '{l}.containsAll(["a", "x"])',
    '{l}.containsAny(["a", "x"])',
    '["a", "x"].containsAll({l})',
    '["a", "x"].containsAny({l})',
    '["a"] == {l}',
    '{l}.contains("a")',
    "{l}.contains({s})",
    "{l}.isEmpty()",
    "context.length.l > 1",
    "context.length.l == 0",
    "context.domain.l.isEmpty()",
    '["e.com"].containsAll(context.domain.l)',
    '["a", "b"].contains({s})',
    "[].containsAny({l})",
    "[{s}, 1].contains(1)",
    "[{s}, 2].contains(1)",
    "{s} == {n}",
)
TIMES = (
    'context.time.now < datetime("2026-11-23T12:00:00Z")',
    'context.time.now <= datetime("2026-11-23T13:00:00+0100")',
    'context.time.now.toTime() >= duration("12h")',
    'context.time.now.toDate() == datetime("2026-11-23")',
    'context.time.now.offset(duration("-12h")) >= datetime("2026-11-23")',
    'context.time.now.durationSince(datetime("2026-11-24")).toHours() == -12',
    'context.time.now.durationSince(datetime("2026-11-24")).toMinutes() < -719',
    'context.time.weekday == "Mon"',
    'principal in Role::"p"',
    "context.approvals.p >= 1 && context.approvals.q >= 1",
    "context.approvals.p + context.approvals.q >= 2 || context.confirmed",
    "context.approvals.p == 1",
    "context.approvals.p < 2",
    'principal in [Role::"q", User::"ann"]',
    'action in [Action::"all reads", Action::"server srv"]',
    'context.succeeded.containsAny([Action::"u", Action::"v"])',
    'context.attempted.containsAll([Action::"u", Action::"v"])',
    '{d}.lessThan(decimal("1.5")) || {d}.greaterThanOrEqual(decimal("1.6"))',
    '{d}.lessThanOrEqual(decimal("1.5")) && {d}.greaterThan(decimal("-1.0"))',
    'context.arguments has v && context.arguments.v has string && {v}.string == "a"',
    "context.arguments has r && {r} has i && {r}.i > 1",
    "context.arguments has r.i",
    "{r} has i",
    "{r} has i || true",
    "context.arguments.zz == 1",
    "context.confirmed || context.arguments.zz == 1",
    "context.confirmed || {n} > 5",
    "principal is Server || resource is Server",
    "context.hidden.isEmpty()",
    'context.hidden.contains("h")',
)


def situation(now: str = "2026-11-23T12:00:00Z", **more: Any) -> Situation:
    used = {"writes": 0, "tools": {"t": {"calls": 0, "sums": {"n": 0}}}}
    made = {"succeeded": more.get("made", []), "attempted": more.pop("made", [])}
    facts = Facts.model_validate({"now": now, "hour": 12, "weekday": "Mon", "used": {"hour": used, "day": used}, **made})
    return Situation("ann", facts=facts, **more)


def call(**arguments: Any) -> dict[str, Any]:
    return {"n": 0, "s": "", "d": 0, **arguments}


def targeted() -> Iterator[tuple[str, list[tuple[dict[str, Any], Situation]]]]:
    """Yield conditions with the calls at their edges."""
    for pattern in LIKE:
        yield f'{HERE}s like "{pattern}"', [(call(s=one), situation()) for one in TEXTS]
    numbers = (0, 1, -1, 3, 4, 5, 6, LONG_MAX, -LONG_MAX - 1, LONG_MAX // 2 + 1, 3_037_000_500)
    for condition in NUMBERS:
        calls = [(call(n=n, **more), situation()) for n in numbers for more in ({}, {"m": 1}, {"m": 0})]
        yield condition, calls
    lists: tuple[list[str], ...] = ([], ["a"], ["a", "x"], ["a", "b"], ["x"], ["b", "b"], ["k@e.com"], ["k@e.com", "k@f.org"])
    for condition in LISTS:
        yield condition, [(call(s=s, **more), situation()) for s in ("a", "b") for more in ({}, *({"l": one} for one in lists))]
    moments = ("2026-11-23T12:00:00Z", "2026-11-23T11:59:59.999Z", "2026-11-24T00:00:00Z", "2026-11-23T13:00:00Z")
    rest: tuple[dict[str, Any], ...] = (
        {},
        {"v": "a"},
        {"v": 3},
        {"v": "3"},
        {"r": {}},
        {"r": {"i": 2}},
        {"h": {}},
        {"d": 1.5},
        {"d": 1.6},
        {"d": -1},
    )
    for condition in TIMES:
        states = [situation(now, roles=roles, made=made) for now in moments for roles, made in (((), []), (("p",), ["u"]))]
        states += [situation(approvals={"p": p, "q": q}) for p, q in ((1, 0), (2, 0), (1, 1))]
        yield condition, [(call(**more), state) for more in rest for state in states]


def compare_targeted(outcomes: Any, *, until_different: bool = False, share: int = 1) -> Compared:
    """Compare one of `share` calls of each condition, beginning with another one for each."""
    found = Compared()
    for number, (condition, calls) in enumerate(targeted()):
        filled = condition
        for name in "nmlsdvr":
            filled = filled.replace(f"{{{name}}}", f"{HERE}{name}")
        for rules in (f"permit (principal, action, resource) when {{ {filled} }};", FORBID % filled):
            policy = BASE.with_conditions(ConditionsFile(rules, roles=("p", "q")))
            compare_with_cedar(policy, iter(calls[number % share :: share]), found, outcomes)
        if until_different and found.different:
            break
    return found


def compare_random(outcomes: Any, calls: int, seed: int, *, with_facts: bool = False) -> Compared:
    found, made = Compared(), RandomPolicies(seed, with_facts=with_facts)
    while found.calls < calls and not (found.different and calls < CALLS):
        compare_with_cedar(made.policy(), (made.call() for _ in range(100 if with_facts else 20)), found, outcomes)
    return found


def compare_markers(outcomes: Any) -> list[str]:
    """Return the calls that encoder and guard judge differently, by the markers of the constitution alone and with rules."""
    found: list[str] = []
    for marker in ("", *MARKERS, " ".join(MARKERS)):
        for rules in (None, BIG % "", BIG % " unless { context.confirmed }"):
            policy = policy_of([TOOLS[0]._replace(marker=marker), *TOOLS[1:]], rules)
            calls = [(call(n=n), before) for n in (0, 9) for before in range(4)]
            found += compare_with_guard(policy, calls, outcomes)
    return found


def test_markers_of_the_constitution_decide_as_in_the_guard() -> None:
    assert compare_markers(encoding.outcomes) == []


@pytest.mark.parametrize(("calls", "seed"), [(CALLS // 8, 6), pytest.param(CALLS, 4, marks=pytest.mark.nightly)])
def test_random_rules_decide_as_cedar_does(calls: int, seed: int) -> None:
    found = compare_random(encoding.outcomes, calls, seed)
    assert found.different == []
    assert len(found.effects) == 4
    assert min(found.effects.values()) > calls / 100
    assert found.undetermined < calls / 100


@pytest.mark.parametrize(("calls", "seed"), [(10_000, 1), pytest.param(100_000, 2, marks=pytest.mark.nightly)])
def test_random_rules_over_random_facts_decide_as_cedar_does(calls: int, seed: int) -> None:
    found = compare_random(encoding.outcomes, calls, seed, with_facts=True)
    assert found.different == []
    assert len(found.effects) == 4
    assert min(found.effects.values()) > calls / 200
    assert found.undetermined == 0


@pytest.mark.parametrize("with_facts", [False, True])
def test_the_solver_overlooks_no_call(with_facts: bool) -> None:
    made = RandomPolicies(seed=4, with_facts=with_facts)
    assert list(excluded(made.call() for _ in range(500))) == []


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.nightly)])
def test_targeted_rules_decide_as_cedar_does(share: int) -> None:
    """With an eighth of the calls at the edges of each condition, and with all of them."""
    found = compare_targeted(encoding.outcomes, share=share)
    assert found.different == []
    assert found.not_encoded == 0
    assert found.calls > 5_000 / share


PLANTED = {
    "overflow is ignored": (
        "return z3.Or(error, result < MIN_LONG, result > MAX_LONG), Value(kind, result)",
        "return error, Value(kind, result)",
    ),
    "an absent field is no error": ("return z3.Or(error, z3.Not(present)), value", "return error, value"),
    "a prefix is taken as contained": ("z3.PrefixOf(text(first), term)", "z3.Contains(term, text(first))"),
    "a suffix may overlap its prefix": (", z3.Length(term) >= len(first + last)", ""),
    "only the evaluation with the yes may fail": ("z3.And(z3.Not(failed), z3.Not(failed_too))", "z3.Not(failed_too)"),
    "a rule that fails is skipped": ("z3.And(z3.Not(failed), z3.Not(failed_too))", "TRUE"),
    "unless is when": ("value.term if isinstance(clause, pst.When) else z3.Not(value.term)", "value.term"),
    "the right side always fails": ("z3.Or(error, z3.And(goes_on, failed))", "z3.Or(error, failed)"),
    "|| stops at false": ("goes_on = z3.Not(first.term) if stops_at else first.term", "goes_on = first.term"),
    "less is less or equal": ('"less": operator.lt', '"less": operator.le'),
    "decimals are compared inclusively": ('"decimal_greater": operator.gt', '"decimal_greater": operator.ge'),
    "any is all": (
        "return disjunction([self._contains(first, one) for one in second.term])",
        "return conjunction([self._contains(first, one) for one in second.term])",
    ),
    "other elements are forgotten": ("z3.Not(disjunction([found.other, *outside]))", "z3.Not(disjunction(outside))"),
    "both branches of if may fail": ("z3.If(decides.term, first_error, second_error)", "z3.Or(first_error, second_error)"),
    "the smallest number can be negated": ("z3.Or(error, value.term == MIN_LONG)", "error"),
    "hours are floored": ("-(-value.term / unit)", "value.term / unit"),
    "every declared argument is present": ("holds = z3.And(holds, present)", "holds = TRUE"),
    "groups are ignored": ("z3.BoolVal(name in self._call.action.groups)", "FALSE"),
    "roles are ignored": ("found.append(self._call.role(str(name)))", "pass"),
    "a limit of the constitution is ignored": ("TRUE if limit is None else", "TRUE if True else"),
    "a limit counts the call before": ('call.used("message", "calls") <= limit', 'call.used("message", "calls") <= limit + 1'),
    "a marker is ignored": ("FALSE if rule.grant.requires_confirmation else", "FALSE if False else"),
    "a call that needs a yes is refused": ("Outcomes(silent, accepted, ", "Outcomes(silent, silent, "),
    "approvals decide nothing": ("call.approved_by(with_yes, EVERYBODY)", "with_yes"),
    "a call with approvals may still fail": ("z3.And(sound, call.approved_by(sound, EVERYBODY))", "sound"),
    "permits do not add up": ("z3.And(disjunction(permits), z3.Not", "z3.And(conjunction(permits), z3.Not"),
}  # fmt: skip
QUICKLY_FOUND = "a marker is ignored"


def test_every_mistake_can_be_planted() -> None:
    """Each of them changes one place of the source as it is now, so that the nightly test is about the same mistakes."""
    source = Path(encoding.__file__).read_text(encoding="utf-8")
    assert {name: source.count(right) for name, (right, _) in PLANTED.items()} == dict.fromkeys(PLANTED, 1)


@pytest.mark.parametrize(
    "mistake", [name if name == QUICKLY_FOUND else pytest.param(name, marks=pytest.mark.nightly) for name in PLANTED]
)
def test_a_planted_mistake_is_found(mistake: str) -> None:
    right, wrong = PLANTED[mistake]
    source = Path(encoding.__file__).read_text(encoding="utf-8")
    planted = ModuleType("planted_encoding")
    sys.modules[planted.__name__] = planted  # dataclasses and named tuples look their module up
    try:
        exec(compile(source.replace(right, wrong), planted.__name__, "exec"), vars(planted))
    finally:
        del sys.modules[planted.__name__]
    assert (
        compare_markers(planted.outcomes)
        or compare_random(planted.outcomes, 200, seed=1).different
        or compare_targeted(planted.outcomes, until_different=True).different
    )
