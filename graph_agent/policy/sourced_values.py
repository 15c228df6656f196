"""The values of an argument that have a source. The finder looks up these and no others, and proofs rely on it.

A switch and a choice of the schema have none: their values say nothing about where they come from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from graph_agent.policy.cedar.types import NUMBERS, CedarType, Kind


class SourceCount(StrEnum):
    """The number of sources that a given argument of a type has."""

    NONE = "none"
    ONE = "one"
    EACH = "at least one, unless the list is empty"
    ANY = "any number"
    """As many as the values inside have, if there are any."""


KEY: Final = CedarType(Kind.STRING)
"""The type of a key of an object."""


class SourcedValue(NamedTuple):
    """A value within an argument."""

    item: int
    """Its position among all values of the argument."""
    key: str
    """The name of the field that it belongs to."""
    value: Any
    type: CedarType | None


def source_count(type_: CedarType) -> SourceCount:
    """Return how many sources an argument of a type has, if a call has the argument."""
    if type_.kind is Kind.BOOL or type_.values:
        return SourceCount.NONE
    if type_.kind in (Kind.STRING, *NUMBERS):
        return SourceCount.ONE
    if type_.kind is Kind.SET and type_.item is not None:
        return SourceCount.EACH if source_count(type_.item) is SourceCount.ONE else SourceCount.NONE
    return SourceCount.ANY


def sourced_values(name: str, value: Any, type_: CedarType | None, declared: Collection[str]) -> Iterator[SourcedValue]:
    """Yield the values of an argument that have a source. `declared` are the keys of objects that its schema declares."""
    if type_ is not None and source_count(type_) is SourceCount.NONE:
        return
    for item, (key, one, of) in enumerate(values_of(name, value, type_)):
        if not (_is_chosen(one, of) or (of is KEY and one in declared)):
            yield SourcedValue(item, key, one, of)


def values_of(key: str, value: Any, type_: CedarType | None = None) -> Iterator[tuple[str, Any, CedarType | None]]:
    """Yield every value within an argument, with its name and its type. The keys of an object are values too.

    Null is the absence of a value, but for an element of a list: the call has it.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            field = None if type_ is None else type_.field(name)
            yield key, name, KEY
            yield from values_of(name, part, None if field is None else field.type)
    elif isinstance(value, list):
        for part in value:
            item = None if type_ is None else type_.item
            yield from [(key, None, item)] if part is None else values_of(key, part, item)
    elif value is not None:
        yield key, value, type_


def _is_chosen(value: Any, type_: CedarType | None) -> bool:
    """True for a switch, and for a choice of the schema."""
    options = [] if type_ is None else [one.type for one in type_.fields] if type_.kind is Kind.VARIANT else [type_]
    return isinstance(value, bool) or any(value in one.values for one in options)
