"""The calls of recorded decisions, with what was known when each was judged: the uses of the day, and the calls before it.

Decisions come oldest first. What is kept is bounded: the uses of the day that runs, and the newest conversations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.models.sources import CallSources
from graph_agent.models.tools import UNKNOWN_CODES
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.past_call import PastCall
from graph_agent.suggestions.day_uses import DayUses
from graph_agent.suggestions.recorded_reads import RecordedReads, SeenRead
from graph_agent.suggestions.user_words import UserWords

CONVERSATIONS = 20_000
"""The conversations of which the calls are known; an older one counts as new."""


@dataclass(frozen=True, slots=True)
class SeenCall:
    """A call that was sent. One that the user was asked about counts when it is sent, once, and not if they said no."""

    decision_id: str
    user_id: str
    roles: tuple[str, ...]
    at: datetime
    tool_name: str
    arguments: dict[str, Any]
    of_message: bool
    earlier: tuple[PastCall, ...]
    """The calls before it in its decision."""
    succeeded: frozenset[str]
    """The tools that had succeeded in its conversation before the decision."""
    attempted: frozenset[str]
    reads: tuple[SeenRead, ...]
    """The objects that were read before it in its decision."""
    words: UserWords
    position: int
    """Its number among the calls of `words`, from 0."""
    uses: DayUses
    """The calls of its user on the day, in earlier decisions. It goes on with the day: read it before the next decision."""

    @property
    def sources(self) -> CallSources:
        """The sources of its arguments."""
        return self.words.sources[self.position]


@dataclass
class _Day:
    number: int
    uses: DayUses


class SeenCalls:
    """Reads decisions, oldest first."""

    def __init__(self, policy: CompiledPolicy, time_zone: str = "UTC") -> None:
        """`time_zone` is that of the days in which uses are counted."""
        self._policy = policy
        self._actions = {one.name: one for one in policy.actions}
        self._time_zone = time_zone
        self._zone = ZoneInfo(time_zone)
        self._days: OrderedDict[str, _Day] = OrderedDict()
        self._made: OrderedDict[str, tuple[set[str], set[str]]] = OrderedDict()
        self.decisions = 0
        self.reads: list[SeenRead] = []
        """The reads of the decision that was read last."""

    def of(self, record: Mapping[str, Any]) -> Iterator[SeenCall]:
        """Yield the calls of a record that were sent, given as JSON, in their order."""
        self.decisions += 1
        header = record["header"]
        context = header["context"]
        started_at = datetime.fromisoformat(header["started_at"])
        day = self._day(context["user_id"], started_at)
        succeeded, attempted = self._of_conversation(f"{context['user_id']}\n{context['conversation_id']}")
        before = frozenset(succeeded), frozenset(attempted)
        earlier: list[PastCall] = []
        used: list[tuple[str, dict[str, Any], datetime]] = []
        sent_calls = [one for one in record["invocations"] if _is_sent(one)]
        calls = [FunctionCall(name=one["tool_name"], arguments=one["parameters"]) for one in sent_calls]
        words = UserWords(self._policy, context, calls, sorted(attempted))
        reads = RecordedReads(self._actions, record.get("entries", ()))
        self.reads = list(reads.all)
        position = 0
        for call in record["invocations"]:
            tool, arguments, disposition = call["tool_name"], call["parameters"], call["disposition"]
            sent = disposition == CallDisposition.EXECUTED
            at = datetime.fromisoformat(call["invoked_at"]) if sent else started_at
            if _is_sent(call):
                of_message = bool(context.get("typed")) or not context.get("called")
                who = header["decision_id"], context["user_id"], tuple(context.get("roles", ()))
                yield SeenCall(*who, at, tool, arguments, of_message, tuple(earlier), *before, reads.all, words, position, day)
                position += 1
            if sent:
                if (read := reads.add(call)) is not None:
                    self.reads.append(read)
                success = bool(call["success"])
                may_have_run = success or call.get("error_code") in UNKNOWN_CODES
                earlier.append(PastCall(call["sequence"], tool, arguments, may_have_run, succeeded=success))
                attempted.add(tool)
                if success:
                    succeeded.add(tool)
                if may_have_run:
                    used.append((tool, arguments, at))
            elif disposition == CallDisposition.AWAITING:
                earlier.append(PastCall.waiting(call["sequence"], tool, arguments))
        for one in used:
            day.add(*one)

    def _day(self, user: str, at: datetime) -> DayUses:
        number = at.astimezone(self._zone).toordinal()
        # The oldest first: a user whose day is over has no uses any more.
        while self._days and next(iter(self._days.values())).number < number - 1:
            self._days.popitem(last=False)
        if user not in self._days or self._days[user].number != number:
            self._days[user] = _Day(number, DayUses(self._actions, self._time_zone))
            self._days.move_to_end(user)
        return self._days[user].uses

    def _of_conversation(self, key: str) -> tuple[set[str], set[str]]:
        found = self._made.setdefault(key, (set(), set()))
        self._made.move_to_end(key)
        if len(self._made) > CONVERSATIONS:
            self._made.popitem(last=False)
        return found


def _is_sent(call: Mapping[str, Any]) -> bool:
    return call["disposition"] == CallDisposition.EXECUTED and isinstance(call["parameters"], dict)
