"""Turns at the desk of `graph_agent.testing`: its constitutions and rules for tests, and conversations that are replayed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.llm.scripted import ScriptedAdapter
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


@dataclass
class Conversation(ReplayedConversation):
    """A conversation with the desk."""

    desk: OrderDesk

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


def cancel(order_id: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "cancel_order", {"order_id": order_id, **more}


def give_back(order_id: str, method: str) -> tuple[str, dict[str, Any]]:
    return "return_items", {"order_id": order_id, "method": method}


def exchange(order_id: str, *products: str) -> tuple[str, dict[str, Any]]:
    return "exchange", {"order_id": order_id, "items": [{"product_id": one} for one in products]}
