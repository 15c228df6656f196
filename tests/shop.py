"""A small shop for tests of cards: orders that can be cancelled after a yes, notes that need none, and reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AfterYes, DecisionType
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.replayed_turns import ReplayedConversation
from tests.scripted_turns import TableServer, done, failed, grouped

CONSTITUTION = """You are the desk of a shop.

## Available Tools
- cancel_order: Cancel order (requires confirmation)
- pay_back: Pay back (requires confirmation) (at most 2 per message)
- note: Write note (without confirmation)
- get_order: Get order (reads)
"""
_NAMES = ("cancel_order", "pay_back", "note", "get_order")
_SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "text": {"type": "string"}},
    "required": ["order_id"],
    "additionalProperties": False,
}

Call = tuple[str, dict[str, Any]]


def cancel(order_id: str) -> Call:
    return "cancel_order", {"order_id": order_id}


def pay_back(order_id: str) -> Call:
    return "pay_back", {"order_id": order_id}


def note(order_id: str, text: str = "called") -> Call:
    return "note", {"order_id": order_id, "text": text}


def get(order_id: str) -> Call:
    return "get_order", {"order_id": order_id}


@dataclass
class Shop(TableServer):
    """The server of the shop. It describes an order by its state; what it did is in `sent`."""

    served: tuple[ToolDeclaration, ...] = tuple(
        ToolDeclaration(name=name, description=name, parameters=_SCHEMA) for name in _NAMES
    )
    outcomes: dict[str, ToolResult] = field(default_factory=dict)
    """The results of calls by their order; other calls succeed."""
    states: dict[str, str] = field(default_factory=dict)
    """The states of orders, `placed` for others; an empty one for an order that does not exist."""
    shows: bool = True
    """False for a shop without previews."""

    def traits(self, tool_name: str) -> Any:
        reads = tool_name == "get_order"
        traits = super().traits(tool_name).replace(read_only=reads, preview=self.shows and tool_name == "cancel_order")
        return traits.replace(ledger=self.ledger and not reads)

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        await super().execute(call, deadline=deadline)
        return self.outcomes.get(call.arguments["order_id"], done({"order_id": call.arguments["order_id"]}))

    async def preview(
        self,
        tool_name: str,  # noqa: ARG002 (only orders are previewed)
        parameters: dict[str, Any],
        user_id: str,  # noqa: ARG002
        *,
        deadline: float | None = None,  # noqa: ARG002
    ) -> ToolResult:
        state = self.states.get(parameters["order_id"], "placed")
        if not state:
            return failed(ToolErrorCode.NOT_FOUND)
        return done({"description": f"order {parameters['order_id']} ({state})"})

    @property
    def made(self) -> list[tuple[str, str]]:
        """The calls that were sent, as tool and order."""
        return [(tool, arguments["order_id"]) for tool, arguments, _, _ in self.sent]

    @property
    def keys(self) -> list[str | None]:
        return [key for *_, key in self.sent]


@dataclass
class Desk(ReplayedConversation):
    """A conversation with the desk."""

    shop: Shop

    def what(self) -> list[str]:
        """Return the dispositions of the calls of the last turn."""
        return [str(call.disposition) for call in self.turns[-1].record.invocations]


def desk(*script: Any, after_yes: AfterYes = AfterYes.EXPLAIN, shop: Shop | None = None, **settings: Any) -> Desk:
    """Return a conversation with a scripted model."""
    shop, iterations = shop or Shop(), settings.pop("max_iterations", 5)
    config = AgentEngineConfig(after_yes=after_yes, max_iterations=iterations)
    adapter = ScriptedAdapter(list(script))
    return Desk(LLMAgentEngine(adapter, shop, CONSTITUTION, **grouped(config=config, **settings)), shop)


def asked(finished: FinishedTurn) -> list[tuple[str, str]]:
    """Return the calls that a turn asks about, as tool and order."""
    assert finished.decision.decision_type is DecisionType.REQUEST_CONFIRMATION, finished.decision.reply
    pending = finished.decision.pending_action
    assert pending is not None
    return [(one.tool_name, one.arguments["order_id"]) for one in pending.each]
