"""Looks at what the call of an approval request would act on now: dry runs of the call, each a decision of the record.

A look reads in the name of the requester, so its reads are recorded and counted like all others, and each person can make only
some of them for a request. Between two of them the answers of the last one are shown.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from graph_agent.chat.asked_reads import AskedReads, read_id
from graph_agent.errors import RecordError
from graph_agent.graph.fact_reads import FactReader
from graph_agent.graph.ports import WantedRead
from graph_agent.models.canonical import digest
from graph_agent.models.decision import ApprovalLook, ApprovalRequest, DecisionContext
from graph_agent.models.facts import FactRead, Facts, ShownFact
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.call_in_hand import CallInHand, Setting
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsVerdict, Situation
from graph_agent.policy.cedar.fact_values import shown_facts
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.sentence_reads import NOTHING_READ, ReadValues
from graph_agent.policy.tool_rule import ToolRule
from graph_agent.question.approvals import ApprovalStore
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.gathered_facts import gather_facts
from graph_agent.words.said import Known, say

MAX_LOOKS = 20
"""The looks of one person at one request."""
LOOK_AGAIN_AFTER = timedelta(minutes=1)
"""The time for which a look is shown before another one is made."""
_LOOKS = uuid.UUID("0c1b7d54-0f0e-4d2b-9a53-6f6f2f4fd1a7")


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The facts that the rules read about the call of a request, and the object that it acts on."""

    facts: Facts | None = None
    """The facts of the installation."""
    results: CallFacts | None = None
    """The facts of the call from the results of tools."""
    shown: tuple[ShownFact, ...] = ()
    """The same as people are shown them."""
    object_text: str | None = None
    """The object; None if it is not known."""
    read_at: datetime | None = None
    """The time of the look; None if none was needed."""


class ApprovalLooks:
    """The looks of approvers, and of the process that decides a request, at its call."""

    def __init__(self, engine: LLMAgentEngine, requests: ApprovalStore) -> None:
        self._engine = engine
        self._requests = requests

    async def of_viewer(self, request: ApprovalRequest, policy: CompiledPolicy, viewer: str) -> Circumstances | None:
        """Return what an approver is shown, by a new look or by the last one; None if there was none that has ended.

        Raises `RecordUnavailableError` and `ServiceError`.
        """
        conditions = policy.conditions
        if not policy.rules[request.action.tool_name].traits.preview and not _needs_facts(request, conditions):
            return await self._without_look(request, conditions)
        return await self._look(request, policy, viewer, lambda _: LOOK_AGAIN_AFTER)

    async def of_decider(self, request: ApprovalRequest, policy: CompiledPolicy, answers: int) -> Circumstances | None:
        """Return what the rules read after so many answers; None if it is too soon to look again. Raises as `of_viewer`.

        It is twice as long after each look, so that a request that waits for its facts is not read a thousand times.
        """
        conditions = policy.conditions
        if not _needs_facts(request, conditions):
            return await self._without_look(request, conditions)
        return await self._look(request, policy, "", _ever_longer, after=answers)

    async def of_asked(
        self, request: ApprovalRequest, policy: CompiledPolicy, viewer: str, answers: int
    ) -> Circumstances | None:
        """Return what the rules read under which a request was asked, where those of this process are others.

        `viewer` is empty for the process that decides. As for the others, None if it is too soon to look again.
        """
        known = await self._without_look(request, policy.conditions)
        if not _needs_facts(request, policy.conditions):
            return known
        rules, after = digest(policy.digests(()).to_json()), 0 if viewer else answers
        looks = [f"{request.id}:{after}:{number}:{viewer}:{rules}" for number in range(MAX_LOOKS)]
        made = await self._requests.decided_at([read_id(look, 0) for look in looks])
        makes = self._is_due(made, (lambda _: LOOK_AGAIN_AFTER) if viewer else _ever_longer)
        if not makes and not viewer:
            return None
        look = looks[len(made) if makes else len(made) - 1]
        setting = Setting(policy=policy, user_id=request.user_id, roles=request.user_roles, facts=known.facts)
        call = FunctionCall(name=request.action.tool_name, arguments=request.action.arguments)
        hand = CallInHand(call=call, setting=setting, sources=request.sources)
        reads = AskedReads(self._engine, request, policy, viewer, look, makes=makes)
        return replace(known, results=await FactReader(setting, reads).of_call(hand, lambda _: None))

    async def _without_look(self, request: ApprovalRequest, conditions: Conditions | None) -> Circumstances:
        """Return what is known without a read in the name of the requester."""
        if conditions is None or not conditions.reads_facts:
            return Circumstances()
        context = DecisionContext(
            user_id=request.user_id, message=request.id, conversation_id=request.conversation_id, roles=request.user_roles
        )
        return Circumstances(await gather_facts(self._engine.audit, context, "", conditions, self._engine.ports.clock.now()))

    async def _look(
        self,
        request: ApprovalRequest,
        policy: CompiledPolicy,
        viewer: str,
        wait: Callable[[int], timedelta],
        *,
        after: int = 0,
    ) -> Circumstances | None:
        ids = [str(uuid.uuid5(_LOOKS, f"{request.id}:{after}:{number}:{viewer}")) for number in range(MAX_LOOKS)]
        made = await self._requests.decided_at(ids)
        if not self._is_due(made, wait):
            # The process that decides has judged by it already.
            return None if not viewer else await self._recorded(request, policy, ids[len(made) - 1])
        look = ApprovalLook(request=request.id, viewer=viewer, sources=request.sources)
        call = FunctionCall(name=request.action.tool_name, arguments=request.action.arguments)
        context = DecisionContext(
            user_id=request.user_id,
            message=f"look at approval request {request.id}",
            conversation_id=request.conversation_id,
            roles=request.user_roles,
            time_zone="" if request.action.said is None else request.action.said.time_zone,
            called=(call,),
            dry_run=True,
            look=look,
        )
        try:
            return await self._of_record((await self._engine.run(context, decision_id=ids[len(made)])).record, request, policy)
        except RecordError:
            # The same person looks twice at once.
            return await self._recorded(request, policy, ids[len(made)])

    def _is_due(self, made: Sequence[datetime], wait: Callable[[int], timedelta]) -> bool:
        """True if another look may be made after those at these times."""
        if not made:
            return True
        age = self._engine.ports.clock.now() - made[-1]
        return len(made) < MAX_LOOKS and not timedelta() <= age < wait(len(made) - 1)

    async def _recorded(self, request: ApprovalRequest, policy: CompiledPolicy, decision_id: str) -> Circumstances | None:
        record = await self._engine.audit.load(decision_id)
        return await self._of_record(record, request, policy) if isinstance(record, DecisionRecord) else None

    async def _of_record(self, record: DecisionRecord, request: ApprovalRequest, policy: CompiledPolicy) -> Circumstances:
        """Return what a look has read."""
        answers = {kind: [one.result for one in record.entries if one.kind is kind] for kind in EntryKind}
        facts = next(map(Facts.model_validate, answers[EntryKind.FACTS]), None)
        preview = next(map(ToolResult.model_validate, answers[EntryKind.PREVIEW]), None)
        rule, action, results = policy.rules[request.action.tool_name], request.action, None
        read = [FactRead.model_validate(one) for one in answers[EntryKind.READ]]
        if _needs_facts(request, policy.conditions):
            setting = Setting(policy=policy, user_id=request.user_id, roles=request.user_roles, facts=facts)
            call = FunctionCall(name=action.tool_name, arguments=action.arguments)
            hand = CallInHand(call=call, setting=setting, sources=request.sources)
            reads = _RecordedReads(read)
            results = await FactReader(setting, reads).of_call(hand, lambda _: None)
        known = Known(preview, read=_read_for_sentence(rule, action.arguments, read), time_zone=record.header.context.time_zone)
        said = say(rule, action.arguments, known)
        shows = preview is not None and preview.success
        return Circumstances(
            facts,
            results,
            _shown(policy, request, results),
            said.text if shows else None,
            record.header.started_at,
        )


def _read_for_sentence(rule: ToolRule, arguments: dict[str, Any], reads: Sequence[FactRead]) -> ReadValues:
    """Return what a look has read for the sentence of its call."""
    found = NOTHING_READ
    for wanted in rule.grant.reads_for_sentence:
        given = wanted.arguments(arguments)
        known = (one for one in reads if (one.tool, one.arguments) == (wanted.tool, given))
        if (read := next(known, None)) is not None:
            found = found.with_read(wanted, read)
    return found


@dataclass(frozen=True, slots=True)
class _RecordedReads:
    """`FactPorts` that answer with the reads of a look."""

    reads: Sequence[FactRead]

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        tool, arguments = wanted.call.tool_name, wanted.call.arguments
        known = tool, arguments, wanted.compared
        same = (one for one in self.reads if (one.tool, one.arguments, one.compared) == known)
        return next(same, FactRead(tool=tool, arguments=arguments, error="it was not read"))

    async def reserve(
        self, call: AuthorizedCall, conditions: Conditions, situation: Situation, *, confirmed: bool
    ) -> ConditionsVerdict:
        """Judge a read that the look has counted."""
        del confirmed
        return conditions.judge(call.tool_name, call.arguments, situation)


def _ever_longer(number: int) -> timedelta:
    return timedelta(seconds=LOOK_AGAIN_AFTER.total_seconds() * 2.0**number)


def _needs_facts(request: ApprovalRequest, conditions: Conditions | None) -> bool:
    return conditions is not None and conditions.needs_facts(request.action.tool_name)


def _shown(policy: CompiledPolicy, request: ApprovalRequest, results: CallFacts | None) -> tuple[ShownFact, ...]:
    if results is None or policy.conditions is None:
        return ()
    return shown_facts(policy.conditions.results, request.action.tool_name, results)
