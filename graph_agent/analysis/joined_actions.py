"""One action for the calls of two: a tool as two policies see it, or as a policy and promises about it do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from graph_agent.analysis.symbols import Unencodable
from graph_agent.policy.cedar.fact_types import PRESENCE
from graph_agent.policy.cedar.schema import ToolAction
from graph_agent.policy.cedar.types import CedarType, Field, Kind

_RESULT = "context.result"


def joined(before: ToolAction, after: ToolAction) -> ToolAction:
    """Return the action whose calls are those of both. Raises `Unencodable` if a condition would see a value in two ways."""
    if before == after:
        return after
    for closed, opened in ((before, after), (after, before)):
        only = [one.name for one in closed.arguments.fields if opened.arguments.field(one.name) is None]
        if opened.open and (seen := [name for name in only if closed.arguments.field(name).type.kind is not Kind.HIDDEN]):  # type: ignore[union-attr]
            raise Unencodable(f"conditions see '{seen[0]}' under one schema only")
    parts = {part.name: part for part in (*before.source_parts, *after.source_parts)}
    if otherwise := [one.name for one in (*before.source_parts, *after.source_parts) if parts[one.name] != one]:
        raise Unencodable(f"the fact '{otherwise[0]}' is declared otherwise")
    return replace(
        after,
        source_parts=tuple(parts[name] for name in sorted(parts)),
        arguments=_union(before.arguments, after.arguments),
        result=_union(before.result or PRESENCE, after.result or PRESENCE, _RESULT),
        open=before.open or after.open,
        writes=before.writes and after.writes,
        seen=before.seen | after.seen,
    )


def _union(before: CedarType, after: CedarType, path: str = "") -> CedarType:
    """Return the type of the values of both types. Raises `Unencodable`."""
    if before == after:
        return after
    if path.startswith(f"{_RESULT}.") and PRESENCE in (before, after):
        # Of a fact of which only the presence is asked for, the other side knows the type.
        return _of_one(before if after == PRESENCE else after)
    kinds = {before.kind, after.kind}
    if kinds != {after.kind} or after.kind is Kind.VARIANT or before.is_list is not after.is_list:
        raise Unencodable(f"the type of '{path}' changed" if path else "the type of its arguments changed")
    low = None if before.low is None or after.low is None else min(before.low, after.low)
    high = None if before.high is None or after.high is None else max(before.high, after.high)
    if after.kind is Kind.HIDDEN:
        return replace(after, low=low, high=high)
    if after.kind is Kind.RECORD:
        names = dict.fromkeys(one.name for type_ in (after, before) for one in type_.fields)
        return replace(after, fields=tuple(_union_field(name, before, after, path) for name in names))
    if after.kind is Kind.SET and path.startswith(_RESULT) and (before.low, before.high) != (after.low, after.high):
        raise Unencodable(f"the limits of '{path}' changed")
    item = after.item
    if item is not None and before.item is not None:
        item = _union(before.item, item, path)
    values = tuple(dict.fromkeys([*before.values, *after.values])) if before.values and after.values else ()
    return CedarType(after.kind, values, low, high, item)


def _of_one(fact: CedarType) -> CedarType:
    """Return the type of a fact that one side reads, without limits: the other side refuses none of its values."""
    if fact.kind is Kind.RECORD:
        return replace(fact, fields=tuple(one._replace(type=_of_one(one.type)) for one in fact.fields))
    return replace(fact, values=(), low=None, high=None, item=None if fact.item is None else _of_one(fact.item))


def unread_parts(before: CedarType, after: CedarType, path: str = "") -> Iterator[str]:
    """Yield the facts, and the fields of facts, whose value `before` reads and `after` does not."""
    for name, part, _ in before.fields:
        where, other = f"{path}.{name}" if path else name, after.field(name)
        if other is None or (other.type == PRESENCE != part):
            yield where
        elif part.kind is Kind.RECORD:
            yield from unread_parts(part, other.type, where)


def _union_field(name: str, before: CedarType, after: CedarType, path: str) -> Field:
    one, other = before.field(name), after.field(name)
    if one is None or other is None:
        alone = one or other
        assert alone is not None
        return Field(name, _of_one(alone.type) if path.startswith(_RESULT) else alone.type, required=False)
    return Field(name, _union(one.type, other.type, f"{path}.{name}" if path else name), one.required and other.required)
