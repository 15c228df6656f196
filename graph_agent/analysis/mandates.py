"""The most that a plan permits: its lines, narrowed to the calls that the rules let run once the user has said yes to it.

The bounds of a line are encoded beside the decision of the guard. What has no formula is left free, so that a bound may stay
wider than what runs, and never becomes narrower: what is struck is proved to run under no circumstances.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from decimal import Decimal
from time import monotonic
from typing import Any, Final

import z3

from graph_agent.analysis.encoding import Encoder, outcomes
from graph_agent.analysis.questions import Analysis, actions_of
from graph_agent.analysis.symbols import TRUE, SymbolicCall, Unencodable, Value, conjunction, disjunction, text
from graph_agent.models.mandate import AtMost, Bound, Is, Line, PermittedLine, Plan, Scalar
from graph_agent.policy.cedar.syntax import covers
from graph_agent.policy.cedar.types import NUMBERS, Kind
from graph_agent.policy.cedar.values import MAX_LONG, SCALE
from graph_agent.policy.compiled import CompiledPolicy

SECONDS: Final = 0.5
"""The time for one line."""
MAX_SOLVED: Final = 5
"""The lines that are solved; those after them keep their bounds."""
_SOLVER: Final = threading.Lock()
"""The solver has one context, which two threads cannot use at once."""


def permitted(plan: Plan, policy: CompiledPolicy, seconds: float = SECONDS) -> list[PermittedLine]:
    """Return what each line of a plan permits at most, in their order; a line that was not solved in time as it is."""
    with _SOLVER:
        analysis = Analysis(policy, seconds=seconds)
        solved = [_permitted(line, policy, analysis, seconds) for line in plan.lines[:MAX_SOLVED]]
    return [*solved, *(PermittedLine(line) for line in plan.lines[MAX_SOLVED:])]


def _permitted(line: Line, policy: CompiledPolicy, analysis: Analysis, seconds: float) -> PermittedLine:
    end = monotonic() + seconds
    try:
        call = analysis.call(line.tool, policy)
        runs = outcomes(call, policy, {}).accepted
        within = _Within(line, policy, call, runs, end)
        if not within.is_possible():
            return PermittedLine(None, rule=within.rule_against(policy))
        # In place of a bound that is not solved in time the line keeps its own.
        return within.narrowed()
    except (Unencodable, z3.Z3Exception, KeyError):
        return PermittedLine(line)


class _Within:
    """The calls within the bounds of a line which run with a yes, and with no approval."""

    def __init__(self, line: Line, policy: CompiledPolicy, call: SymbolicCall, runs: Any, end: float) -> None:
        self._line = line
        self._call = call
        self._end = end
        self._bounds = list(_formulas(line, policy, call))
        self._known = [*call.facts, *call.without_approvals, *self._bounds]
        self._runs = runs

    def is_possible(self, *conditions: Any, runs: bool = True) -> bool:
        """True if there is such a call. Raises `Unencodable` if that is not known in time."""
        if (left := round(1000 * (self._end - monotonic()))) <= 0:
            raise Unencodable("not decided: timeout")
        solver = z3.Solver()
        solver.set("timeout", left)
        solver.add(*self._known, *([self._runs] if runs else []), *conditions)
        answer = solver.check()
        if answer == z3.unknown:
            raise Unencodable(f"not decided: {solver.reason_unknown()}")
        return bool(answer == z3.sat)

    def rule_against(self, policy: CompiledPolicy) -> str:
        """Return the rule that matches every call within the bounds; empty if none does alone, or none is found in time."""
        if policy.conditions is None:
            return ""
        action = actions_of(policy)[self._line.tool]
        try:
            for key, condition in policy.conditions.by_key.items():
                if condition.effect == "forbid" and covers(condition, action):
                    _, matches = Encoder(self._call, confirmed=True).condition(condition, [])
                    if not self.is_possible(z3.Not(matches), runs=False):
                        return policy.conditions.names[key]
        except (Unencodable, z3.Z3Exception):
            pass
        return ""

    def narrowed(self) -> PermittedLine:
        arguments, never = dict(self._line.arguments), {}
        for name, bound in self._line.arguments.items():
            value = _value(self._call, name)
            try:
                if isinstance(bound, Is):
                    struck = [one for one in bound.values if self._never_is(value, one)]
                    if struck and len(struck) < len(bound.values):
                        never[name] = tuple(struck)
                        arguments[name] = Is(tuple(one for one in bound.values if one not in struck))
                elif isinstance(bound, AtMost) and value is not None and value.kind in NUMBERS:
                    arguments[name] = self._up_to(bound, value)
            except (Unencodable, z3.Z3Exception):
                continue
        return PermittedLine(self._line.replace(arguments=arguments), never)

    def _never_is(self, value: Value | None, one: Scalar) -> bool:
        equals = None if value is None else _equals(value, one)
        return equals is not None and not self.is_possible(equals)

    def _up_to(self, bound: AtMost, value: Value) -> AtMost:
        """Return the bound with the largest number that a call has. What the optimizer finds is proved before it counts."""
        optimizer = z3.Optimize()
        optimizer.set("timeout", max(1, round(1000 * (self._end - monotonic()))))
        optimizer.add(*self._known, self._runs)
        largest = optimizer.maximize(value.term)
        if optimizer.check() != z3.sat or not z3.is_int_value(optimizer.upper(largest)):
            return bound
        most = optimizer.upper(largest).as_long()
        if most >= _floor(value, bound.at_most) or self.is_possible(value.term > most):
            return bound
        found = Decimal(most) / SCALE if value.kind is Kind.DECIMAL else Decimal(most)
        return AtMost(int(found) if found == int(found) else float(found))


def _formulas(line: Line, policy: CompiledPolicy, call: SymbolicCall) -> Iterator[Any]:
    """Yield what holds for every call that fits a line, as far as conditions see it."""
    rule = policy.rules[line.tool]
    set_by_runtime = {rule.grant.bound_argument, *([] if rule.takes_user_id else ["user_id"])}
    for declared in call.action.arguments.fields:
        if declared.name in line.arguments:
            yield call.is_given(declared.name)
        elif declared.name not in set_by_runtime:
            yield z3.Not(call.is_given(declared.name))
    for name, bound in line.arguments.items():
        if (value := _value(call, name)) is not None:
            yield _within(value, bound)


def _within(value: Value, bound: Bound) -> Any:
    match bound:
        case Is():
            each = [_equals(value, one) for one in bound.values]
            return TRUE if None in each else disjunction(each)
        case AtMost() if value.kind in NUMBERS:
            return conjunction([value.term >= 0, value.term <= _floor(value, bound.at_most)])
    return TRUE


def _equals(value: Value, one: Scalar) -> Any | None:
    """Return the formula that an argument has a value; None if its kind, or the value, has none."""
    match value.kind:
        case Kind.STRING if isinstance(one, str):
            return value.term == text(one)
        case Kind.BOOL if isinstance(one, bool):
            return value.term == z3.BoolVal(one)
        case Kind.LONG | Kind.DECIMAL if _is_number(one):
            exact = Decimal(str(one)) * (SCALE if value.kind is Kind.DECIMAL else 1)
            return value.term == int(exact) if exact == int(exact) else None
    return None


def _floor(value: Value, number: float) -> int:
    return min(MAX_LONG, math.floor(Decimal(str(number)) * (SCALE if value.kind is Kind.DECIMAL else 1)))


def _value(call: SymbolicCall, name: str) -> Value | None:
    """Return the value of an argument; None if conditions cannot see it as one value."""
    given: tuple[Value, Any] | None = call.context.at("arguments").term.get(name)
    return None if given is None else given[0]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
