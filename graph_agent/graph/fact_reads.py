"""The reads that the runtime makes for a call: of the facts that its conditions name, and of what its undo restores.

All uses of a call share a read: what conditions have read is what an undo restores, and what it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graph_agent.graph.authorized import read_for_facts
from graph_agent.graph.ports import FactPorts, WantedRead
from graph_agent.models.canonical import canonical_json
from graph_agent.models.facts import FactRead, Selected, ShownFact
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.amounts import product, total
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.call_in_hand import Before, CallInHand, Setting
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.fact_values import compared_by, filled, of_arguments, read_of, selected_last, shown_facts
from graph_agent.policy.fact_errors import UnreadableError
from graph_agent.policy.facts import Fact, FactKind, Fold
from graph_agent.policy.guard import judge_fact_read
from graph_agent.policy.past_call import PastCall
from graph_agent.policy.sentence_reads import NOTHING_READ, ReadValues
from graph_agent.policy.undo import read_arguments, with_restored
from graph_agent.words.reasons import for_user

if TYPE_CHECKING:
    # Only named in signatures: it imports Cedar, which belongs to an extra.
    from graph_agent.policy.cedar.declared_facts import DeclaredFacts

MAX_READS = 60
"""The reads for calls in one turn, also those for calls that are then refused."""
_TOO_MANY = "this message has read as much as it may"


@dataclass
class FactReader:
    """Reads the facts of calls of one user. A result is kept until a change is reported."""

    setting: Setting
    """That of the calls."""
    ports: FactPorts
    made: tuple[PastCall, ...] = ()
    """The reads of the turn; the caller passes those of earlier batches."""
    _known: dict[str, FactRead] = field(default_factory=dict)
    """The answer of each read, by tool and arguments, and by what is kept of it."""

    @property
    def declared(self) -> DeclaredFacts:
        assert self.setting.policy.conditions is not None
        return self.setting.policy.conditions.results

    async def of_call(self, hand: CallInHand, newest: Callable[[Fact], Selected | None]) -> CallFacts:
        """Return the facts that the conditions about a call name.

        `newest` returns what a fact has from the newest result of its tools in the turn, or None if there is none.
        """
        declared, facts = self.declared, self.setting.facts
        needed = declared.of_tool[hand.name]
        known = CallFacts()
        known.add(of_arguments(declared, needed, hand.arguments))
        reading = _Reading(self, hand, known)
        for fact in needed:
            try:
                if (problem := declared.problems.get(fact.name)) is not None:
                    raise UnreadableError(str(problem))
                if fact.kind is FactKind.LAST:
                    earlier = None if facts is None or facts.last is None else facts.last.get(fact.name)
                    known.add(newest(fact) or earlier or Selected())
                elif fact.kind is FactKind.READ:
                    await reading.read(fact)
                elif fact.kind is FactKind.PRODUCT:
                    reading.multiply(fact)
            except UnreadableError as exc:
                known.failed.update(dict.fromkeys(declared.parts_of(fact), str(exc)))
        return known

    def selected_last(self, fact: Fact, result: ToolResult) -> Selected:
        """Return what a fact has from a result of the turn."""
        return selected_last(self.declared, fact, result)

    def shown(self, tool_name: str, known: CallFacts | None) -> tuple[ShownFact, ...]:
        """Return the facts of a call as people are shown them."""
        if known is None:
            return ()
        return shown_facts(self.declared, tool_name, known)

    def forget(self) -> None:
        """Forget what was answered before a change. Another server may read the same data as the one that made it."""
        self._known.clear()

    async def answer(
        self,
        tool_name: str,
        arguments: dict[str, Any],
        hand: CallInHand,
        *,
        first: bool = True,
        after: int | None = None,
        decides: bool = True,
    ) -> FactRead:
        """Return the answer of one read for a call, which may be known. Raises `UnreadableError` if it is not permitted.

        The parameters are those of `WantedRead`.
        """
        conditions, paths = self.setting.policy.conditions, _kept_paths(hand, tool_name, arguments)
        declared = None if conditions is None else conditions.results
        compared = {} if declared is None else compared_by(declared, tool_name, hand.arguments)
        key = canonical_json([tool_name, arguments, compared, paths])
        if key in self._known:
            return self._known[key]
        call = await self._permitted(tool_name, arguments, hand)

        def keep(result: ToolResult) -> FactRead:
            read = read_of(declared, tool_name, call.arguments, result, compared)
            return with_restored(read.replace(after=after), paths, result)

        read = await read_for_facts(WantedRead(call, keep, first, compared, after, decides), self.ports)
        # A failed read for an undo says nothing about a later call, whose conditions would read again.
        if decides or read.error is None:
            self._known[key] = read
        return read

    async def for_sentence(self, hand: CallInHand) -> ReadValues:
        """Return what the sentence of a call says besides its arguments, as far as it is known."""
        found, first = NOTHING_READ, True
        for wanted in hand.rule.grant.reads_for_sentence:
            if (given := wanted.arguments(hand.arguments)) is None:
                continue
            try:
                read = await self.answer(wanted.tool, given, hand, first=first, decides=False)
            except UnreadableError:
                continue
            first = False
            found = found.with_read(wanted, read)
        return found

    async def _permitted(self, tool_name: str, arguments: dict[str, Any], hand: CallInHand) -> AuthorizedCall:
        """Return the permission of one more read for a call, which is counted. Raises `UnreadableError` if there is none."""
        if len(self.made) >= MAX_READS:
            raise UnreadableError(_TOO_MANY)
        reading = CallInHand(
            call=FunctionCall(name=tool_name, arguments=arguments),
            setting=self.setting.of_reads(),
            sequence=len(hand.before.calls) + 1,
            sources=hand.sources,
            before=Before(hand.before.calls, self.made),
        )
        judged = judge_fact_read(reading, len(self.made) + 1)
        if judged.authorized is None:
            raise UnreadableError(f"the read is not permitted: {for_user(judged.reason)}")
        conditions = self.setting.policy.conditions
        # A read counts for a condition in the shadow too, which does not judge it.
        if conditions is not None and self.setting.policy.counts(tool_name):
            decided = await self.ports.reserve(judged.authorized, conditions, reading.situation, confirmed=False)
            if decided is None or not decided.permits(confirmed=False):
                why = "the turn has ended" if decided is None else decided.names
                raise UnreadableError(f"the read is not permitted: {why}")
        self.made = (*self.made, PastCall(0, tool_name, judged.authorized.arguments, attempted=False))
        return judged.authorized


@dataclass
class _Reading:
    """The reads of one call."""

    reader: FactReader
    hand: CallInHand
    known: CallFacts
    first: bool = True

    async def read(self, fact: Fact) -> None:
        """Add a fact and its parts. Raises `UnreadableError`."""
        arguments, user_id = self.hand.arguments, self.hand.setting.user_id
        given = {name: filled(source, arguments, user_id, self.known) for name, source in fact.parameters}
        if any(value is None for value in given.values()):
            return
        each = [name for name, source in fact.parameters if source.each is not None]
        if not each:
            self.known.about[fact.name] = tuple(given.values())
            self._take(fact, await self._answer(fact.tools[0], given))
            return
        times = None if fact.times is None else filled(fact.times, arguments, user_id, self.known)
        values: list[Any] = []
        for position in range(len(given[each[0]])):
            one = {name: value[position] if name in each else value for name, value in given.items()}
            answer = await self._answer(fact.tools[0], one)
            if (why := answer.error or answer.failed.get(fact.name)) is not None:
                raise UnreadableError(why)
            if fact.name not in answer.values:
                # Neither a set without it nor an absent set would say that it is missing.
                raise UnreadableError("one of the elements was not found")
            value = answer.values[fact.name]
            values.append(value if times is None else product([value, times[position]]))
        is_number = fact.fold in (Fold.COUNT, Fold.SUM)
        self.known.values[fact.name] = total(values) if is_number else [item for value in values for item in value]

    def multiply(self, fact: Fact) -> None:
        """Add a product, unless a factor is absent. Raises `UnreadableError`."""
        arguments, user_id = self.hand.arguments, self.hand.setting.user_id
        factors = [filled(source, arguments, user_id, self.known) for _, source in fact.parameters]
        if None not in factors:
            self.known.values[fact.name] = product(factors)

    async def _answer(self, tool_name: str, given: dict[str, Any]) -> FactRead:
        answer = await self.reader.answer(tool_name, given, self.hand, first=self.first)
        self.first = False
        return answer

    def _take(self, fact: Fact, answer: FactRead) -> None:
        for name in self.reader.declared.parts_of(fact):
            if (why := answer.error or answer.failed.get(name)) is not None:
                self.known.failed[name] = why
            elif name in answer.values:
                self.known.values[name] = answer.values[name]


def _kept_paths(hand: CallInHand, tool_name: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return the paths in this read that the undo of a call needs, or its sentence."""
    needed = () if hand.undoes is not None else hand.rule.grant.reads_for_sentence
    same = (one for one in needed if one.tool == tool_name and one.arguments(hand.arguments) == arguments)
    return tuple(dict.fromkeys([*_restored(hand, tool_name, arguments), *(path for one in same for path in one.paths)]))


def _restored(hand: CallInHand, tool_name: str, arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return the paths in this read that the undo of a call restores, or with which the call as an undo is compared."""
    if hand.undoes is not None:
        compared = hand.undoes.restored
        is_same = compared is not None and (compared.tool, compared.arguments) == (tool_name, arguments)
        return tuple(compared.left) if compared is not None and is_same else ()
    declared = hand.rule.grant.undone_by
    if declared is None or declared.before is None or declared.before.tool != tool_name:
        return ()
    return declared.restored if read_arguments(declared, hand.arguments) == arguments else ()
