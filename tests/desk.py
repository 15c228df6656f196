"""Turns at the desk of `graph_agent.testing`: its constitutions and rules for tests, and conversations that are replayed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import AfterYes, DecisionType
from graph_agent.models.tools import ToolResult
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.replays.replayer import replay
from graph_agent.replays.report import ReplayReport
from graph_agent.testing import OrderDesk
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.fact_lines import split
from tests.replayed_turns import ReplayedConversation
from tests.scripted_turns import SECRET, grouped

CONSTITUTION = """You are the desk of a shop.

## Available Tools
- get_order: Get order (reads)
- get_customer: Get customer (reads)
- get_product: Get product (reads)
- find_customer: Find customer (reads)
- cancel_order: Cancel order (without confirmation)
- return_items: Return items (without confirmation)
- exchange: Exchange items (without confirmation)
"""

UNDO_ADDRESS = "(undone by set_address(order_id = arguments.order_id, address = order.address.street) for 30 minutes)"
UNDOABLE = f"""You are the desk of a shop.

## Available Tools
- get_order: Get order (reads)
- set_address: Change the address (without confirmation) {UNDO_ADDRESS}
- add_note: Add a note (without confirmation) (undone by delete_note(note_id = result.note.id) for 2 hours)
- delete_note: Delete a note (requires confirmation)
- send_mail: Send a mail (without confirmation)

## Facts
- order: get_order(order_id = arguments.order_id)
"""
CARDS = """You are the desk of a shop.

## Available Tools
- cancel_order: Cancel order (requires confirmation)
- refund: Refund (requires confirmation) (at most 2 per message)
- add_note: Add a note (without confirmation)
- get_order: Get order (reads)
"""

ORDER = "- order: get_order(order_id = arguments.order_id)\n"
BASE = '{declared}\n@id("base") permit (principal, action, resource);\n'


def policy(declared: str, *rules: str) -> str:
    """Return facts and rules in one text."""
    return BASE.format(declared=declared) + "\n".join(rules)


def forbid(name: str, tool: str, unless: str, when: str = "") -> str:
    scope = f'action == Action::"{tool}"' if tool else "action"
    return f'@id("{name}") forbid (principal, {scope}, resource) {when} unless {{ {unless} }};'


PENDING = 'context.result has order && context.result.order.status == "pending"'
UNSENT = 'context.result has order && context.result.order.status != "sent"'
ONLY_PENDING = policy(ORDER, forbid("only a pending order", "cancel_order", PENDING))
NOT_SENT = policy(ORDER, forbid("not sent", "cancel_order", UNSENT))


Call = tuple[str, dict[str, Any]]


@dataclass
class Conversation(ReplayedConversation):
    """A conversation with the desk."""

    desk: OrderDesk

    @property
    def made(self) -> list[tuple[str, str]]:
        """The calls that were sent, as tool and order."""
        return [(tool, arguments["order_id"]) for tool, arguments in self.desk.sent]

    def dispositions(self) -> list[str]:
        """Return the dispositions of the calls of the last turn."""
        return [str(call.disposition) for call in self.turns[-1].record.invocations]

    async def replayed(self, turn: FinishedTurn, rules: str | None = None, **what_if: Any) -> ReplayReport:
        """Replay a turn, also under other facts and rules."""
        if rules is not None:
            facts, conditions = split(rules)
            what_if |= {"constitution": f"{CONSTITUTION}\n{facts}", "conditions": ConditionsFile(conditions)}
        return await replay(turn.record, (await self.engine.prepare()).texts, **what_if)


def conversation(rules: str | None, *script: Any, desk: OrderDesk | None = None, **settings: Any) -> Conversation:
    desk = desk or OrderDesk()
    settings.setdefault("clock", ManualClock())
    settings.setdefault("ids", SequentialIds())
    settings.setdefault("signer", Signer(SECRET))
    facts, rules = ("", None) if rules is None else split(rules)
    constitution = f"{settings.pop('constitution', CONSTITUTION)}\n{facts}"
    conditions = None if rules is None else ConditionsFile(rules)
    engine = LLMAgentEngine(ScriptedAdapter(list(script)), desk, constitution, **grouped(conditions=conditions, **settings))
    return Conversation(engine, desk)


def cancel(order_id: str, **more: Any) -> Call:
    return "cancel_order", {"order_id": order_id, **more}


def give_back(order_id: str, method: str) -> Call:
    return "return_items", {"order_id": order_id, "method": method}


def exchange(order_id: str, *products: str) -> Call:
    return "exchange", {"order_id": order_id, "items": [{"product_id": one} for one in products]}


def get(order_id: str) -> Call:
    return "get_order", {"order_id": order_id}


def refund(order_id: str) -> Call:
    return "refund", {"order_id": order_id, "amount": 5}


def move(order_id: str, address: str) -> Call:
    return "set_address", {"order_id": order_id, "address": address}


def note(text: str) -> Call:
    return "add_note", {"text": text}


def note_on(order_id: str) -> Call:
    return "add_note", {"order_id": order_id, "text": "called"}


MAIL: Call = ("send_mail", {"text": "hello"})


def street(desk: OrderDesk, order_id: str = "W1") -> str:
    return str(desk.orders[order_id]["address"]["street"])


def card_desk(outcomes: Mapping[str, ToolResult] | None = None, **fields: Any) -> OrderDesk:
    """Return a desk with the orders 0 to 9, whose calls about an order of `outcomes` have that result."""
    desk = OrderDesk(orders={str(number): {"status": "placed"} for number in range(10)}, **{"ledger": True, **fields})
    desk.previewed.add("cancel_order")
    for tool in ("cancel_order", "refund", "add_note", "get_order"):

        def answer(given: dict[str, Any], tool: str = tool) -> ToolResult:
            return (outcomes or {}).get(given["order_id"]) or desk.perform(tool, given)

        desk.answers[tool] = answer
    return desk


def card_talk(
    *script: Any, after_yes: AfterYes = AfterYes.EXPLAIN, desk: OrderDesk | None = None, **settings: Any
) -> Conversation:
    """Return a conversation about cards, with questions before cancellations and refunds."""
    desk, iterations = desk or card_desk(), settings.pop("max_iterations", 5)
    config = AgentEngineConfig(after_yes=after_yes, max_iterations=iterations)
    engine = LLMAgentEngine(ScriptedAdapter(list(script)), desk, CARDS, **grouped(config=config, **settings))
    return Conversation(engine, desk)


def asked(finished: FinishedTurn) -> list[tuple[str, str]]:
    """Return the calls that a turn asks about, as tool and order."""
    assert finished.decision.decision_type is DecisionType.REQUEST_CONFIRMATION, finished.decision.reply
    pending = finished.decision.pending_action
    assert pending is not None
    return [(one.tool_name, one.arguments["order_id"]) for one in pending.each]
