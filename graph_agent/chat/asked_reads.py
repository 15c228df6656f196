"""Reads for the rules under which a request was asked, where the process that decides it has others.

Each is a decision of the record: a read without a model, in the name of the requester. Both rules have to permit it, those of
then as a read for facts, and those of this process as a call.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from graph_agent.errors import RecordError
from graph_agent.graph.ports import WantedRead
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import ApprovalLook, ApprovalRequest, DecisionContext
from graph_agent.models.facts import FactRead
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsVerdict, Situation
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import sources_of_read
from graph_agent.turn.engine import LLMAgentEngine

_READS = uuid.UUID("a3c6f0b2-5d0e-4a55-9d1c-0b7c7c1c6f2e")
_NOT_PERMITTED = "the rules of this server do not permit the read"
_NOT_READ = "it was not read"


def read_id(look: str, number: int) -> str:
    """Return the id of the decision of a read of a look, from 0."""
    return str(uuid.uuid5(_READS, f"{look}:{number}"))


@dataclass(slots=True)
class AskedReads:
    """`FactPorts` of one look under the earlier rules: a decision for each read, which is made once."""

    engine: LLMAgentEngine
    request: ApprovalRequest
    policy: CompiledPolicy
    """The rules under which it was asked."""
    viewer: str
    look: str
    makes: bool
    """False to answer with the reads that were made."""
    number: int = 0
    """The reads of this look so far."""

    async def read_fact(self, wanted: WantedRead) -> FactRead:
        call = wanted.call
        bound = self.policy.rules[call.tool_name].grant.bound_argument
        # What the runtime fills, it fills by the rules of this process.
        chosen = {name: value for name, value in call.arguments.items() if name != bound}
        called = FunctionCall(name=call.tool_name, arguments=chosen)
        decision_id, self.number = read_id(self.look, self.number), self.number + 1
        record = await self._make(called, decision_id) if self.makes else await self._recorded(called, decision_id)
        if record is None:
            return FactRead(tool=call.tool_name, arguments=call.arguments, error=_NOT_READ)
        sent = next((one.result for one in record.entries if one.kind is EntryKind.EXECUTE), None)
        if sent is None:
            return FactRead(tool=call.tool_name, arguments=call.arguments, error=_NOT_PERMITTED)
        return wanted.keep(ToolResult.model_validate(sent))

    async def reserve(
        self, call: AuthorizedCall, conditions: Conditions, situation: Situation, *, confirmed: bool
    ) -> ConditionsVerdict:
        """Judge a read by the earlier rules. Those of this process count it."""
        del confirmed
        return conditions.judge(call.tool_name, call.arguments, situation)

    async def _make(self, called: FunctionCall, decision_id: str) -> DecisionRecord | None:
        request, sources = self.request, self.request.sources
        of_read = None if sources is None else sources_of_read(sources, called.arguments or {})
        context = DecisionContext(
            user_id=request.user_id,
            message=f"look at approval request {request.id}, under the earlier rules",
            conversation_id=request.conversation_id,
            roles=request.user_roles,
            called=(called,),
            dry_run=True,
            look=ApprovalLook(request=request.id, viewer=self.viewer, sources=of_read),
        )
        try:
            return (await self.engine.run(context, decision_id=decision_id)).record
        except RecordError:
            # Another process looks at the same time.
            return await self._recorded(called, decision_id)

    async def _recorded(self, called: FunctionCall, decision_id: str) -> DecisionRecord | None:
        record = await self.engine.audit.load(decision_id)
        if not isinstance(record, DecisionRecord):
            return None
        same = [canonical_json(one.to_json()) for one in record.header.context.called] == [canonical_json(called.to_json())]
        return record if same else None
