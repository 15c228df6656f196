"""A desk with orders, customers and products, for tests of facts: the server is a dictionary that a test may change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.replays.replayer import replay
from graph_agent.replays.report import ReplayReport
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.fact_lines import split
from tests.recording_desk import RecordingDesk
from tests.replayed_turns import ReplayedConversation
from tests.scripted_turns import SECRET, done, failed, grouped

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
TEXT = {"type": "string"}
_READ = {"get_order": "order_id", "get_customer": "user_id", "get_product": "product_id", "find_customer": "mail"}


def schema(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


LINES = {"type": "array", "items": schema("product_id", product_id=TEXT)}
DECLARATIONS = (
    *(ToolDeclaration(name=name, description=name, parameters=schema(key, **{key: TEXT})) for name, key in _READ.items()),
    ToolDeclaration(name="cancel_order", description="x", parameters=schema("order_id", order_id=TEXT, reason=TEXT)),
    ToolDeclaration(name="return_items", description="x", parameters=schema("order_id", "method", order_id=TEXT, method=TEXT)),
    ToolDeclaration(name="exchange", description="x", parameters=schema("order_id", order_id=TEXT, items=LINES)),
)

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
class OrderDesk(RecordingDesk):
    """A `ToolServer`. A read returns what `tables` have, and a write changes the status of its order."""

    tables: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {
            "get_order": {
                "W1": {"id": "W1", "status": "pending", "user_id": "u1", "payments": [{"method": "card_1"}], "total": 25.5},
                "W2": {"id": "W2", "status": "delivered", "user_id": "u1", "payments": [{"method": "gift_1"}], "total": 5},
            },
            "get_customer": {"u1": {"name": "Ann", "methods": {"a": {"id": "card_1"}, "b": {"id": "gift_1"}}}},
            "get_product": {"p1": {"available": True, "name": "cup"}, "p2": {"available": False, "name": "hat"}},
            "find_customer": {"ann@example.com": {"user_id": "u1"}, "bob@example.com": {"user_id": "u2"}},
        }
    )
    traits_of: dict[str, dict[str, Any]] = field(default_factory=dict)

    def get_available_tools(self) -> list[str]:
        return [tool.name for tool in DECLARATIONS]

    def declarations(self) -> list[ToolDeclaration]:
        return list(DECLARATIONS)

    def traits(self, tool_name: str) -> ToolTraits:
        known = {"title": tool_name.replace("_", " ").capitalize(), "read_only": tool_name in _READ}
        return ToolTraits(**{**known, **self.traits_of.get(tool_name, {})})

    def perform(self, tool_name: str, given: dict[str, Any]) -> ToolResult:
        if tool_name in _READ:
            found = self.tables[tool_name].get(given[_READ[tool_name]])
            return failed(ToolErrorCode.NOT_FOUND, "there is no such object") if found is None else done(found)
        self.tables["get_order"][given["order_id"]]["status"] = "changed"
        return done({"order_id": given["order_id"]})

    @property
    def made(self) -> list[str]:
        """The calls that were sent, as tool and object."""
        return [f"{tool} {arguments.get('order_id') or next(iter(arguments.values()))}" for tool, arguments in self.sent]

    @property
    def written(self) -> list[str]:
        return [one for one in self.made if one.split()[0] not in _READ]


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
