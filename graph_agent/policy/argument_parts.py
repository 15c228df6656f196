"""The parts of a call's arguments that facts select, such as `arguments $.payments[*].card`: their values, and their sources.

Conditions name the sources of such a part as `context.source.NAME`, where no argument has this name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from graph_agent.policy.facts import ARGUMENTS, Fact, FactKind

Location: TypeAlias = tuple[str | int, ...]
"""The names and positions that lead to a value in the arguments of a call."""


class ArgumentPart(NamedTuple):
    """A part of one argument of a tool whose sources conditions read."""

    name: str
    """The name of the fact."""
    argument: str
    path: str
    """The path in the arguments, such as `$.payments[*].card`; of a part of a part, both paths."""


def parts_of(declared: Mapping[str, Fact], names: Iterable[str], arguments: Collection[str]) -> tuple[ArgumentPart, ...]:
    """Return the parts with these names, sorted, that a call with these arguments can have."""
    found = []
    for name in sorted({*names} - {*arguments}):
        chain = [*_chain(declared, name)]
        root = chain[-1] if chain else None
        if root is None or root.of != ARGUMENTS or root.selection is None or root.selection.first is None:
            continue
        if all(fact.arguments <= {*arguments} for fact in chain):
            found.append(ArgumentPart(name, root.selection.first, " ".join(fact.path for fact in reversed(chain))))
    return tuple(found)


def places_of(declared: Mapping[str, Fact], fact: Fact, arguments: dict[str, Any]) -> list[tuple[Location, Any]]:
    """Return the values that a part of the arguments selects, with their places. Raises `UnreadableError`."""
    if fact.of == ARGUMENTS:
        is_given = fact.selection is not None and fact.arguments <= arguments.keys()
        return fact.selection.places(arguments, arguments) if is_given and fact.selection is not None else []
    whole = declared[fact.of]
    within = places_of(declared, whole, arguments)
    if fact.selection is None or whole.fold is not None or not within:
        return []
    if not whole.is_set:
        ((place, value),) = within
        return [((*place, *rest), found) for rest, found in fact.selection.places(value, arguments)]
    selected = fact.selection.places([value for _, value in within], arguments)
    return [((*within[int(rest[0])][0], *rest[1:]), found) for rest, found in selected if rest]


def _chain(declared: Mapping[str, Fact], name: str) -> Iterator[Fact]:
    """Yield a fact and those that it is a part of, up to the arguments or what was read."""
    while (fact := declared.get(name)) is not None and fact.kind is FactKind.PART:
        yield fact
        name = fact.of
