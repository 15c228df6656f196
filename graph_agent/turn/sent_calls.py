"""The calls of closed decisions whose outcome is unknown, and can be learned without a ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from graph_agent.errors import ConfigurationError, ServiceError
from graph_agent.models.facts import Facts
from graph_agent.models.llm import FunctionCall
from graph_agent.models.tools import ToolResult
from graph_agent.policy.call_in_hand import CallInHand, Setting
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.constitution import MOST_DELAY
from graph_agent.policy.guard import sent_before
from graph_agent.record.settlements import UnknownCall

if TYPE_CHECKING:
    # Only named in a signature: it imports LangGraph, which commands of an administrator do not need.
    from graph_agent.turn.setup import TurnSetup

FINDABLE_FOR: Final = timedelta(seconds=MOST_DELAY)
"""For how long after a call reads look for what it did. The servers have made it visible, or never will."""


class SentCalls:
    """Learns the outcomes of sent calls by the policy that is in force now."""

    def __init__(self, setup: TurnSetup) -> None:
        self._setup = setup

    async def tools(self) -> Collection[str]:
        """Return the tools whose outcomes can be learned so; none while there is no valid policy."""
        policy = await self._policy()
        rules = {} if policy is None else policy.rules
        return [name for name, rule in rules.items() if rule.key is not None or rule.grant.done_if is not None]

    async def ask_ledger(self, call: UnknownCall, seconds: float) -> ToolResult:
        """Return the outcome that the ledger of a tool has for a call; unknown while its server is stopped."""
        return await self._setup.external.ask_ledger(call, seconds)

    async def outcome(self, call: UnknownCall, request: str | None, seconds: float) -> ToolResult | None:
        """Return the outcome of a call, unknown if it is not learned within `seconds`; None if it will not be learned.

        `request` is the digest of what was sent. The result of a read that proves nothing has a `read_back`.
        """
        if (policy := await self._policy()) is None:
            return None
        now, conditions = self._setup.ports.clock.now(), policy.conditions
        setting = Setting(
            policy=policy,
            user_id=call.user_id,
            decision_id=call.decision_id,
            roles=call.roles,
            # Without what was used: a condition that reads it permits no read.
            facts=None if conditions is None else Facts.at(now, conditions.file.time_zone),
        )
        sent = FunctionCall(name=call.tool_name, arguments=call.arguments)
        hand = CallInHand(call=sent, setting=setting, sequence=call.sequence)
        permitted = sent_before(hand, call.operation_key, request)
        answer = ToolResult(success=False, error_code=call.error_code)
        unsettled = None if permitted is None else permitted.unsettled_after(answer)
        if unsettled is None:
            return None
        external = replace(self._setup.external, call_seconds=seconds, settle_seconds=seconds)
        result = await external.settle(unsettled, sent_before=(now - call.invoked_at).total_seconds())
        too_late = result.read_back is not None and not unsettled.key and now - call.invoked_at > FINDABLE_FOR
        return None if result.unknown and too_late else result

    async def _policy(self) -> CompiledPolicy | None:
        try:
            return (await self._setup.prepare()).policy
        except (ConfigurationError, ServiceError):
            return None
