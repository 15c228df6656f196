"""Cedar's expressions and conditions as formulas over one symbolic call.

An expression becomes a pair: the condition under which its evaluation fails, and its value. A call is accepted as the guard
accepts it: no condition fails, in neither of its two evaluations.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import z3
from cedarpy import pst

from graph_agent.analysis.symbols import (
    FALSE,
    TRUE,
    Literals,
    SymbolicCall,
    SymbolicSet,
    Unencodable,
    Value,
    conjunction,
    constant,
    disjunction,
    text,
)
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import EVERYBODY, Verdict
from graph_agent.policy.cedar.syntax import Reads, covers, walk
from graph_agent.policy.cedar.types import NUMBERS, Kind
from graph_agent.policy.cedar.values import MAX_LONG, MIN_LONG, scaled
from graph_agent.policy.compiled import CompiledPolicy

Parsed = Mapping[str, pst.Template]
Encoded = tuple[Any, Value]
"""The condition under which an evaluation fails, and its value."""

DURATION: Final = "duration"
LITERAL_SET: Final = "literal set"
ENTITY: Final = "entity"
_DAY: Final = 86_400_000
_UNITS: Final = {"to_milliseconds": 1, "to_seconds": 1000, "to_minutes": 60_000, "to_hours": 3_600_000, "to_days": _DAY}
_DURATION_UNITS: Final = {"d": _DAY, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "less": operator.lt,
    "less_eq": operator.le,
    "greater": operator.gt,
    "greater_eq": operator.ge,
    "decimal_less_than": operator.lt,
    "decimal_less_eq": operator.le,
    "decimal_greater": operator.gt,
    "decimal_greater_eq": operator.ge,
}
_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_SCALARS: Final = frozenset({Kind.BOOL, Kind.LONG, Kind.DECIMAL, Kind.STRING, Kind.DATETIME, DURATION})


_FAILS: Final[Encoded] = TRUE, Value(Kind.BOOL, FALSE)
"""An expression that always fails: its value means nothing."""


class Outcomes(NamedTuple):
    """The conditions under which a call runs without a yes, under which it runs, and under which it can run once approved."""

    silent: Any
    accepted: Any
    approvable: Any
    """The same as `accepted`, if everybody had approved the call."""

    def one_of(self, effects: Iterable[Verdict]) -> Any:
        """Return the condition under which the guard decides one of `effects`."""
        conditions = {
            Verdict.RUNS: self.silent,
            Verdict.ASKS: z3.And(self.accepted, z3.Not(self.silent)),
            Verdict.WAITS: z3.And(self.approvable, z3.Not(self.accepted)),
            Verdict.REFUSED: z3.Not(z3.Or(self.accepted, self.approvable)),
        }
        return disjunction([conditions[effect] for effect in effects])

    def and_also(self, *possible: Any) -> Outcomes:
        """Return the outcomes of the calls for which all of `possible` holds; others are refused."""
        return Outcomes(*(z3.And(one, *possible) for one in self))


NEVER: Final = Outcomes(FALSE, FALSE, FALSE)
"""The outcomes of a call that is always refused."""


def outcomes(call: SymbolicCall, policy: CompiledPolicy, left_out: dict[str, str], *, for_facts: bool = False) -> Outcomes:
    """Encode the guard's decision on a call: the constitution, and the conditions if there are any.

    With `for_facts` it is a read that the runtime makes for facts, which the conditions that name facts do not judge.

    A condition outside the fragment is named in `left_out`, with the reason. Whether it matches is free then, so what no call
    and no match makes true is true of no call that the guard judges.
    """
    rule = policy.rules.get(call.action.name)
    if rule is None or call.action.name in policy.unavailable:
        return NEVER
    limit = rule.grant.max_per_message
    allowed = TRUE if limit is None else call.used("message", "calls") <= limit
    without = with_yes = approved = sound = TRUE
    if policy.conditions is not None:
        unencoded: dict[str, str] = {}
        left = policy.conditions.results.conditions if for_facts else frozenset()
        judging = {key: one for key, one in policy.conditions.by_key.items() if key not in left}
        encoders = (Encoder(call, confirmed=yes) for yes in (False, True))
        (without, failed), (with_yes, failed_too) = (one.decision(judging, unencoded) for one in encoders)
        left_out |= {policy.conditions.names[key]: why for key, why in unencoded.items()}
        sound = z3.And(z3.Not(failed), z3.Not(failed_too))
        if policy.conditions.approval_roles(call.action.name):
            # A condition that fails in one of the evaluations refuses the call in all of them.
            sound = z3.And(sound, call.approved_by(sound, EVERYBODY))
        approved = call.approved_by(with_yes, EVERYBODY)
        if unencoded and policy.conditions.approval_roles(call.action.name):
            # Whether such a condition matches or fails may depend on approvals too.
            approved = z3.FreshConst(z3.BoolSort(), "approved")
            sound = z3.And(sound, z3.FreshConst(z3.BoolSort(), "sound"))
        allowed = z3.And(allowed, _texts_are_read(call, policy.conditions))
    accepted = z3.And(allowed, sound, with_yes)
    silent = FALSE if rule.grant.requires_confirmation else z3.And(accepted, without)
    return Outcomes(silent, accepted, z3.And(allowed, sound, approved))


def _texts_are_read(call: SymbolicCall, conditions: Conditions) -> Any:
    """Return the formula that a text, in place of a number or a truth value that conditions name, is read as one.

    The guard refuses a call with another text, if no condition reads the text itself, and an empty one in any case.
    """
    reads, found = conditions.reads_about(call.action.name), []
    for path, type_ in call.action.arguments.variants("arguments"):
        fields = call.context.at(*path).term
        for name, part, _ in type_.fields if "string" in fields else ():
            is_summed = part.kind in NUMBERS and path[1:] == (path[-1],) and path[-1] in conditions.summed[call.action.name]
            is_named = part.kind in (Kind.BOOL, *NUMBERS) and reads.name(*path, name)
            written, is_text = fields["string"]
            if is_summed or (is_named and not reads.name(*path, "string")):
                found.append(z3.Implies(is_text, fields[name][1]))
            elif is_named:
                found.append(z3.Implies(is_text, z3.Or(fields[name][1], written.term != text(""))))
    return conjunction(found)


class Encoder:
    """Encodes conditions for one evaluation: with or without the user's yes."""

    def __init__(self, call: SymbolicCall, *, confirmed: bool) -> None:
        self._call = call
        self._confirmed = confirmed

    def decision(self, conditions: Parsed, left_out: dict[str, str]) -> tuple[Any, Any]:
        """Return the formulas that say when the conditions allow the call, and when one of them fails.

        The reason why a condition is not encoded is added to `left_out`, under its key.
        """
        encoded = []
        for key, condition in conditions.items():
            if covers(condition, self._call.action):
                unencoded: list[str] = []
                encoded.append((condition.effect, *self.condition(condition, unencoded)))
                if unencoded:
                    left_out[key] = unencoded[0]
        permits, forbids = ([match for effect, _, match in encoded if effect == one] for one in ("permit", "forbid"))
        failed = disjunction([error for _, error, _ in encoded])
        return z3.And(disjunction(permits), z3.Not(disjunction(forbids))), failed

    def condition(self, condition: pst.Template, unencoded: list[str] | None = None) -> tuple[Any, Any]:
        """Return the formulas that say when a condition that covers the tool fails, and when it matches.

        A clause outside the fragment raises `Unencodable`. With `unencoded` it has any value, and the reason is added there.
        """
        failed, holds = FALSE, self._principal(condition.principal)
        for clause in condition.clauses:
            try:
                error, value = self.encode(clause.expr)
                if value.kind is not Kind.BOOL:
                    raise Unencodable("a clause that is no condition")
            except (Unencodable, z3.Z3Exception) as exc:
                if unencoded is None:
                    raise
                unencoded.append(str(exc) if isinstance(exc, Unencodable) else "it is not encoded")
                error, value = self._unknown(clause.expr)
            failed = z3.Or(failed, z3.And(holds, error))
            holds = z3.And(holds, value.term if isinstance(clause, pst.When) else z3.Not(value.term))
        return failed, z3.And(holds, z3.Not(failed))

    def _unknown(self, node: pst.Expr) -> Encoded:
        """Return variables for an expression that is not encoded: the same ones wherever it has the same value."""
        reads_yes = Reads([node]).has("confirmed")
        name = repr((node, self._call.action, self._confirmed if reads_yes else None))
        return z3.Bool(f"fails: {name}"), Value(Kind.BOOL, z3.Bool(f"holds: {name}"))

    def _principal(self, scope: pst.PrincipalOrResourceConstraint) -> Any:
        user = Value(ENTITY, ("User", self._call.user))
        if isinstance(scope, pst.ScopeEq | pst.ScopeIn | pst.ScopeIsIn):
            assert isinstance(scope.entity, pst.EntityUid)
            _, entity = self.encode(pst.EntityLit(scope.entity))
            return self._equal(user, entity) if isinstance(scope, pst.ScopeEq) else self._is_in(user, entity)
        return TRUE

    def encode(self, node: pst.Expr) -> Encoded:
        """Encode an expression. Raises `Unencodable` for what is outside the fragment."""
        match node:
            case pst.BoolLit(constant):
                return FALSE, Value(Kind.BOOL, z3.BoolVal(constant))
            case pst.LongLit(number):
                return FALSE, Value(Kind.LONG, z3.IntVal(number))
            case pst.StringLit(characters):
                return FALSE, Value(Kind.STRING, text(characters))
            case pst.EntityLit(entity):
                return FALSE, Value(ENTITY, (str(entity.type), text(entity.id)))
            case pst.Var(name):
                return FALSE, self._variable(name)
            case pst.GetAttr(base, name):
                return self._attribute(base, name)
            case pst.HasAttr(base, names):
                return self._has(base, names)
            case pst.Like(base, pattern):
                error, value = self.encode(base)
                if z3.is_true(error):
                    return _FAILS
                return error, Value(Kind.BOOL, _like(value.term, pattern))
            case pst.IfThenElse(condition, then, otherwise):
                return self._choice(condition, then, otherwise)
            case pst.Set(elements):
                encoded = [self.encode(one) for one in elements]
                return disjunction([error for error, _ in encoded]), Value(LITERAL_SET, [value for _, value in encoded])
            case pst.Is(base, type_, inside):
                error, value = self.encode(base)
                if z3.is_true(error):
                    return _FAILS
                holds = z3.BoolVal(value.term[0] == str(type_))
                if inside is None:
                    return error, Value(Kind.BOOL, holds)
                failed, group = self.encode(inside)
                return z3.Or(error, z3.And(holds, failed)), Value(Kind.BOOL, z3.And(holds, self._is_in(value, group)))
            case pst.UnaryOp(op, operand):
                return self._unary(op, operand)
            case pst.BinaryOp(op, left, right):
                return self._binary(op, left, right)
        raise Unencodable(f"{type(node).__name__} expressions")

    def _variable(self, name: str) -> Value:
        action = self._call.action
        entities: dict[str, tuple[str, Any]] = {
            "principal": ("User", self._call.user),
            "action": ("Action", text(action.name)),
            "resource": ("Server", text(action.server)),
        }
        return self._call.context if name == "context" else Value(ENTITY, entities[name])

    def _attribute(self, base: pst.Expr, name: str) -> Encoded:
        if base == pst.Var("context") and name == "confirmed":
            return FALSE, Value(Kind.BOOL, z3.BoolVal(self._confirmed))
        error, record = self.encode(base)
        if z3.is_true(error):
            return _FAILS
        if record.kind is not Kind.RECORD:
            raise Unencodable("attributes of what is no record of the call")
        if name not in record.term:
            return _FAILS
        value, present = record.term[name]
        return z3.Or(error, z3.Not(present)), value

    def _has(self, base: pst.Expr, names: tuple[str, ...]) -> Encoded:
        error, value = self.encode(base)
        if z3.is_true(error):
            return _FAILS
        holds: Any = TRUE
        for name in names:
            if value.kind is not Kind.RECORD:
                raise Unencodable("`has` on what is no record of the call")
            if name not in value.term:
                return error, Value(Kind.BOOL, FALSE)
            value, present = value.term[name]
            holds = z3.And(holds, present)
        return error, Value(Kind.BOOL, holds)

    def _choice(self, condition: pst.Expr, then: pst.Expr, otherwise: pst.Expr) -> Encoded:
        failed, decides = self.encode(condition)
        if z3.is_true(failed):
            return _FAILS
        known = z3.simplify(decides.term)
        if z3.is_true(known) or z3.is_false(known):
            error, value = self.encode(then if z3.is_true(known) else otherwise)
            return z3.Or(failed, error), value
        (first_error, first), (second_error, second) = self.encode(then), self.encode(otherwise)
        if first.kind != second.kind or first.kind not in _SCALARS:
            raise Unencodable("`if` between records, sets or entities")
        error = z3.Or(failed, z3.If(decides.term, first_error, second_error))
        return error, Value(first.kind, z3.If(decides.term, first.term, second.term))

    def _unary(self, op: str, operand: pst.Expr) -> Encoded:
        if op in ("decimal", "datetime", "duration"):
            if not isinstance(operand, pst.StringLit):
                raise Unencodable(f"`{op}` of a text that is not written in the condition")
            return FALSE, _extension(op, operand.value)
        error, value = self.encode(operand)
        if z3.is_true(error):
            return _FAILS
        if op == "not":
            return error, Value(Kind.BOOL, z3.Not(value.term))
        if op == "neg":
            return z3.Or(error, value.term == MIN_LONG), Value(Kind.LONG, -value.term)
        if op == "is_empty":
            empty = z3.BoolVal(not value.term) if value.kind == LITERAL_SET else value.term.is_empty
            return error, Value(Kind.BOOL, empty)
        if op == "to_time":
            return error, Value(DURATION, value.term % _DAY)
        if op == "to_date":
            return error, Value(Kind.DATETIME, value.term - value.term % _DAY)
        if op in _UNITS:
            unit = _UNITS[op]
            return error, Value(Kind.LONG, z3.If(value.term >= 0, value.term / unit, -(-value.term / unit)))
        raise Unencodable(f"`{op}`")

    def _binary(self, op: str, left: pst.Expr, right: pst.Expr) -> Encoded:
        if op in ("and", "or"):
            return self._junction(left, right, stops_at=op == "or")
        (first_error, first), (second_error, second) = self.encode(left), self.encode(right)
        if z3.is_true(first_error) or z3.is_true(second_error):
            return _FAILS
        error = z3.Or(first_error, second_error)
        if op in _ARITHMETIC or op in ("offset", "duration_since"):
            return self._sum(op, error, first, second)
        return error, Value(Kind.BOOL, self._relation(op, first, second))

    def _junction(self, left: pst.Expr, right: pst.Expr, *, stops_at: bool) -> Encoded:
        """Encode `&&`, which stops at false, or `||`, which stops at true."""
        error, first = self.encode(left)
        known = z3.simplify(first.term)
        if z3.is_true(known) if stops_at else z3.is_false(known):
            # What is not evaluated need not even have a type.
            return error, Value(Kind.BOOL, z3.BoolVal(stops_at))
        failed, second = self.encode(right)
        goes_on = z3.Not(first.term) if stops_at else first.term
        together = z3.Or(first.term, second.term) if stops_at else z3.And(first.term, second.term)
        return z3.Or(error, z3.And(goes_on, failed)), Value(Kind.BOOL, together)

    def _sum(self, op: str, error: Any, first: Value, second: Value) -> Encoded:
        add_or_subtract = {"offset": "add", "duration_since": "sub"}.get(op, op)
        result = _ARITHMETIC[add_or_subtract](first.term, second.term)
        kind = {"offset": Kind.DATETIME, "duration_since": DURATION}.get(op, Kind.LONG)
        return z3.Or(error, result < MIN_LONG, result > MAX_LONG), Value(kind, result)

    def _relation(self, op: str, first: Value, second: Value) -> Any:
        if op in _COMPARISONS:
            return _COMPARISONS[op](first.term, second.term)
        match op:
            case "eq":
                return self._equal(first, second)
            case "not_eq":
                return z3.Not(self._equal(first, second))
            case "in":
                return self._is_in(first, second)
            case "contains":
                return self._contains(first, second)
            case "contains_all":
                return self._contains_all(first, second)
            case "contains_any" if second.kind == LITERAL_SET:
                return disjunction([self._contains(first, one) for one in second.term])
            case "contains_any" if first.kind == LITERAL_SET:
                return disjunction([self._contains(second, one) for one in first.term])
            case "contains_any":
                return self._contains_any(first.term, second.term)
        raise Unencodable(f"`{op}`")

    def _equal(self, first: Value, second: Value) -> Any:
        if first.kind == second.kind == ENTITY:
            return first.term[1] == second.term[1] if first.term[0] == second.term[0] else FALSE
        if {first.kind, second.kind} <= {Kind.SET, LITERAL_SET}:
            return z3.And(self._contains_all(first, second), self._contains_all(second, first))
        if first.kind != second.kind:
            return FALSE
        if first.kind in _SCALARS:
            return first.term == second.term
        raise Unencodable("`==` of records")

    def _contains(self, group: Value, element: Value) -> Any:
        if group.kind == LITERAL_SET:
            return disjunction([self._equal(one, element) for one in group.term])
        found: SymbolicSet = group.term
        key = _constant(element)
        if key is not None:
            if key in found.elements:
                return found.elements[key]
            if found.kind is Kind.ACTION:
                return FALSE
            raise Unencodable("an element that no condition names")
        if element.kind is not found.kind or element.kind not in (Kind.STRING, *NUMBERS):
            raise Unencodable("`contains` of a value of the call")
        known = [z3.And(element.term == constant(one), bit) for one, bit in found.elements.items()]
        others = [element.term != constant(one) for one in found.elements]
        # Which other elements there are is not modelled: any of them may be this one.
        return z3.Or(*known, z3.And(found.other, *others, self._call.has(found, element.term)))

    def _contains_all(self, group: Value, part: Value) -> Any:
        if part.kind == LITERAL_SET:
            return conjunction([self._contains(group, one) for one in part.term])
        if group.kind != LITERAL_SET:
            whole, found = group.term, part.term
            if whole.kind is not found.kind:
                return found.is_empty
            shared = [z3.Implies(bit, self._has_element(whole, element)) for element, bit in found.elements.items()]
            others = z3.And(whole.others_than(found.elements), self._call.overlap(whole, found).all)
            return z3.And(*shared, z3.Implies(found.other, others))
        keys = [_constant(one) for one in group.term]
        if None in keys:
            raise Unencodable("`containsAll` with values of the call")
        found = part.term
        outside = [bit for key, bit in found.elements.items() if key not in keys]
        return z3.Not(disjunction([found.other, *outside]))

    def _contains_any(self, group: SymbolicSet, part: SymbolicSet) -> Any:
        if group.kind is not part.kind:
            return FALSE
        shared = [z3.And(bit, self._has_element(group, element)) for element, bit in part.elements.items()]
        overlap = self._call.overlap(group, part)
        others = z3.And(part.other, group.others_than(part.elements), z3.Or(overlap.all, overlap.some))
        return z3.Or(*shared, others)

    def _has_element(self, group: SymbolicSet, element: Any) -> Any:
        """Return the condition that a set of the call has a constant that is an element of another one."""
        bit = group.elements.get(element)
        return bit if bit is not None else z3.And(group.other, self._call.has(group, constant(element)))

    def _is_in(self, entity: Value, group: Value) -> Any:
        if entity.kind != ENTITY:
            raise Unencodable("`in` of what is no entity")
        found = []
        for one in group.term if group.kind == LITERAL_SET else [group]:
            found.append(self._equal(entity, one))
            name = _constant(one)
            if entity.term[0] == "User" and one.term[0] == "Role":
                found.append(self._call.role(str(name)))
            if entity.term[0] == one.term[0] == "Action":
                found.append(z3.BoolVal(name in self._call.action.groups))
        return disjunction(found)


def literals(conditions: Iterable[Parsed]) -> Literals:
    """Return the constants in conditions, for the elements of symbolic sets."""
    found: dict[Kind, set[Any]] = {Kind.STRING: {""}, Kind.LONG: set(), Kind.DECIMAL: set()}
    for node in walk([condition.clauses for one in conditions for condition in one.values()]):
        if isinstance(node, pst.StringLit):
            found[Kind.STRING].add(node.value)
        elif isinstance(node, pst.LongLit):
            found[Kind.LONG].add(node.value)
        elif isinstance(node, pst.UnaryOp) and node.op == "decimal" and isinstance(node.arg, pst.StringLit):
            found[Kind.DECIMAL].add(scaled(Kind.DECIMAL, node.arg.value, "decimal"))
    return {kind: frozenset(values) for kind, values in found.items()}


def in_words(left_out: Mapping[str, str]) -> str:
    """Return which conditions are not encoded, and why."""
    return "; ".join(f"'{name}' is not encoded: {why}" for name, why in left_out.items())


def text_of(term: Any) -> str:
    """Return a constant text of the solver as Python's."""
    return re.sub(r"\\u\{([0-9a-fA-F]+)\}", lambda found: chr(int(found[1], 16)), term.as_string())


def _constant(value: Value) -> Any:
    """Return the Python value of a constant; None for a value of the call."""
    if value.kind == ENTITY:
        return text_of(value.term[1]) if z3.is_string_value(value.term[1]) else None
    if value.kind is Kind.STRING and z3.is_string_value(value.term):
        return text_of(value.term)
    if value.kind in (Kind.LONG, Kind.DECIMAL) and z3.is_int_value(number := z3.simplify(value.term)):
        return number.as_long()
    if value.kind is Kind.BOOL and (z3.is_true(value.term) or z3.is_false(value.term)):
        return z3.is_true(value.term)
    return None


def _like(term: Any, pattern: tuple[pst.PatternElem, ...]) -> Any:
    """Encode a pattern as its parts between the wildcards: a prefix, a suffix, and what lies between."""
    parts = [""]
    for element in pattern:
        if isinstance(element, pst.Wildcard):
            parts.append("")
        else:
            parts[-1] += element.value
    first, *middle, last = parts if len(parts) > 1 else (parts[0], "")
    if len(parts) == 1:
        return term == text(first)
    middle = [one for one in middle if one]
    if not middle:
        return z3.And(z3.PrefixOf(text(first), term), z3.SuffixOf(text(last), term), z3.Length(term) >= len(first + last))
    if len(middle) == 1 and not first and not last:
        return z3.Contains(term, text(middle[0]))
    anything = z3.Full(z3.ReSort(z3.StringSort()))
    pieces = [piece for part in (first, *middle) for piece in (z3.Re(text(part)), anything)]
    return z3.InRe(term, z3.Concat(*pieces, z3.Re(text(last))))


def _extension(op: str, value: str) -> Value:
    if op == "decimal":
        return Value(Kind.DECIMAL, z3.IntVal(scaled(Kind.DECIMAL, value, "decimal")))
    if op == "datetime":
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return Value(Kind.DATETIME, z3.IntVal(round(moment.timestamp() * 1000)))
    parts = re.findall(r"(\d+)(ms|[dhms])", value)
    total = sum(int(number) * _DURATION_UNITS[unit] for number, unit in parts)
    return Value(DURATION, z3.IntVal(-total if value.startswith("-") else total))
