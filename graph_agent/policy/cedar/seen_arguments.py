"""The parts of arguments that conditions see only through facts, such as `sku` in `arguments $.lines[*].sku`.

Conditions do not see inside a list of objects. A path shows them what it selects there, and an argument is no longer hidden
once paths show all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graph_agent.policy.argument_parts import Location, places_of
from graph_agent.policy.cedar import values
from graph_agent.policy.cedar.declared_facts import DeclaredFacts
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.types import CedarType, Kind
from graph_agent.policy.fact_errors import UnreadableError


def hidden_arguments(declared: DeclaredFacts, action: ToolAction, arguments: dict[str, Any]) -> list[str]:
    """Return the arguments of a call that conditions cannot see, in whole or in part, sorted."""
    found = values.unseen(action.arguments, arguments)
    if not found or not action.seen:
        return found
    shown = set(_shown(declared, action.name, arguments))
    return [
        name
        for name in found
        if name not in action.seen_arguments
        or not all(_is_covered(place, shown) for place in _unseen(action.arguments.field(name), arguments[name], (name,)))
    ]


def _shown(declared: DeclaredFacts, tool_name: str, arguments: dict[str, Any]) -> Iterator[Location]:
    """Yield the places whose whole value conditions see through a fact."""
    types = declared.types.get(tool_name, {})
    for fact in declared.of_tool.get(tool_name, ()):
        if fact.name not in types or fact.fold is not None or not declared.is_of_arguments(fact):
            continue
        try:
            places = places_of(declared.declared, fact, arguments)
        except UnreadableError:
            # The call is refused, because the fact is not known.
            continue
        for place, value in places:
            yield from _read(types[fact.name], value, place)


def _read(type_: CedarType, value: Any, place: Location) -> Iterator[Location]:
    """Yield the places in a fact whose values conditions read; of an object only the fields that they name."""
    if type_.kind is not Kind.RECORD:
        yield place
    elif isinstance(value, dict):
        for name, part, _ in type_.fields:
            if name in value:
                yield from _read(part, value[name], (*place, name))


def _unseen(field: Any, value: Any, place: Location) -> Iterator[Location]:
    """Yield the places of what the type of an argument does not show."""
    if field is None or field.type.kind is Kind.HIDDEN:
        yield from () if value == [] else _leaves(value, place)
    elif field.type.kind is Kind.RECORD and isinstance(value, dict):
        for name, part in value.items():
            if part is not None:
                yield from _unseen(field.type.field(name), part, (*place, name))


def _leaves(value: Any, place: Location) -> Iterator[Location]:
    """Yield the places of the simple values in a value. An object without fields in a list has nothing to show."""
    parts: Mapping[str | int, Any] = {}
    if isinstance(value, dict | list):
        parts = value if isinstance(value, dict) else dict(enumerate(value))
    if not parts:
        yield from () if isinstance(value, dict) and isinstance(place[-1], int) else [place]
    for name, part in parts.items():
        if part is not None:
            yield from _leaves(part, (*place, name))


def _is_covered(place: Location, shown: set[Location]) -> bool:
    return any(place[:length] in shown for length in range(1, len(place) + 1))
