"""One call of a tool in any state, as variables of the solver.

The tool is fixed, so that the action, its groups and its server are constants. Everything else (arguments, earlier uses, the
calls made before, time, roles) is a variable, with the facts that hold for every call that the guard judges.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import z3

from graph_agent.models.facts import WINDOWS
from graph_agent.models.sources import Source
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.types import NUMBERS, CedarType, Kind
from graph_agent.policy.cedar.values import MAX_LONG, MIN_LONG, SCALE
from graph_agent.policy.sourced_values import SourceCount, source_count

FALSE, TRUE = z3.BoolVal(False), z3.BoolVal(True)
_MAX_CHARACTER = 0x2FFFF
"""The last character that the solver knows."""
_LAST_MOMENT = 4_102_444_800_000
"""The year 2100, in milliseconds since 1970."""
_MOMENTS_READ = -62_135_596_800_000, 253_402_300_799_999
"""The first and the last moment that a text can be, of the years 1 to 9999."""
_FACTS = "context.result"

Literals = Mapping[Kind, frozenset[Any]]
"""The constants in conditions, by kind; a decimal times 10,000."""


class Unencodable(Exception):  # noqa: N818 (an answer, not an error)
    """The condition is outside the fragment that is encoded; the text says what is not encoded."""


@dataclass
class SymbolicSet:
    """A set: one variable for each element that conditions name, and one that says that it has some other element."""

    kind: Kind
    name: str
    other: Any
    elements: dict[Any, Any] = field(default_factory=dict)

    @property
    def parts(self) -> list[Any]:
        return [*self.elements.values(), self.other]

    def others_than(self, named: Collection[Any]) -> Any:
        """Return the condition that it has an element that is not one of `named`."""
        return z3.Or([self.other, *(bit for element, bit in self.elements.items() if element not in named)])

    @property
    def is_empty(self) -> Any:
        return z3.Not(z3.Or(self.parts))

    @property
    def size(self) -> Any:
        """The least number of elements."""
        return z3.Sum([z3.If(part, 1, 0) for part in self.parts])


@dataclass(frozen=True)
class Membership:
    """A variable that says that a set has a value of the call, if it is none of the elements that conditions name."""

    group: SymbolicSet
    element: Any
    holds: Any


@dataclass(frozen=True)
class Overlap:
    """Variables about the elements of `part` that no condition names: `group` has all of them, or some."""

    group: SymbolicSet
    part: SymbolicSet
    all: Any
    some: Any


@dataclass(frozen=True)
class Value:
    """A value of a kind: a term of the solver, a set, a list of elements, or the fields of a record with their presence."""

    kind: Kind | str
    term: Any

    def at(self, *path: str) -> Value:
        """Return the value at a path of record fields."""
        value = self
        for name in path:
            value = value.term[name][0]
        return value


class SymbolicCall:
    """The variables of one call of `action`, and the facts about them. Policies that are compared share one."""

    def __init__(
        self,
        action: ToolAction,
        tools: Iterable[str],
        literals: Literals,
        bound_argument: str | None = None,
        roles: Sequence[str] = (),
        *,
        reads_sources: bool = False,
        sourced_apart: bool = False,
    ) -> None:
        """People of `roles` can approve calls.

        With `reads_sources` the sources of the arguments belong to an example; otherwise no condition reads them. With
        `sourced_apart` two policies find other sources of the same call, so that no fact about them is one of both.
        """
        self.action = action
        self.user = z3.String("principal")
        self.roles: dict[str, Any] = {}
        self.variables: dict[str, Any] = {}
        """The terms and sets by their path, in the order in which an example is made small."""
        self.memberships: dict[str, Membership] = {}
        self.overlaps: dict[tuple[str, str], Overlap] = {}
        self.facts: list[Any] = [self.user != z3.StringVal("")]
        self._tools = sorted({*tools})
        self._literals = literals
        self.reads_sources = reads_sources
        self.sourced_apart = sourced_apart
        self._approving = tuple(roles)
        self.context = self._value("context", action.context(self._approving))
        self._add_facts(bound_argument)

    def under(self, action: ToolAction) -> SymbolicCall:
        """Return this call as the conditions of a policy with the tool `action` see it: its server, groups and arguments."""
        if action == self.action:
            return self
        seen = copy(self)
        seen.action = action
        seen.context = _part(self.context, action.context(self._approving))
        return seen

    @property
    def approvals(self) -> list[Any]:
        """The number of people who have approved the call, in each role."""
        return [self.context.at("approvals", role).term for role in self._approving]

    @property
    def without_approvals(self) -> list[Any]:
        """The conditions under which the call has no approval."""
        return [count == 0 for count in self.approvals]

    def approved_by(self, term: Any, number: int) -> Any:
        """Return `term` as if this number of people had approved the call in each role."""
        return z3.substitute(term, [(count, z3.IntVal(number)) for count in self.approvals])

    def fits(self, action: ToolAction) -> Any:
        """Return the condition that the arguments are those of `action`, the tool of one of the policies that are compared."""
        found = [*self._fits(action.arguments, "arguments"), self.facts_fit(action)]
        for name in action.lists:
            length, present = self.context.at("length", name).term, self.is_given(name)
            type_ = next(one.type for one in action.arguments.fields if one.name == name)
            found += [z3.Implies(present, limit) for limit in _bounds(length, type_)]
        hidden, declared = self.context.at("hidden").term, {one.name for one in action.arguments.fields}
        found += [
            self.is_given(name) for name, type_, needed in action.arguments.fields if needed and type_.kind is Kind.HIDDEN
        ]
        if not action.open:
            found += [z3.Not(bit) for name, bit in hidden.elements.items() if name not in declared]
            found.append(z3.Not(hidden.other))
        return conjunction(found)

    def is_bound(self, argument: str) -> Any:
        """Return the condition that an argument has the id of the signed-in user. Raises `Unencodable` if it is no text."""
        value, present = self.context.at("arguments").term.get(argument, (None, FALSE))
        if value is None or value.kind is not Kind.STRING:
            raise Unencodable(f"'{argument}', which is the signed-in user, is no text for conditions")
        return z3.And(present, value.term == self.user)

    def _fits(self, declared: CedarType, *path: str) -> list[Any]:
        found: list[Any] = []
        for name, (value, present) in self.context.at(*path).term.items():
            one = declared.field(name)
            if one is None:
                found.append(z3.Not(present))
                continue
            if one.type.kind is Kind.RECORD:
                found += [z3.Implies(present, part) for part in self._fits(one.type, *path, name)]
            elif one.type.kind is Kind.SET:
                found.append(z3.Implies(present, _has_only(value.term, one.type.item)))
            elif one.type.kind is not Kind.VARIANT:
                found.append(z3.Implies(present, conjunction(_limits(value.term, one.type))))
            if one.required:
                found.append(present)
        return found

    def facts_fit(self, action: ToolAction) -> Any:
        """Return the condition that the facts are those of `action`: the guard refuses a call with others."""
        facts = self.context.term.get("result")
        return TRUE if facts is None or action.result is None else conjunction(list(_read_as(facts[0], action.result)))

    def role(self, name: str) -> Any:
        return self.roles.setdefault(name, z3.Bool(f"principal in {name}"))

    def has(self, group: SymbolicSet, element: Any) -> Any:
        """Return the variable that says that a set has a value that no condition names."""
        name = f"{group.name} has {element}"
        return self.memberships.setdefault(name, Membership(group, element, z3.Bool(name))).holds

    def overlap(self, group: SymbolicSet, part: SymbolicSet) -> Overlap:
        """Return the variables about the elements of `part` that no condition names."""
        if group is part:
            return Overlap(group, part, TRUE, TRUE)
        names = [f"{group.name} has {share} others of {part.name}" for share in ("all", "some")]
        return self.overlaps.setdefault((group.name, part.name), Overlap(group, part, *map(z3.Bool, names)))

    def made(self, part: str, tool: str) -> Any:
        """Return the variable that says that `tool` is in a set of the context: `succeeded` or `attempted`."""
        return self.context.at(part).term.elements.get(tool, FALSE)

    def used(self, window: str, *path: str) -> Any:
        return self.context.at("used", window, *path).term

    def _value(self, name: str, type_: CedarType) -> Value:
        match type_.kind:
            case Kind.RECORD | Kind.VARIANT:
                return Value(
                    Kind.RECORD, {one.name: self._field(name, one) for one in type_.fields if one.type.kind != Kind.HIDDEN}
                )
            case Kind.SET:
                return Value(Kind.SET, self._set(name, type_.item))
        make = {Kind.BOOL: z3.Bool, Kind.STRING: z3.String}.get(type_.kind, z3.Int)
        term = self.variables[name] = make(name)
        self.facts += _moments(term) if type_.kind is Kind.DATETIME and name.startswith(_FACTS) else _limits(term, type_)
        return Value(type_.kind, term)

    def _field(self, name: str, one: Any) -> tuple[Value, Any]:
        path = f"{name}.{one.name}"
        present = TRUE if one.required else self.variables.setdefault(f"{path}?", z3.Bool(f"{path}?"))
        value = self._value(path, one.type)
        if one.type.kind is Kind.VARIANT:
            others = [given for name, (_, given) in value.term.items() if name != "string"]
            # A text may be a number too, and nothing else can be two of the others.
            self.facts += [z3.Implies(present, disjunction([given for _, given in value.term.values()])), z3.AtMost(*others, 1)]
        return value, present

    def _set(self, name: str, item: CedarType | None) -> SymbolicSet:
        assert item is not None
        known: Iterable[Any] = {Kind.ACTION: self._tools, Kind.BOOL: (True, False)}.get(
            item.kind, sorted({*self._literals.get(item.kind, ()), *item.values})
        )
        if name == "context.hidden":
            known = sorted({*known, *(one.name for one in self.action.arguments.fields)})
        closed = item.kind in (Kind.ACTION, Kind.BOOL) or bool(item.values)
        found = SymbolicSet(item.kind, name, FALSE if closed else z3.Bool(f"{name} has another"))
        found.elements = {element: z3.Bool(f"{name} has {element}") for element in known}
        if item.values:
            self.facts += [z3.Not(bit) for element, bit in found.elements.items() if element not in item.values]
        if self.reads_sources or not name.startswith("context.source"):
            self.variables[name] = found
        return found

    def _add_facts(self, bound_argument: str | None) -> None:
        action, arguments = self.action, self.context.at("arguments").term
        for window in WINDOWS:
            calls, writes = self.used(window, "calls"), self.used(window, "writes")
            self.facts.append(writes >= (calls if action.writes else 0))
            for name, _, _ in action.numbers:
                number, present = self._number(name)
                added = z3.If(z3.And(present, number > 0), number, 0)
                before = self.used(window, "sum", name) - added
                self.facts += [before >= 0, z3.Implies(before > 0, calls > 1)]
        for inner, outer in pairwise(WINDOWS):
            paths = [("calls",), ("writes",), *(("sum", name) for name, _, _ in action.numbers)]
            # What was counted before, of all tools, is in the larger window too.
            self.facts += [self.used(inner, *path) <= self.used(outer, *path) for path in paths]
        self.facts.append(z3.Implies(self.used("message", "calls") > 1, self.made("attempted", action.name)))
        self.facts += [z3.Implies(self.made("succeeded", tool), self.made("attempted", tool)) for tool in self._tools]
        self._add_facts_of_lists(arguments)
        self._add_facts_of_domains(arguments)
        if self.reads_sources and not self.sourced_apart:
            self.facts += self.source_facts(action, bound_argument)
        hidden = self.context.at("hidden").term
        for declared in action.arguments.fields:
            if declared.name in action.seen_arguments and declared.type.kind is Kind.HIDDEN:
                # Paths may show all of it, or a part.
                self.facts.append(z3.Implies(hidden.elements[declared.name], self.is_given(declared.name)))
            elif declared.type.kind is Kind.HIDDEN and declared.required:
                self.facts.append(hidden.elements[declared.name])
            elif declared.type.kind not in (Kind.HIDDEN, Kind.RECORD):
                self.facts.append(z3.Not(hidden.elements[declared.name]))
        declared_names = {one.name for one in action.arguments.fields}
        if not action.open:
            self.facts += [z3.Not(bit) for name, bit in hidden.elements.items() if name not in declared_names]
            self.facts.append(z3.Not(hidden.other))
        if bound_argument is not None and bound_argument in arguments:
            value, present = arguments[bound_argument]
            if value.kind is Kind.STRING:
                self.facts += [present, value.term == self.user]

    def _number(self, name: str) -> tuple[Any, Any]:
        """Return the number of an argument, and whether it has one: it may be an alternative of its type."""
        value, present = self.context.at("arguments").term[name]
        if value.kind is not Kind.RECORD:
            return value.term, present
        number, is_number = next(value.term[kind.lower()] for kind in NUMBERS if kind.lower() in value.term)
        return number.term, z3.And(present, is_number)

    def _add_facts_of_lists(self, arguments: dict[str, Any]) -> None:
        for name in self.action.lists:
            length, present = self.context.at("length", name).term, self.is_given(name)
            self.facts.append(z3.Implies(z3.Not(present), length == 0))
            if name in arguments:
                value, _ = arguments[name]
                self.facts.append(z3.Implies(present, (length == 0) == value.term.is_empty))
                self.facts.append(z3.Implies(present, length >= value.term.size))
            type_ = next(one.type for one in self.action.arguments.fields if one.name == name)
            self.facts += [z3.Implies(present, limit) for limit in _bounds(length, type_)]

    def is_given(self, argument: str) -> Any:
        """Return the condition that a call has an argument: a hidden one is among those that conditions cannot see."""
        given = self.context.at("arguments").term.get(argument)
        if given is not None:
            return given[1]
        if argument not in self.action.seen_arguments:
            return self.context.at("hidden").term.elements[argument]
        declared = self.action.arguments.field(argument)
        name = f"context.arguments.{argument}?"
        return TRUE if declared is not None and declared.required else self.variables.setdefault(name, z3.Bool(name))

    def _add_facts_of_domains(self, arguments: dict[str, Any]) -> None:
        for name in self.action.texts:
            (value, present), hosts = arguments[name], self.context.at("domain", name).term
            self.facts.append(z3.Implies(z3.Not(present), hosts.is_empty))
            if value.kind is Kind.STRING:
                self.facts.append(z3.Implies(present, z3.And(z3.AtLeast(*hosts.parts, 1), z3.AtMost(*hosts.parts, 1))))
            else:
                self.facts.append(z3.Implies(present, hosts.is_empty == value.term.is_empty))
                self.facts.append(z3.Implies(present, self.context.at("length", name).term >= hosts.size))

    def source_facts(self, action: ToolAction, bound_argument: str | None) -> list[Any]:
        """Return the facts about the sources that are found for a call of `action`."""
        tainted, united = self.context.at("tainted").term, self.context.at("sources").term
        arguments = self.context.at("arguments").term
        found = {name: self.context.at("source", name).term for name in action.sourced}
        # An argument that the schema does not declare, or that conditions cannot name, has a source too.
        complete = not action.open and len(found) == len(action.arguments.fields)
        parts = {part: self.context.at("source", part.name).term for part in action.source_parts}
        foreign = [
            bit
            for one in (united, *found.values(), *parts.values())
            for label, bit in one.elements.items()
            if label not in tuple(Source)
        ]
        facts = [z3.Not(disjunction(foreign))]
        for label, bit in united.elements.items():
            of_arguments = disjunction([one.elements[label] for one in found.values()])
            facts.append(bit == of_arguments if complete else z3.Implies(of_arguments, bit))
        for part, labels in parts.items():
            # What a path selects is in the argument.
            whole = found.get(part.argument, united)
            facts += [z3.Implies(labels.elements[label], whole.elements[label]) for label in Source]
        untrusted = [one.elements[Source.UNTRUSTED] for one in (united, *found.values())]
        facts.append(z3.Implies(z3.Not(tainted), z3.Not(disjunction(untrusted))))
        for declared in action.arguments.fields:
            if (labels := found.get(declared.name)) is None:
                continue
            count = SourceCount.NONE if declared.name == bound_argument else source_count(declared.type)
            if not action.writes:
                # The runtime reads too, for other calls: an argument of its reads has all the sources of such a call.
                count = SourceCount.ANY
            if count is SourceCount.NONE:
                facts.append(labels.is_empty)
            elif declared.name in arguments:
                value, present = arguments[declared.name]
                facts.append(z3.Implies(z3.Not(present), labels.is_empty))
                if count is SourceCount.ONE:
                    facts.append(z3.Implies(present, z3.PbEq([(part, 1) for part in labels.parts], 1)))
                elif count is SourceCount.EACH:
                    facts.append(z3.Implies(present, labels.is_empty == value.term.is_empty))
        return facts

    @property
    def source_variables(self) -> dict[str, Any]:
        """The variables about sources, by a name that says which: "tainted", "sources user", "source.to model"."""
        sets = {"sources": self.context.at("sources").term}
        sets |= {f"source.{name}": value.term for name, (value, _) in self.context.at("source").term.items()}
        bits = {f"{name} {label}": bit for name, one in sets.items() for label, bit in one.elements.items()}
        return {"tainted": self.context.at("tainted").term, **bits}

    def as_found_before(self, term: Any) -> Any:
        """Return `term` about the sources that the old one of two policies finds, which are variables of their own."""
        if not self.sourced_apart:
            return term
        return z3.substitute(term, [(bit, z3.Bool(f"old {name}")) for name, bit in self.source_variables.items()])


def _read_as(value: Value, type_: CedarType) -> Iterator[Any]:
    """Yield the conditions under which the guard reads a record of facts as `type_`: else it refuses the call."""
    for name, part, required in type_.fields:
        found, present = value.term[name]
        if required:
            yield present
        if part.kind is Kind.RECORD:
            yield from (z3.Implies(present, one) for one in _read_as(found, part))
        elif part.kind is Kind.SET:
            yield z3.Implies(present, _has_only(found.term, part.item))
        elif part.kind is not Kind.DATETIME:
            yield z3.Implies(present, conjunction(_limits(found.term, part)))


def _has_only(group: SymbolicSet, item: CedarType | None) -> Any:
    """Return the condition that the elements of a set are the values that `item` has, if it names them."""
    if item is None or not item.values:
        return TRUE
    outside = [bit for element, bit in group.elements.items() if element not in item.values]
    return z3.Not(disjunction([group.other, *outside]))


def _part(value: Value, type_: CedarType) -> Value:
    """Return the part of a record that `type_` declares."""
    if type_.kind is not Kind.RECORD:
        return value
    if value.kind is not Kind.RECORD:
        return Value(Kind.RECORD, {})  # a fact of which only the presence is asked for
    declared = (one for one in type_.fields if one.name in value.term)
    return Value(value.kind, {name: (_part(value.term[name][0], part), value.term[name][1]) for name, part, _ in declared})


def _limits(term: Any, type_: CedarType) -> list[Any]:
    if type_.kind is Kind.DATETIME:
        return [term >= 0, term < _LAST_MOMENT]
    if type_.kind is Kind.STRING:
        allowed = [z3.Or([term == text(str(value)) for value in type_.values])] if type_.values else []
        return [*allowed, *_bounds(z3.Length(term), type_)]
    if type_.kind is Kind.BOOL:
        return []
    allowed = [z3.Or([term == value for value in type_.values])] if type_.values else []
    return [term >= MIN_LONG, term <= MAX_LONG, *allowed, *_bounds(term, type_, SCALE if type_.kind is Kind.DECIMAL else 1)]


def _moments(term: Any) -> list[Any]:
    """Return the limits of a time in a fact."""
    first, last = _MOMENTS_READ
    return [term >= first, term <= last]


def _bounds(term: Any, type_: CedarType, scale: int = 1) -> list[Any]:
    low = [] if type_.low is None else [term >= math.floor(type_.low * scale)]
    return low if type_.high is None else [*low, term <= math.ceil(type_.high * scale)]


def text(value: str) -> Any:
    """Return a constant text. Raises `Unencodable` for a character that the solver does not know."""
    if any(ord(character) > _MAX_CHARACTER for character in value):
        raise Unencodable("a character beyond U+2FFFF")
    return z3.StringVal(value.replace("\\", "\\u{5c}"))


def constant(value: str | int) -> Any:
    """Return an element of a set as a term. Raises `Unencodable`."""
    return text(value) if isinstance(value, str) else z3.IntVal(value)


def conjunction(terms: Sequence[Any]) -> Any:
    return z3.And([TRUE, *terms])


def disjunction(terms: Sequence[Any]) -> Any:
    return z3.Or([FALSE, *terms])
