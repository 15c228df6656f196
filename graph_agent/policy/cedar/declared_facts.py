"""The facts of a file, joined with the tools that they come from and the conditions that name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cedarpy import pst

from graph_agent.models.canonical import canonical_json
from graph_agent.policy.cedar.fact_problems import problem_of
from graph_agent.policy.cedar.fact_types import RESULT, FactTypes
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.syntax import Reads, covers
from graph_agent.policy.cedar.types import CedarType, Field, Kind
from graph_agent.policy.fact_errors import FactError
from graph_agent.policy.facts import ARGUMENTS, PRINCIPAL, Fact, FactKind, ordered, usable


class DeclaredFacts:
    """The facts that the conditions of a file name.

    What does not fit the tools is a problem and no error: a server may be away, and then only the calls are refused whose
    conditions name the fact.
    """

    def __init__(
        self, by_key: Mapping[str, pst.Template], actions: Mapping[str, ToolAction], declared: Mapping[str, Fact]
    ) -> None:
        """`by_key` are the conditions in the order of the file, `declared` the facts of the constitution by name."""
        self._by_key, self._actions = by_key, actions
        self.declared = declared
        self.order: Sequence[Fact] = ()
        """The facts that conditions name and those that they need, each after those that it needs."""
        self.types: dict[str, Mapping[str, CedarType]] = {}
        """By tool, the types of the facts that the conditions about it name."""
        self.named: dict[str, dict[str, Any]] = {}
        """The fields of each fact that a condition or another fact names, as a tree: only they are kept and recorded."""
        self.problems: dict[str, FactError] = {}
        """Why facts cannot be read here, by name."""
        self.of_tool: Mapping[str, Sequence[Fact]] = {}
        """The facts that the conditions about each tool name, and those that they need, in the order in which they are read."""
        self.problem: FactError | None = None
        """Why no fact can be read here."""
        self.of_types: dict[str, FactError] = {}
        """By tool, why its conditions cannot use the facts that they name."""
        reads = {name: Reads([condition.clauses]) for name, condition in by_key.items()}
        self.conditions = frozenset(name for name, one in reads.items() if one.names(RESULT))
        """The conditions that name facts."""
        if not self.conditions:
            return
        first = {path[0]: key for key in reversed([*by_key]) for path in reads[key].below(RESULT)}
        for name, key in first.items():
            try:
                self._ordered([name])
            except FactError as exc:
                self.problem = exc if exc.fact else FactError(str(exc), key)
                return
        self.order = self._ordered(first)
        for name, action in actions.items():
            about = {key: one for key, one in by_key.items() if key in self.conditions and covers(one, action)}
            try:
                self.types[name] = FactTypes(about, self._ordered, action, actions).types
            except FactError as exc:
                self.of_types[name] = exc
        self._name_fields()
        for fact in self.order:
            if (why := problem_of(fact, self._actions)) is not None:
                self.problems[fact.name] = FactError(f"the fact '{fact.name}': {why}", fact=fact.name)
        self.of_tool = {name: facts for name, action in actions.items() if (facts := self._facts_of(action))}

    @property
    def last(self) -> list[Fact]:
        """The facts that are the newest result of a tool."""
        return [fact for fact in self.order if fact.kind is FactKind.LAST]

    def read_by(self, tool_name: str) -> set[str]:
        """Return the tools that are read for the calls of a tool."""
        return {fact.tools[0] for fact in self.of_tool.get(tool_name, ()) if fact.kind is FactKind.READ}

    def filled_by_user(self, tool_name: str) -> set[str]:
        """Return the parameters of a tool that its reads fill with the id of the user."""
        reads = [fact for fact in self.order if fact.kind is FactKind.READ and fact.tools == (tool_name,)]
        return {name for fact in reads for name, source in fact.parameters if source.root == PRINCIPAL}

    def parts_of(self, fact: Fact) -> list[str]:
        """Return the names of a fact and of those that are parts of it."""
        found = [fact.name]
        for other in self.order:
            if other.of in found:
                found.append(other.name)
        return found

    def is_of_arguments(self, fact: Fact) -> bool:
        """True if a fact is a part of the arguments of the call, and no result is read for it."""
        return fact.of == ARGUMENTS or (fact.of in self.declared and self.is_of_arguments(self.declared[fact.of]))

    def first_problem(self) -> FactError | None:
        """Return the first reason for which a fact cannot be read here."""
        return self.problem or next(iter([*self.of_types.values(), *self.problems.values()]), None)

    def actions(self) -> dict[str, ToolAction]:
        """Return the actions with the facts that their calls can have."""
        if not self.conditions:
            return dict(self._actions)
        return {
            name: replace(action, result=self._result_type(action), seen=self._seen(name))
            for name, action in self._actions.items()
        }

    def _ordered(self, names: Iterable[str]) -> list[Fact]:
        return ordered(self.declared, names)

    def _name_fields(self) -> None:
        for types in self.types.values():
            for name, type_ in types.items():
                _named_parts(type_, self.named.setdefault(name, {}))
        for fact in self.order:
            for _, source in fact.parameters:
                if source.root not in (ARGUMENTS, PRINCIPAL):
                    at = self.named.setdefault(source.root, {})
                    for step in source.steps:
                        at = at.setdefault(step, {})

    def _result_type(self, action: ToolAction) -> CedarType:
        types, possible = self.types.get(action.name, {}), self._possible(action)
        return CedarType(
            Kind.RECORD, fields=tuple(Field(name, types[name], False) for name in sorted(types) if name in possible)
        )

    def _seen(self, tool_name: str) -> frozenset[tuple[str, str, str]]:
        found: set[tuple[str, str, str]] = set()
        types = self.types.get(tool_name, {})
        for fact in self.of_tool.get(tool_name, ()):
            if fact.name in types and fact.fold is None and self.is_of_arguments(fact):
                whole, path = fact, fact.path
                while whole.of != ARGUMENTS:
                    whole = self.declared[whole.of]
                    path = f"{whole.path} {path}"
                read = canonical_json(_named_parts(types[fact.name], {}))
                found.update((argument, path, read) for argument in whole.arguments)
        return frozenset(found)

    def _possible(self, action: ToolAction) -> set[str]:
        """Return the facts that a call of a tool can have: it has the arguments that they are made from."""
        return usable(self.order, {one.name for one in action.arguments.fields})

    def _facts_of(self, action: ToolAction) -> Sequence[Fact]:
        return ordered(self.declared, self.types.get(action.name, {}).keys() & self._possible(action))


def _named_parts(type_: CedarType, named: dict[str, Any]) -> dict[str, Any]:
    """Return the tree `named`, to which the names of the fields of a record, and of the records in it, are added."""
    for name, part, _ in type_.fields if type_.kind is Kind.RECORD else ():
        _named_parts(part, named.setdefault(name, {}))
    return named
