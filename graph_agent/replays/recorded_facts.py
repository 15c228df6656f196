"""The facts of a recorded decision, for a what-if replay under other conditions: what was not read is undecidable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graph_agent.errors import GraphAgentError
from graph_agent.models.facts import FactRead, Selected
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.facts import Fact

if TYPE_CHECKING:
    # Only named in signatures: it imports Cedar, which belongs to an extra.
    from graph_agent.policy.cedar.declared_facts import DeclaredFacts


class NoRecordedAnswerError(GraphAgentError):
    """The turn requests something that the record has no answer to; the message says what."""


class RecordedFacts:
    """The facts of a record that other conditions name."""

    def __init__(self, recorded: DeclaredFacts | None, conditions: Conditions | None) -> None:
        """`recorded` are the facts that the recorded conditions name, `conditions` are the other ones."""
        self._recorded = recorded
        self._declared = None if conditions is None else conditions.results

    def read(self, tool_name: str, read: FactRead | None) -> FactRead:
        """Return what the other conditions see of a recorded read. Raises `NoRecordedAnswerError`."""
        order = () if self._declared is None else self._declared.order
        facts = [fact for fact in order if tool_name in fact.tools and fact.kind == "read"]
        if read is None:
            raise self._not_read(facts[0]) if facts else NoRecordedAnswerError(f"this decision did not read {tool_name}")
        if read.error is not None or read.is_absent:
            return read
        found = self._seen(facts, read)
        restored = {place: value for place, value in read.values.items() if place.startswith("$")}
        missing = {place: why for place, why in read.failed.items() if place.startswith("$")}
        return read.replace(values={**found.values, **restored}, failed={**found.failed, **missing})

    def last(self, recorded: Mapping[str, Selected] | None) -> dict[str, Selected] | None:
        """Return what the other conditions see of the newest results. Raises `NoRecordedAnswerError`."""
        if self._declared is None or not self._declared.last:
            return None
        found = {}
        for fact in self._declared.last:
            known = self._same(fact)
            if recorded is None or known is None:
                raise self._not_read(fact)
            if known.name in recorded:
                found[fact.name] = self._seen([fact], recorded[known.name])
        return found

    def _seen(self, roots: list[Fact], read: Selected) -> Selected:
        found = Selected()
        if self._declared is None:
            return found
        names = dict.fromkeys(name for root in roots for name in self._declared.parts_of(root))
        for fact in self._declared.order:
            if fact.name not in names:
                continue
            known = self._same(fact)
            if known is None or not _covers(self._kept(known), self._declared.named.get(fact.name, {})):
                raise self._not_read(fact)
            if known.name in read.failed:
                found.failed[fact.name] = read.failed[known.name]
            elif known.name in read.values:
                found.values[fact.name] = read.values[known.name]
        return found

    def _same(self, fact: Fact) -> Fact | None:
        """Return the recorded fact that is declared in the same way, under this or another name."""
        if self._recorded is None:
            return None
        assert self._declared is not None
        own = _origin(self._declared, fact)
        return next((one for one in self._recorded.order if _origin(self._recorded, one) == own), None)

    def _kept(self, fact: Fact) -> Mapping[str, Any]:
        assert self._recorded is not None
        return self._recorded.named.get(fact.name, {})

    def _not_read(self, fact: Fact) -> NoRecordedAnswerError:
        assert self._declared is not None
        named = next(_paths(self._declared.named.get(fact.name, {}), fact.name))
        return NoRecordedAnswerError(f"undecidable: this decision did not read {named}")


def _origin(declared: DeclaredFacts, fact: Fact) -> tuple[Any, ...]:
    """Return where the value of a fact comes from, whatever the names of the facts are."""
    of = declared.declared.get(fact.of)
    return (
        fact.kind,
        fact.tools,
        None if of is None else _origin(declared, of),
        fact.path,
        fact.fold,
        fact.parameters if fact.kind == "product" else (),
    )


def _covers(kept: Mapping[str, Any], named: Mapping[str, Any]) -> bool:
    return all(name in kept and _covers(kept[name], part) for name, part in named.items())


def _paths(named: Mapping[str, Any], path: str) -> Iterator[str]:
    if not named:
        yield path
    for name, part in named.items():
        yield from _paths(part, f"{path}.{name}")
