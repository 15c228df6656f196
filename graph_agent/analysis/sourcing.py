"""The sources that two policies find for the same call: what they depend on, and what the old ones say about the new ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import z3

from graph_agent.analysis.symbols import SymbolicCall
from graph_agent.models.sources import Source
from graph_agent.policy.cedar.types import CedarType
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.schema.keywords import walk
from graph_agent.policy.schema.upgrade import upgraded


@dataclass(frozen=True)
class Sourcing:
    """Everything beside a conversation on which the sources of a tool's arguments depend."""

    trusted: frozenset[str]
    """The tools whose results are trusted."""
    types: dict[str, CedarType]
    """The types of the arguments, without limits."""
    keys: frozenset[str]
    """The keys of objects that the schema declares."""
    own: tuple[str | None, bool]
    """The argument that is the user, and whether `user_id` is an argument like any other."""

    @classmethod
    def of(cls, policy: CompiledPolicy, tool: str) -> Sourcing:
        rule = policy.rules[tool]
        types = {
            one.name: _unlimited(one.type)
            for action in policy.actions
            if action.name == tool
            for one in action.arguments.fields
        }
        keys = frozenset(key for _, part in walk(upgraded(rule.declaration.parameters)) for key in part.get("properties", ()))
        return cls(trusted_tools(policy), types, keys, (rule.grant.bound_argument, rule.takes_user_id))


def trusted_tools(policy: CompiledPolicy) -> frozenset[str]:
    return frozenset(name for name, rule in policy.rules.items() if rule.grant.trusted_results)


def in_both(old: CompiledPolicy, new: CompiledPolicy, tool: str) -> tuple[Sourcing, Sourcing]:
    """Return how both policies find the sources of a tool's calls: from the results of tools that both of them have."""
    shared = old.rules.keys() & new.rules.keys()
    one, other = (Sourcing.of(policy, tool) for policy in (old, new))
    return replace(one, trusted=one.trusted & shared), replace(other, trusted=other.trusted & shared)


def relations(call: SymbolicCall, before: Sourcing, after: Sourcing) -> list[Any]:
    """Return what is true of the sources that both find for one call in one conversation."""
    new = call.source_variables
    old = {name: call.as_found_before(bit) for name, bit in new.items()}
    if before.trusted == after.trusted:
        same = [name for name, type_ in after.types.items() if before == after or _is_alike(before, after, name, type_)]
        same += [part.name for part in call.action.source_parts if part.argument in same]
        equal = ["tainted", *(f"source.{name} {label}" for name in same for label in Source)]
        return [old[name] == new[name] for name in equal if name in new]
    if before.trusted < after.trusted:
        return _as_stricter(old, new)
    return _as_stricter(new, old) if after.trusted < before.trusted else []


def _as_stricter(strict: dict[str, Any], lax: dict[str, Any]) -> list[Any]:
    """Return the relations if the strict side trusts fewer tools: more is tainted, and less is the user's."""
    found = [z3.Implies(lax["tainted"], strict["tainted"])]
    for place in sorted({name.rpartition(" ")[0] for name in strict if name != "tainted"}):
        users = lax[f"{place} {Source.USER}"]
        found.append(z3.Implies(strict[f"{place} {Source.USER}"], users))
        # After a foreign text, a short value is not the user's.
        found += [
            z3.Implies(strict[f"{place} {label}"], z3.Or(lax[f"{place} {label}"], users))
            for label in (Source.TRUSTED, Source.MODEL)
        ]
    return found


def _is_alike(before: Sourcing, after: Sourcing, name: str, type_: CedarType) -> bool:
    return before.types.get(name) == type_ and before.keys == after.keys and name not in {before.own[0], after.own[0]}


def _unlimited(type_: CedarType) -> CedarType:
    item = None if type_.item is None else _unlimited(type_.item)
    fields = tuple(one._replace(type=_unlimited(one.type), required=True) for one in type_.fields)
    return replace(type_, low=None, high=None, item=item, fields=fields)
