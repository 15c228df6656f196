"""A call of a turn that was judged, with what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import Draw
from graph_agent.models.origin import Origin
from graph_agent.models.record import CallDisposition, ShadowVerdict
from graph_agent.models.said import Said
from graph_agent.models.tools import ToolResult
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.reasons import INVALID_ARGUMENTS, Reason, ReasonCode
from graph_agent.reply.authored import Parts


@dataclass(frozen=True, slots=True)
class TurnCall:
    """A call that was requested, with its result."""

    sequence: int
    iteration: int
    call: FunctionCall
    """The call as it was requested."""
    arguments: dict[str, Any]
    """The arguments that the guard judged: without the user's id."""
    disposition: CallDisposition
    result: ToolResult
    receipt: Parts = ()
    """The line about what the call changed; empty if it changed nothing."""
    reason: Reason | None = None
    """Why the call was not made; None for one that was, or that is repeated."""
    shadow: tuple[ShadowVerdict, ...] = ()
    """The rules in the shadow that would have changed the decision."""
    said: Said | None = None
    """The call as people read it; None for one that is not said."""
    draw: Draw | None = None
    """The line of a mandate that the call was drawn from; None for a call that needed none."""
    gate: str = ""
    """The gate that decided; empty for a call that has passed all of them."""

    def is_because(self, code: ReasonCode) -> bool:
        """True if the call was not made for a reason of this kind."""
        return self.reason is not None and self.reason.code is code

    @property
    def has_invalid_arguments(self) -> bool:
        """True if it was refused for arguments that others may correct."""
        return self.reason is not None and self.reason.code in INVALID_ARGUMENTS

    def origin(self, policy: CompiledPolicy) -> Origin:
        """Return whose texts the result has: those of its server, if it was sent, or else code's."""
        if self.disposition not in (CallDisposition.EXECUTED, CallDisposition.REPEATED):
            return Origin.CODE
        rule = policy.rules.get(self.call.name)
        return Origin.TRUSTED if rule is not None and rule.grant.trusted_results else Origin.FOREIGN
