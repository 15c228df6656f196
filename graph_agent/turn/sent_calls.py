"""The calls of closed decisions whose outcome is unknown, and can be learned without a ledger."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from graph_agent.errors import ConfigurationError
from graph_agent.models.tools import ToolResult
from graph_agent.policy.guard import sent_before
from graph_agent.record.settlements import UnknownCall
from graph_agent.turn.setup import TurnSetup


class SentCalls:
    """Learns the outcomes of sent calls by the policy that is in force now."""

    def __init__(self, setup: TurnSetup) -> None:
        self._setup = setup

    async def tools(self) -> Collection[str]:
        """Return the tools whose outcomes can be learned so; none while there is no valid policy."""
        try:
            policy = (await self._setup.prepare()).policy
        except ConfigurationError:
            return ()
        return [name for name, rule in policy.rules.items() if rule.key is not None]

    async def outcome(self, call: UnknownCall, request: str | None, seconds: float) -> ToolResult | None:
        """Return the outcome of a call, unknown if it is not learned within `seconds`; None if the policy permits no attempt.

        `request` is the digest of what was sent.
        """
        try:
            policy = (await self._setup.prepare()).policy
        except ConfigurationError:
            return None
        permitted = sent_before(
            policy,
            call.tool_name,
            call.arguments,
            user_id=call.user_id,
            decision_id=call.decision_id,
            sequence=call.sequence,
            operation_key=call.operation_key,
            request=request,
        )
        if permitted is None or not permitted.tells_outcome_after(ToolResult(success=False, error_code=call.error_code)):
            return None
        return await replace(self._setup.external, call_seconds=seconds, settle_seconds=seconds).settle(permitted)
