"""The reads that the runtime makes for conditions, before a call is judged whose conditions name facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graph_agent.graph.authorized import read_for_facts
from graph_agent.graph.ports import FactPorts
from graph_agent.models.canonical import canonical_json
from graph_agent.models.facts import FactRead, Facts, Selected, ShownFact
from graph_agent.models.sources import CallSources
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import Situation
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import AuthorizedCall, judge_fact_read
from graph_agent.policy.past_call import PastCall

if TYPE_CHECKING:
    # Only named in signatures: they import Cedar, which belongs to an extra.
    from graph_agent.policy.cedar.fact_values import CallFacts
    from graph_agent.policy.cedar.facts import Fact

MAX_READS = 60
"""The reads for conditions in one turn, also those for calls that are then refused."""
_TOO_MANY = "this message has read as much as it may"


@dataclass
class FactReader:
    """Reads the facts of calls of one user. A result is kept until a change is reported."""

    policy: CompiledPolicy
    ports: FactPorts
    user_id: str
    decision_id: str
    roles: tuple[str, ...] = ()
    facts: Facts | None = None
    of_message: bool = True
    made: tuple[PastCall, ...] = ()
    """The reads of the turn; the caller passes those of earlier batches."""
    _known: dict[str, FactRead] = field(default_factory=dict)
    """The answer of each read, by tool and arguments."""

    def needs(self, tool_name: str) -> bool:
        """True if the conditions about a tool name facts."""
        return self.policy.conditions is not None and self.policy.conditions.needs_facts(tool_name)

    async def of_call(
        self,
        tool_name: str,
        arguments: dict[str, Any],
        past: Sequence[PastCall],
        newest: Callable[[Fact], Selected | None],
        sources: CallSources | None = None,
    ) -> CallFacts:
        """Return the facts that the conditions about a call name.

        `arguments` are those that the conditions see, `past` are the earlier calls of the turn. `newest` returns what a fact
        has from the newest result of its tools in the turn, or None if there is none. `sources` are those of the call.
        """
        # Imported here, because Cedar belongs to an extra. An installation with facts has it.
        from graph_agent.policy.cedar.fact_values import CallFacts, UnreadableError, of_arguments
        from graph_agent.policy.cedar.facts import FactKind

        assert self.policy.conditions is not None
        declared = self.policy.conditions.results
        needed = declared.of_tool[tool_name]
        known = CallFacts()
        known.add(of_arguments(declared, needed, arguments))
        reading = _Reading(self, arguments, past, sources, known)
        for fact in needed:
            try:
                if (problem := declared.problems.get(fact.name)) is not None:
                    raise UnreadableError(str(problem))
                if fact.kind is FactKind.LAST:
                    earlier = None if self.facts is None or self.facts.last is None else self.facts.last.get(fact.name)
                    known.add(newest(fact) or earlier or Selected())
                elif fact.kind is FactKind.READ:
                    await reading.read(fact)
            except UnreadableError as exc:
                known.failed.update(dict.fromkeys(declared.parts_of(fact), str(exc)))
        return known

    def selected_last(self, fact: Fact, result: ToolResult) -> Selected:
        """Return what a fact has from a result of the turn."""
        from graph_agent.policy.cedar.fact_values import selected_last

        assert self.policy.conditions is not None
        return selected_last(self.policy.conditions.results, fact, result)

    def shown(self, tool_name: str, known: CallFacts | None) -> tuple[ShownFact, ...]:
        """Return the facts of a call as people are shown them."""
        if known is None:
            return ()
        from graph_agent.policy.cedar.fact_values import shown_facts

        assert self.policy.conditions is not None
        return shown_facts(self.policy.conditions.results, tool_name, known)

    def forget(self) -> None:
        """Forget what was answered before a change. Another server may read the same data as the one that made it."""
        self._known.clear()

    async def answer(
        self,
        tool_name: str,
        arguments: dict[str, Any],
        past: Sequence[PastCall],
        sources: CallSources | None,
        *,
        first: bool,
    ) -> FactRead:
        """Return the answer of one read, which may be known. Raises `UnreadableError` if it is not permitted."""
        from graph_agent.policy.cedar.fact_values import read_of

        key = canonical_json([tool_name, arguments])
        if key in self._known:
            return self._known[key]
        assert self.policy.conditions is not None
        declared = self.policy.conditions.results
        call = await self.permitted(tool_name, arguments, past, sources)
        read = await read_for_facts(
            call, self.ports, lambda result: read_of(declared, tool_name, call.arguments, result), first=first
        )
        self._known[key] = read
        return read

    async def permitted(
        self, tool_name: str, arguments: dict[str, Any], past: Sequence[PastCall], sources: CallSources | None
    ) -> AuthorizedCall:
        """Return the permission of one more read, which is counted. Raises `UnreadableError` if there is none."""
        from graph_agent.policy.cedar.fact_values import UnreadableError

        if len(self.made) >= MAX_READS:
            raise UnreadableError(_TOO_MANY)
        judged = judge_fact_read(
            tool_name,
            arguments,
            policy=self.policy,
            user_id=self.user_id,
            decision_id=self.decision_id,
            past=past,
            fact_reads=self.made,
            roles=self.roles,
            facts=self.facts,
            of_message=self.of_message,
            sources=sources,
            number=len(self.made) + 1,
        )
        if judged.authorized is None:
            raise UnreadableError(f"the read is not permitted: {judged.rule or judged.error}")
        conditions = self.policy.conditions
        # A read counts for a condition in the shadow too, which does not judge it.
        if conditions is not None and self.policy.counts(tool_name):
            earlier = [*past, *self.made]
            situation = Situation(self.user_id, self.roles, self.facts, earlier, self.of_message, sources, for_facts=True)
            decided = await self.ports.reserve(judged.authorized, conditions, situation, confirmed=False)
            if decided is None or not decided.permits(confirmed=False):
                why = "the turn has ended" if decided is None else decided.reason
                raise UnreadableError(f"the read is not permitted: {why}")
        self.made = (*self.made, PastCall(0, tool_name, judged.authorized.arguments, attempted=False))
        return judged.authorized


@dataclass
class _Reading:
    """The reads of one call."""

    reader: FactReader
    arguments: dict[str, Any]
    past: Sequence[PastCall]
    sources: CallSources | None
    known: CallFacts
    first: bool = True

    async def read(self, fact: Fact) -> None:
        """Add a fact and its parts. Raises `UnreadableError`."""
        from graph_agent.policy.cedar.fact_values import UnreadableError, filled

        given = {name: filled(source, self.arguments, self.reader.user_id, self.known) for name, source in fact.parameters}
        if any(value is None for value in given.values()):
            return
        each = [name for name, source in fact.parameters if source.each is not None]
        if not each:
            self.known.about[fact.name] = tuple(given.values())
            self._take(fact, await self._answer(fact.tools[0], given))
            return
        values = []
        for position in range(len(given[each[0]])):
            one = {name: value[position] if name in each else value for name, value in given.items()}
            answer = await self._answer(fact.tools[0], one)
            if (why := answer.error or answer.failed.get(fact.name)) is not None:
                raise UnreadableError(why)
            if fact.name not in answer.values:
                # Neither a set without it nor an absent set would say that it is missing.
                raise UnreadableError("one of the elements was not found")
            values.append(answer.values[fact.name])
        self.known.values[fact.name] = sum(values) if fact.count else [item for value in values for item in value]

    async def _answer(self, tool_name: str, given: dict[str, Any]) -> FactRead:
        answer = await self.reader.answer(tool_name, given, self.past, self.sources, first=self.first)
        self.first = False
        return answer

    def _take(self, fact: Fact, answer: FactRead) -> None:
        assert self.reader.policy.conditions is not None
        for name in self.reader.policy.conditions.results.parts_of(fact):
            if (why := answer.error or answer.failed.get(name)) is not None:
                self.known.failed[name] = why
            elif name in answer.values:
                self.known.values[name] = answer.values[name]
