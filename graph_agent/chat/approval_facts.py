"""Values that conditions read about the call of an approval request, outside of any decision; the closing one reads anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graph_agent.graph.fact_reads import FactReader
from graph_agent.models.decision import ApprovalRequest, DecisionContext
from graph_agent.models.facts import FactRead, Facts, ShownFact
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.call_in_hand import CallInHand, Setting
from graph_agent.policy.cedar.call_facts import CallFacts
from graph_agent.policy.cedar.compiled import Conditions
from graph_agent.policy.cedar.conditions import ConditionsVerdict, Situation
from graph_agent.policy.cedar.fact_values import shown_facts
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.gathered_facts import gather_facts


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The facts of the installation, and those of the call from the results of tools."""

    facts: Facts | None = None
    results: CallFacts | None = None


@dataclass(frozen=True, slots=True)
class _Reads:
    """`FactPorts` that are recorded nowhere."""

    engine: LLMAgentEngine

    async def read_fact(self, call: AuthorizedCall, keep: Callable[[ToolResult], FactRead], *, first: bool) -> FactRead:
        del first
        return keep(await self.engine.external.execute(call))

    async def reserve(
        self, call: AuthorizedCall, conditions: Conditions, situation: Situation, *, confirmed: bool
    ) -> ConditionsVerdict:
        """Judge a read by the uses so far. What an approver looks at is not counted as a use of the requester."""
        del confirmed
        return conditions.judge(call.tool_name, call.arguments, situation)


async def read_circumstances(engine: LLMAgentEngine, policy: CompiledPolicy, request: ApprovalRequest) -> Circumstances:
    """Return what the conditions about the call of a request read now. Raises `RecordUnavailableError`."""
    conditions, action = policy.conditions, request.action
    if conditions is None:
        return Circumstances()
    facts = await _facts(engine, conditions, request) if conditions.reads_facts else None
    if not conditions.needs_facts(action.tool_name):
        return Circumstances(facts)
    setting = Setting(policy=policy, user_id=request.user_id, roles=request.user_roles, facts=facts)
    call = FunctionCall(name=action.tool_name, arguments=action.arguments)
    hand = CallInHand(call=call, setting=setting, sources=request.sources)
    return Circumstances(facts, await FactReader(setting, _Reads(engine)).of_call(hand, lambda _: None))


def shown_now(policy: CompiledPolicy, request: ApprovalRequest, known: Circumstances) -> tuple[ShownFact, ...]:
    """Return the facts of the call of a request as people are shown them."""
    if known.results is None or policy.conditions is None:
        return ()
    return shown_facts(policy.conditions.results, request.action.tool_name, known.results)


async def _facts(engine: LLMAgentEngine, conditions: Conditions, request: ApprovalRequest) -> Facts:
    context = DecisionContext(
        user_id=request.user_id, message=request.id, conversation_id=request.conversation_id, roles=request.user_roles
    )
    return await gather_facts(engine.audit, context, "", conditions, engine.ports.clock.now())
